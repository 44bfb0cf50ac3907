`timescale 1ns/1ps
module tb;
  bit clk, rst = 1, valid;
  logic ready, done;
  logic [2:0] command = 0;
  logic [11:0] operand = 0, top, result;
  logic [1:0] fault;
  logic [4:0] depth, frame_base;

  localparam PUSH = 1, POP = 2, PEEK = 3, SWAP = 4, DROP = 5, ENTER = 6, LEAVE = 7;

  lifo_stack dut (
    .clk, .rst, .valid, .command, .operand, .ready, .top, .result, .done, .fault, .depth,
    .frame_base
  );

  initial forever #4 clk = !clk;

  // Issue a command and wait, for a bounded time, until the stack takes the next one.
  task automatic issue(int what, int value = 0);
    valid = 1;
    command = 3'(what);
    operand = 12'(value);
    @(negedge clk);
    valid = 0;
    for (int i = 0; i < 20 && !ready; i++) @(negedge clk);
  endtask

  task automatic fill(int words);
    repeat (words) issue(PUSH, $urandom);
  endtask

  task automatic strike_out();
    repeat (6) issue(POP);
    repeat (2) @(negedge clk);
  endtask

  initial begin
    repeat (3) @(negedge clk);
    rst = 0;
    @(negedge clk);
    issue(0, 5);
    issue(ENTER);
    issue(LEAVE);
    issue(POP);
    issue(SWAP);
    issue(PEEK, 0);
    issue(DROP, 1);
    fill(1);
    issue(SWAP);
    // A frame: what lies below its base is out of reach.
    fill(3);
    issue(ENTER);
    issue(ENTER);
    issue(POP);
    issue(PEEK, 1);
    issue(DROP, 1);
    fill(3);
    issue(PEEK, 2);
    issue(SWAP);
    issue(DROP, 0);
    issue(DROP, 2);
    issue(LEAVE);
    // All sixteen cells, several times over, erased and refilled.
    repeat (6) begin
      fill(16);
      for (int i = 0; i < 16; i++) issue(PEEK, i);
      issue(SWAP);
      issue(PUSH, 12'hFFF);
      issue(ENTER);
      issue(LEAVE);
      issue(DROP, 16);
    end
    for (int i = 0; i < 16; i++) begin
      fill(i + 1);
      issue(ENTER);
      issue(LEAVE);
      issue(ENTER);
      issue(DROP, 12'h800);
      issue(LEAVE);
      repeat (i + 1) issue(POP);
    end
    // Six strikes; every wrong way out, then the right one.
    strike_out();
    issue(POP, 12'h5AF);
    issue(LEAVE, 12'h5AE);
    command = LEAVE;
    operand = 12'h5AF;
    @(negedge clk);
    issue(LEAVE, 12'h5AF);
    fill(17);
    issue(PUSH, 1);
    issue(DROP, 3);
    repeat (5) issue(PUSH, 12'hAAA);
    rst = 1;
    repeat (2) @(negedge clk);
    $finish;
  end
endmodule
