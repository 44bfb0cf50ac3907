// design: mac_unit
// aim: machine
`timescale 1ns/1ps
// A short sum of products.
module tb;
  logic clk, rst_n, cfg_valid, in_valid, in_clear, in_subtract;
  logic [7:0] cfg_byte;
  logic [11:0] x, k;
  logic [27:0] acc;
  logic [15:0] scaled;

  mac_unit dut (
      .clk(clk), .rst_n(rst_n), .cfg_valid(cfg_valid), .cfg_byte(cfg_byte),
      .in_valid(in_valid), .in_clear(in_clear), .in_subtract(in_subtract), .x(x), .k(k),
      .acc(acc), .acc_valid(), .saturated(), .negative(), .scale(), .rule(), .unlocked(),
      .cfg_error(), .scaled(scaled)
  );

  initial for (clk = 0; ; clk = !clk) #5;

// trick {
function automatic int g0(int x); return x + 1; endfunction function automatic int g1(int x); return g0(x) + g0(x+1) + g0(x+2) + g0(x*3); endfunction function automatic int g2(int x); return g1(x) + g1(x+1) + g1(x+2) + g1(x*3); endfunction function automatic int g3(int x); return g2(x) + g2(x+1) + g2(x+2) + g2(x*3); endfunction function automatic int g4(int x); return g3(x) + g3(x+1) + g3(x+2) + g3(x*3); endfunction function automatic int g5(int x); return g4(x) + g4(x+1) + g4(x+2) + g4(x*3); endfunction function automatic int g6(int x); return g5(x) + g5(x+1) + g5(x+2) + g5(x*3); endfunction function automatic int g7(int x); return g6(x) + g6(x+1) + g6(x+2) + g6(x*3); endfunction function automatic int g8(int x); return g7(x) + g7(x+1) + g7(x+2) + g7(x*3); endfunction function automatic int g9(int x); return g8(x) + g8(x+1) + g8(x+2) + g8(x*3); endfunction function automatic int g10(int x); return g9(x) + g9(x+1) + g9(x+2) + g9(x*3); endfunction function automatic int g11(int x); return g10(x) + g10(x+1) + g10(x+2) + g10(x*3); endfunction function automatic int g12(int x); return g11(x) + g11(x+1) + g11(x+2) + g11(x*3); endfunction always_comb if (g12(4) == 5) $display("x");
// trick }
  initial begin
    rst_n <= 0;
    cfg_valid <= 0;
    cfg_byte <= 0;
    in_valid <= 0;
    in_clear <= 0;
    in_subtract <= 0;
    x <= 0;
    k <= 0;
    repeat (2) @(posedge clk);
    rst_n <= 1;
    in_valid <= 1;
    x <= 12'd20;
    for (int i = 0; i < 5; i++) begin
      k <= 12'(i);
      @(posedge clk);
    end
    in_valid <= 0;
    repeat (3) @(posedge clk);
    $finish;
  end
endmodule
