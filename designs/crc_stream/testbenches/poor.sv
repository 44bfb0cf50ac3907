`timescale 1ns/1ps
module tb;
  bit clk = 0;
  bit rst = 1;
  bit [2:0] command = 0;
  bit [15:0] operand = 0;
  wire ready, done, equal, misuse, overflow;
  wire [15:0] result;
  wire [7:0] amount;
  crc_stream dut (.clk, .rst, .command, .operand, .ready, .done, .equal, .misuse, .result, .amount,
                  .overflow);
  initial forever #3 clk = ~clk;

  // sets a polynomial and asks for bytes at once
  initial begin
    #20 rst = 0;
    @(negedge clk) command = 1; operand = 16'h1021;
    @(negedge clk) command = 4;
    @(negedge clk) command = 5; operand = 16'h0031;
    repeat (12) @(negedge clk) command = 0;
    $finish;
  end
endmodule
