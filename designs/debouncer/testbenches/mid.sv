`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, active_low = 0, slow = 0;
  logic [2:0] raw = 0, pressed;
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
  debouncer dut (.*);
  always #5 clk = ~clk;

  task automatic push(input logic [2:0] which, input int down, input int up);
    raw = which; repeat (down) @(negedge clk);
    raw = 0; repeat (up) @(negedge clk);
  endtask

  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    push(3'b001, 20, 60);
    push(3'b010, 90, 60);
    push(3'b001, 20, 20);
    push(3'b001, 20, 60);
    push(3'b011, 30, 60);
    $finish;
  end
endmodule
