`timescale 1ns/1ps
// Every legal operation once, on three pairs of operands.
module tb;
  logic clk = 1'b0;
  logic rst_n = 1'b0;
  logic valid = 1'b0;
  logic [4:0] op = '0;
  logic [15:0] a = '0, b = '0;
  wire [15:0] y, signature;
  wire y_valid, carry, zero, negative, overflow, illegal, busy;

  alu16 dut (.*);

  always #1 clk = ~clk;

  initial begin
    #6 rst_n = 1'b1;
    for (int code = 0; code <= 16; code++) begin
      @(negedge clk) valid = 1'b1;
      op = 5'(code);
      a = 16'h00F3;
      b = 16'h0005;
      @(negedge clk) a = 16'h1234;
      b = 16'h4321;
      @(negedge clk) b = 16'h1234;
    end
    @(negedge clk) valid = 1'b0;
    #4 $finish;
  end
endmodule
