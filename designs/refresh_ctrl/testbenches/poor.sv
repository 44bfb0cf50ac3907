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

  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    host_req <= 1; host_addr <= 10'h015;
    repeat (150) @(posedge clk);
    if (!host_ack) $display("no answer");
    $finish;
  end
endmodule
