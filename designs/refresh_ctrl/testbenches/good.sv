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
    for (int n = 0; n < 90 && !host_ack; n++) @(posedge clk);
    host_req <= 0; @(posedge clk);
  endtask
  task automatic idle(input int n);
    repeat (n) @(posedge clk);
  endtask
  task automatic mode(input logic [9:0] word);
    mode_load <= 1; mode_word <= word; @(posedge clk);
    mode_load <= 0; mode_word <= 0; @(posedge clk);
  endtask
  task automatic start(input logic [9:0] word);
    rst <= 1; idle(2); rst <= 0; idle(140);
    mode(10'h1E7); mode(word);
  endtask

  initial begin
    idle(2); rst <= 0;
    // too early: mode, request, sleep
    mode(10'h2D2); host_req <= 1; host_addr <= 10'h3FF; idle(60); host_req <= 0;
    sleep <= 1; idle(90); sleep <= 0;
    host_req <= 1; idle(5); host_req <= 0;
    mode(10'h2D2); mode(10'h1E7); mode(10'h2D2); host_req <= 1; idle(20); host_req <= 0;
    start(10'h2C2); mode(10'h2D2); host_req <= 1; idle(20); host_req <= 0;
    start(10'h2D2);
    // all rows, open page: hits, other rows, forgotten row
    mode(10'h2DF);
    for (int r = 0; r < 7; r++) begin access(r[0], 10'd8 << r); access(~r[0], 10'h007 | (10'd8 << r)); end
    access(0, 10'h3FF); access(1, 10'h3F8); access(1, 10'h000);
    access(0, 10'h008); access(0, 10'h208); access(0, 10'h3F8);
    idle(29); access(0, 10'h001); idle(31); access(0, 10'h002); idle(60);
    // a refresh while nothing else is wanted
    idle(450);
    // refreshes pile up while one row is used without end, also at the very moment of a refresh
    repeat (140) begin access(0, 10'h123); access(1, 10'h124); end
    idle(100);
    host_req <= 1; host_addr <= 10'h055; idle(1900); host_req <= 0; idle(40);
    // sleep: rows closed, row open, with a request, with refreshes owed
    sleep <= 1; idle(250); sleep <= 0; idle(60);
    access(0, 10'h200); sleep <= 1; idle(30); sleep <= 0; idle(50);
    host_req <= 1; sleep <= 1; idle(300); sleep <= 0; idle(60); host_req <= 0;
    idle(130);
    for (int n = 0; n < 60; n++) access(0, 10'h208); sleep <= 1; idle(60); sleep <= 0; idle(60);
    // closed page, slowest and fastest; refresh falls due in every phase
    start(10'h2DF);
    for (int n = 0; n < 60; n++) access(n[0], 10'h3A0 + n[9:0]);
    idle(40);
    start(10'h2D8);
    for (int n = 0; n < 90; n++) access(n[1], 10'h050 + (n[9:0] << 3));
    // mode with latency zero; up to seven refreshes owed
    start(10'h2D7);
    for (int k = 0; k < 3; k++) begin
      for (int n = 0; n < 80; n++) access(0, {n[6:0], 3'd0});
      idle(10);
    end
    // many refreshes, to turn the counter over; sleeping is the quick way
    for (int n = 0; n < 45; n++) begin
      sleep <= 1; idle(4); sleep <= 0; idle(24);
    end
    for (int n = 0; n < 25; n++) begin
      sleep <= 1; idle(4); sleep <= 0; idle(36);
    end
    rst <= 1; idle(2);
    $finish;
  end
endmodule
