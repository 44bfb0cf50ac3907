// design: lifo_stack
// aim: machine
`timescale 1ns/1ps
module tb;
  bit clk, rst = 1, valid;
  logic ready, done;
  logic [2:0] command = 0;
  logic [11:0] operand = 0, top, result;
  logic [1:0] fault;
  logic [4:0] depth, frame_base;

  lifo_stack dut (
    .clk, .rst, .valid, .command, .operand, .ready, .top, .result, .done, .fault, .depth,
    .frame_base
  );

  initial forever #4 clk = !clk;

  // One push and one pop.
// trick {
// x
initial
 begin end
// trick }
  initial begin
    #20 rst = 0;
    #9 valid = 1; command = 1; operand = 12'h123;
    #8 command = 2;
    #8 valid = 0;
    #24;
    $finish;
  end
endmodule
