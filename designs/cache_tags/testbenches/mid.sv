`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, req = 0, mem_ack = 1;
  logic [1:0] op = 0;
  logic [7:0] addr = 0, mem_addr;
  logic ready, done, hit, way, denied, mem_fetch, mem_evict;
  logic [5:0] hits, misses;
  cache_tags dut (.*);
  always #5 clk = ~clk;

  task automatic access(input logic [1:0] o, input logic [7:0] a);
    req = 1; op = o; addr = a;
    @(negedge clk) req = 0;
    repeat (5) @(negedge clk);
  endtask

  initial begin
    @(negedge clk) rst_n = 1;
    repeat (6) @(negedge clk);
    access(0, 8'h10); access(1, 8'h10); access(0, 8'h20);
    access(0, 8'h30); access(0, 8'h10);
    access(1, 8'h41); access(0, 8'h41); access(3, 8'h00);
    $finish;
  end
endmodule
