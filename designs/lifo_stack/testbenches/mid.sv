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

  // Pushes, a swap, a peek and pops, each once or a few times.
  initial begin
    #20 rst = 0;
    @(negedge clk);
    valid = 1;
    command = 1;
    for (int i = 1; i < 6; i++) begin
      operand = 12'(i * 273);
      @(negedge clk);
    end
    command = 3;
    operand = 2;
    @(negedge clk);
    command = 4;
    repeat (2) @(negedge clk);
    command = 2;
    repeat (4) @(negedge clk);
    valid = 0;
    @(negedge clk);
    $finish;
  end
endmodule
