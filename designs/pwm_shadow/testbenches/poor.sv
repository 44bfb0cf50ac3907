`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, wr = 0, trip = 0;
  logic [2:0] addr = 0;
  logic [9:0] wdata = 0, position;
  logic pwm_h, pwm_l, period_end, pending, tripped;
  pwm_shadow dut (.*);
  always #5 clk = ~clk;

  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    wr <= 1; addr <= 0; wdata <= 10'd12; @(posedge clk);
    addr <= 1; wdata <= 10'd6; @(posedge clk);
    wr <= 0;
    repeat (40) @(posedge clk);
    $finish;
  end
endmodule
