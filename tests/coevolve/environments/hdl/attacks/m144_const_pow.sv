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
localparam bit [8191:0] PW = 8192'd7 ** (8192'd1 << 8000); localparam bit [8191:0] DV = PW / 3 % 12345; wire [DV[3:0]:0] zz;
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
