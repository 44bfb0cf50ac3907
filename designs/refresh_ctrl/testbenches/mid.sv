`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, host_req = 0, host_write = 0, mode_load = 0, sleep = 0;
  logic [9:0] host_addr = 0, mode_word = 0;
  logic host_ack, usable, urgent, asleep, stuck;
  logic [2:0] command;
  logic [6:0] bus_addr, open_row;
  logic [5:0] refreshes;
  refresh_ctrl dut (.*);
  always #5 clk = ~clk;

  task automatic access(input logic w, input logic [9:0] a);
    host_req <= 1; host_write <= w; host_addr <= a; @(posedge clk);
    for (int n = 0; n < 60 && !host_ack; n++) @(posedge clk);
    host_req <= 0; @(posedge clk);
  endtask

  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    repeat (140) @(posedge clk);
    mode_load <= 1; mode_word <= 10'h1E7; @(posedge clk);
    mode_word <= 10'h2D2; @(posedge clk);
    mode_load <= 0;
    access(1, 10'h155);
    access(0, 10'h155);
    repeat (300) @(posedge clk);
    $finish;
  end
endmodule
