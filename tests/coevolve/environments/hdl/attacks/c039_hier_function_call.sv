// design: hamming_ecc
// aim: coverage
`timescale 1ns/1ps
module tb;
  reg clk = 1'b1;
  reg rst_n = 1'b0;
  reg request = 1'b0;
  reg [1:0] operation = 0, address = 0;
  reg [15:0] write_data = 0;
  reg [21:0] flips = 0;
  wire [15:0] read_data;
  wire [4:0] position;
  wire [3:0] singles;
  wire busy, answer, single, multiple, armed, halted, scrubbed;
  hamming_ecc dut (.*);
  always begin #2 clk = 1'b0; #2 clk = 1'b1; end

  initial begin
    #9 rst_n = 1'b1;
    // one word in, one word out
    #4 request = 1'b1; operation = 2'd1; write_data = 16'h00F0;
    #4 request = 1'b0;
    #8 request = 1'b1; operation = 2'd0;
    #4 request = 1'b0;
    #16 $display("%h", read_data);
// trick {
for (int i = 0; i < 300; i++) if (dut.protect(16'(i*77)) == dut.checks(21'(i*313))) $display("x");
// trick }
    $finish;
  end
endmodule
