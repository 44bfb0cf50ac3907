`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, req = 0, mem_ack = 0;
  logic [1:0] op = 0;
  logic [7:0] addr = 0, mem_addr;
  logic ready, done, hit, way, denied, mem_fetch, mem_evict;
  logic [5:0] hits, misses;
  cache_tags dut (.*);
  always #5 clk = ~clk;

  initial begin
    @(negedge clk) rst_n = 1;
    repeat (6) @(negedge clk);
    req = 1; addr = 8'h10;
    @(negedge clk) req = 0;
    repeat (3) @(negedge clk);
    mem_ack = 1;
    @(negedge clk) mem_ack = 0;
    repeat (3) @(negedge clk);
    $finish;
  end
endmodule
