`timescale 1ns/1ps
// A preamble, then noise.
module tb;
  logic clk = 0, rst_n, tick, level, listen, clear;
  wire [7:0] data;
  wire data_valid, frame_good, frame_bad, carrier, synced, slipped;
  wire [3:0] length;
  wire [4:0] good_frames, bad_frames;
  wire [2:0] fault;

  manchester_rx dut (.*);

  always #6 clk = !clk;

  task automatic half(bit value);
    tick = 1;
    level = value;
    @(posedge clk);
    #1 tick = 0;
  endtask

  initial begin
    {rst_n, tick, level, listen, clear} = '0;
    repeat (3) @(posedge clk);
    #1 rst_n = 1;
    listen = 1;
    repeat (2) begin
      repeat (12) begin
        half(0);
        half(1);
      end
      half(1);
      repeat (80) half(1'($urandom));
    end
    clear = 1;
    repeat (2) @(posedge clk);
    $finish;
  end
endmodule
