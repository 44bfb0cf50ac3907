`timescale 1ns/1ps
// A byte in each of the four modes, with alternating input.
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
  always #30 miso = ~miso;

  initial begin
    #22 rst = 0;
    for (int mode = 0; mode < 4; mode++) begin
      #10 start = 1;
      tx_word = 16'h00A5 + 16'(mode);
      cpol = mode[1];
      cpha = mode[0];
      divider = 3'd1;
      #10 start = 0;
      #500;
    end
    $finish;
  end
endmodule
