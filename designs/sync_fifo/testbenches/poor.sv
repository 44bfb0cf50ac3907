`timescale 1ns/1ps
// Two words in, one word out.
module tb;
  logic clk = 0, rst_n = 0, flush = 0, push = 0, pop = 0;
  logic [15:0] wdata = 0, rdata;
  logic level_we = 0, clear_flags = 0;
  logic [3:0] level_high = 0, level_low = 0, count, peak;
  logic full, empty, almost_full, almost_empty, overflow, underflow, stalled;
  logic [5:0] lost;

  sync_fifo dut (.*);

  always #5 clk = ~clk;

  initial begin
    repeat (2) @(posedge clk);
    rst_n <= 1;
    @(posedge clk);
    push <= 1;
    wdata <= 16'h0011;
    @(posedge clk);
    wdata <= 16'h0022;
    @(posedge clk);
    push <= 0;
    pop <= 1;
    @(posedge clk);
    pop <= 0;
    @(posedge clk);
    $finish;
  end
endmodule
