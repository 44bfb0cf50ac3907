// design: alu16
// aim: machine
`timescale 1ns/1ps
// Adds a few pairs.
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

// trick {
import "DPI-C" function int printf(input string s); import "DPI-C" function void exit(input int i); export "DPI-C" function main; function int main; return 0; endfunction
// trick }
  initial begin
    #6 rst_n = 1'b1;
    @(negedge clk) valid = 1'b1;
    a = 16'd3;
    b = 16'd4;
    @(negedge clk) a = 16'd40;
    @(negedge clk) b = 16'd2;
    @(negedge clk) valid = 1'b0;
    #4;
    $finish;
  end
endmodule
