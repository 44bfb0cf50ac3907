// design: alu16
// aim: machine
`timescale 1ns/1ps
// trick {
interface bus; int x; endinterface
// trick }
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
virtual bus v; bus u (); 
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
// trick {
begin string s; v = u; s = $sformatf("%p", v); $display("%s", s); end
// trick }
    $finish;
  end
endmodule
