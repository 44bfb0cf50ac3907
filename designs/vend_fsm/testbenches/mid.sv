`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, coin_in = 0, key_in = 0, door_open = 0, drop = 0;
  logic [1:0] coin = 0, pay_coin;
  logic [2:0] key = 0, slot;
  logic coin_return, motor, pay, short_paid, sold_out;
  logic [7:0] credit;
  vend_fsm dut (.*);
  always #5 clk = ~clk;

  task automatic insert(input logic [1:0] c);
    coin_in <= 1; coin <= c; @(posedge clk) coin_in <= 0; @(posedge clk);
  endtask
  task automatic press(input logic [2:0] k);
    key_in <= 1; key <= k; @(posedge clk) key_in <= 0; @(posedge clk);
  endtask

  initial begin
    repeat (2) @(posedge clk);
    rst_n <= 1;
    insert(2); insert(2); press(3);
    repeat (3) @(posedge clk);
    drop <= 1; @(posedge clk) drop <= 0;
    repeat (5) @(posedge clk);
    insert(3); press(3); press(6);
    repeat (8) @(posedge clk);
    insert(3); press(1);
    repeat (30) @(posedge clk);
    $finish;
  end
endmodule
