`timescale 1ns/1ps
// Sends two words from A to output 0.
module tb;
  bit clk, rst, a_valid, b_valid;
  bit [1:0] a_dest, b_dest, out_ready;
  bit [7:0] a_data, b_data;
  wire a_ready, b_ready, crossed;
  wire [1:0] out_valid, stuck;
  wire [8:0] out0, out1;
  wire [5:0] spilled;

  crossbar2 dut (.*);

  always #8 clk++;

  initial begin
    rst <= 1;
    #40 rst <= 0;
    out_ready <= 2'b01;
    a_valid <= 1;
    a_data <= 8'h42;
    #16 a_data <= 8'h43;
    #16 a_valid <= 0;
    #48 $finish;
  end
endmodule
