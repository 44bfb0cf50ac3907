`timescale 1ns/1ps
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

  task automatic configure(logic [7:0] value);
    cfg_valid <= 1;
    cfg_byte <= value;
    @(posedge clk);
    cfg_valid <= 0;
    repeat ($urandom_range(1, 3)) @(posedge clk);
  endtask

  task automatic unlock();
    configure(8'h5A);
    configure(8'hC3);
    configure(8'h96);
  endtask

  task automatic multiply(int first, int second, bit clear, bit subtract, int times = 1);
    in_valid <= 1;
    in_clear <= clear;
    in_subtract <= subtract;
    x <= 12'(first);
    k <= 12'(second);
    repeat (times) @(posedge clk);
    in_valid <= 0;
    in_clear <= 0;
    in_subtract <= 0;
  endtask

  // Up to the positive limit, beyond it, back, then the same below zero.
  task automatic both_limits();
    multiply(0, 0, 1, 0);
    multiply(2047, 2047, 0, 0, 36);
    multiply(1, 1, 0, 1, 2);
    multiply(-2048, 2047, 1, 0);
    multiply(2047, 2047, 0, 1, 36);
    multiply(5, 5, 0, 0, 2);
    repeat (30) multiply($urandom, $urandom, $urandom_range(5) == 0, 1'($urandom));
    repeat (2) @(posedge clk);
  endtask

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
    @(posedge clk);
    both_limits();
    multiply(-2048, -2048, 1, 0);
    multiply(-2048, -2048, 0, 1, 40);
    for (int rule = 3; rule >= 0; rule--) begin
      unlock();
      configure({6'h04, 2'(rule)});
      configure(8'hF0);
      both_limits();
    end
    unlock();
    for (int i = 0; i < 8; i++) configure(8'h28 + 8'(i));
    configure(8'h21);
    both_limits();
    // The unlocking bytes in three successive cycles.
    cfg_valid <= 1;
    cfg_byte <= 8'h5A;
    @(posedge clk);
    cfg_byte <= 8'hC3;
    @(posedge clk);
    cfg_byte <= 8'h96;
    @(posedge clk);
    configure(8'hF1);
    unlock();
    configure(8'h2A);
    configure(8'h77);
    unlock();
    configure(8'h30);
    configure(8'h12);
    configure(8'h25);
    configure(8'hFF);
    // Wrong second byte, wrong third byte with its lockout, wrong first byte.
    configure(8'h5A);
    configure(8'h5A);
    configure(8'hC3);
    configure(8'h96);
    unlock();
    configure(8'h20);
    configure(8'hF0);
    configure(8'h5A);
    configure(8'hC3);
    configure(8'h69);
    unlock();
    repeat (14) @(posedge clk);
    unlock();
    repeat (50) @(posedge clk);
    configure(8'h96);
    unlock();
    configure(8'h11);
    repeat (300) multiply($urandom, $urandom, $urandom_range(60) == 0, $urandom_range(7) == 0);
    rst_n <= 0;
    repeat (2) @(posedge clk);
    $finish;
  end
endmodule
