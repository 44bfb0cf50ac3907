`timescale 1ns/1ps
// Listens to a square wave.
module tb;
  logic clk = 0, rst_n, tick, level, listen, clear;
  wire [7:0] data;
  wire data_valid, frame_good, frame_bad, carrier, synced, slipped;
  wire [3:0] length;
  wire [4:0] good_frames, bad_frames;
  wire [2:0] fault;

  manchester_rx dut (.*);

  always #6 clk = !clk;

  initial begin
    {rst_n, tick, level, listen, clear} = '0;
    repeat (3) @(posedge clk);
    #1 rst_n = 1;
    listen = 1;
    repeat (12) begin
      @(posedge clk);
      #1 tick = !tick;
      if (tick) level = !level;
    end
    $finish;
  end
endmodule
