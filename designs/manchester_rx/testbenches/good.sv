`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n, tick, level, listen, clear;
  wire [7:0] data;
  wire data_valid, frame_good, frame_bad, carrier, synced, slipped;
  wire [3:0] length;
  wire [4:0] good_frames, bad_frames;
  wire [2:0] fault;
  logic [7:0] check;

  manchester_rx dut (.*);

  always #6 clk = !clk;

  task automatic half(bit value);
    tick = 1;
    level = value;
    @(posedge clk);
    #1 tick = 0;
    if ($urandom_range(15) == 0) begin
      @(posedge clk);
      #1;
    end
  endtask

  task automatic send_bits(int value, int count);
    for (int i = count - 1; i >= 0; i--) begin
      half(!value[i]);
      half(value[i]);
    end
  endtask

  task automatic start_frame(int preamble, int sync);
    repeat (preamble) send_bits(1, 1);
    send_bits(sync, 16);
  endtask

  task automatic payload(int count);
    check = 8'(count);
    send_bits(count, 8);
    repeat (count) begin
      automatic logic [7:0] value = 8'($urandom);
      send_bits(32'(value), 8);
      check = {check[6:0], check[7]} ^ value;
    end
  endtask

  task automatic whole_frame(int count);
    start_frame($urandom_range(10, 14), 16'h2DD4);
    payload(count);
    send_bits(32'(check), 8);
  endtask

  initial begin
    {rst_n, tick, level, listen, clear} = '0;
    repeat (3) @(posedge clk);
    #1 rst_n = 1;
    repeat (4) half(1);
    listen = 1;
    @(posedge clk);
    #1;
    for (int n = 1; n <= 8; n++) whole_frame(n);
    // Not in step: the receiver slips by half a symbol.
    half(0);
    half(0);
    half(1);
    half(1);
    whole_frame(3);
    // Too few ones; interrupted training; no sync word; illegal symbols in each part.
    repeat (9) send_bits(1, 1);
    send_bits(0, 3);
    repeat (12) send_bits(1, 1);
    half(1);
    half(1);
    send_bits(0, 1);
    start_frame(12, 16'h2DD5);
    send_bits(0, 30);
    start_frame(12, 16'h1DD4);
    send_bits(0, 30);
    repeat (10) send_bits(1, 1);
    send_bits(0, 2);
    repeat (2) half(0);
    start_frame(11, 16'h2DD4);
    send_bits(1, 3);
    repeat (2) half(1);
    start_frame(11, 16'h2DD4);
    send_bits(4, 8);
    send_bits(8'hA5, 8);
    repeat (3) half(0);
    // Lengths nobody may send.
    start_frame(10, 16'h2DD4);
    send_bits(0, 8);
    for (int bad = 9; bad < 256; bad += 41) begin
      start_frame(10, 16'h2DD4);
      send_bits(bad, 8);
    end
    // A wrong sum makes it deaf until the next look at `listen`.
    start_frame(16, 16'h2DD4);
    payload(2);
    listen = 0;
    send_bits(32'(check) ^ 8'h10, 8);
    whole_frame(1);
    listen = 1;
    whole_frame(1);
    repeat (40) whole_frame($urandom_range(1, 2));
    repeat (40) begin
      start_frame(10, 16'h2DD4);
      send_bits(255, 8);
    end
    listen = 0;
    repeat (6) half(0);
    clear = 1;
    repeat (2) @(posedge clk);
    #1 clear = 0;
    listen = 1;
    whole_frame(8);
    rst_n = 0;
    repeat (2) @(posedge clk);
    $finish;
  end
endmodule
