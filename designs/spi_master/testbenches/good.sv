`timescale 1ns/1ps
module tb;
  reg clk = 0, rst = 1, start = 0, abort = 0, more = 0, cpol = 0, cpha = 0, lsb_first = 0, wide = 0;
  reg [2:0] divider = 0;
  reg [15:0] tx_word = 0;
  reg miso = 0;
  wire sclk, mosi, cs_n, busy, done, burst_full, late;
  wire [15:0] rx_word;
  wire [3:0] burst;

  spi_master dut (.*);

  always #5 clk = ~clk;
  always @(negedge clk) miso = 1'($urandom);

  task automatic request(bit chain);
    start = 1;
    more = chain;
    tx_word = 16'($urandom);
    @(negedge clk) start = 0;
  endtask

  task automatic until_done();
    for (int i = 0; i < 400 && !done; i++) @(negedge clk);
  endtask

  task automatic until_rest();
    for (int i = 0; i < 400 && busy; i++) @(negedge clk);
  endtask

  // Mode, order and width from five bits.
  task automatic choose(int bits, int rate);
    {cpol, cpha, lsb_first, wide} = 4'(bits);
    divider = 3'(rate);
  endtask

  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    for (int round = 0; round < 8; round++)
      for (int bits = 0; bits < 16; bits++) begin
        choose(bits, (bits + round) & (round == 0 ? 7 : 1));
        request(0);
        choose(~bits, 0);
        until_rest();
      end
    // Bursts: of three, too long, and one that is left waiting.
    choose(5, 0);
    request(1);
    until_done();
    choose(10, 3);
    request(1);
    until_done();
    repeat (5) @(negedge clk);
    request(0);
    until_rest();
    choose(0, 0);
    repeat (18) begin
      request(1);
      until_done();
    end
    until_rest();
    choose(1, 2);
    request(1);
    until_rest();
    // Aborted while leading, between bits, in the last bit, between words, at rest.
    abort = 1;
    @(negedge clk);
    request(1);
    until_rest();
    for (int n = 1; n < 40; n += 3) begin
      abort = 0;
      choose(n, 1);
      request(1);
      repeat (n) @(negedge clk);
      abort = 1;
      until_rest();
    end
    abort = 0;
    request(0);
    repeat (3) request(1);
    until_rest();
    rst = 1;
    @(negedge clk);
    $finish;
  end
endmodule
