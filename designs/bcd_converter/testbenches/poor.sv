`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 1, go = 0, to_binary = 0, blanking = 0, cancel = 0;
  logic [13:0] binary_in = 0, binary_out;
  logic [15:0] digits_in = 0, digits_out;
  logic idle, done, too_big, not_decimal, steady;
  logic [3:1] blank;
  logic [3:0] wrong_digit, good_in_row;

  bcd_converter dut (.*);

  always begin
    #3 clk = 1;
    #3 clk = 0;
  end

  // One small number to decimal.
  initial begin
    #1 rst_n = 0;
    #7 rst_n = 1;
    #10 binary_in = 14'd5;
    go = 1;
    @(negedge clk);
    @(negedge clk) go = 0;
    #60 $finish;
  end
endmodule
