// design: alu16
// aim: machine
`timescale 1ns/1ps
// trick {
`define A0 1,1,1,1,1,1,1,1,1,1
`define A1 `A0,`A0,`A0,`A0,`A0,`A0,`A0,`A0,`A0,`A0
`define A2 `A1,`A1,`A1,`A1,`A1,`A1,`A1,`A1,`A1,`A1
`define A3 `A2,`A2,`A2,`A2,`A2,`A2,`A2,`A2,`A2,`A2
`define A4 `A3,`A3,`A3,`A3,`A3,`A3,`A3,`A3,`A3,`A3
`define A5 `A4,`A4,`A4,`A4,`A4,`A4,`A4,`A4,`A4,`A4
`define A6 `A5,`A5,`A5,`A5,`A5,`A5,`A5,`A5,`A5,`A5
`define A7 `A6,`A6,`A6,`A6,`A6,`A6,`A6,`A6,`A6,`A6
`define A8 `A7,`A7,`A7,`A7,`A7,`A7,`A7,`A7,`A7,`A7
`define A9 `A8,`A8,`A8,`A8,`A8,`A8,`A8,`A8,`A8,`A8
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
int mb[] = '{`A9};
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
