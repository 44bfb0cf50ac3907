// design: spi_master
// aim: machine
`timescale 1ns/1ps
// One byte in mode 0.
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

// trick {
int n4[string][$][][int]; initial begin n4["a"].push_back('{}); n4["a"][0] = new[3]; n4["a"][0][1][7] = 5; $display("%p", n4); n4 = '{default: '{}}; end
// trick }
  initial begin
    #22 rst = 0;
    #10 start = 1;
    tx_word = 16'h009C;
    #10 start = 0;
    #260;
    $finish;
  end
endmodule
