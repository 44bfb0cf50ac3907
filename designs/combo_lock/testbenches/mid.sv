`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, key_hit = 0, door_shut = 1;
  logic [3:0] key = 0;
  logic bolt_free, beep, locked_out, duress, tamper;
  logic [2:0] digits;
  logic [9:0] penalty;
  combo_lock dut (.*);
  always #5 clk = ~clk;

  task automatic hit(input logic [3:0] k);
    @(negedge clk) key_hit = 1; key = k;
    @(negedge clk) key_hit = 0;
  endtask
  task automatic try_code(input logic [15:0] c);
    hit(c[15:12]); hit(c[11:8]); hit(c[7:4]); hit(c[3:0]); hit(11);
    repeat (3) @(negedge clk);
  endtask

  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    try_code(16'h4715);
    repeat (4) @(negedge clk);
    door_shut = 0; repeat (4) @(negedge clk);
    door_shut = 1; repeat (20) @(negedge clk);
    repeat (3) try_code(16'h9999);
    repeat (100) @(negedge clk);
    hit(3); hit(10);
    $finish;
  end
endmodule
