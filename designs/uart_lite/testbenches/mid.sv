`timescale 1ns/1ps
// The transmitter talks to the receiver, three bytes with the settings of reset.
module tb;
  logic clk = 0, rst_n = 0;
  logic setup = 0, two_stops = 0, tx_start = 0;
  logic [3:0] divisor = 4, errors;
  logic [1:0] parity = 0;
  logic [7:0] tx_data = 0, rx_data;
  logic tx_busy, txd, rx_valid, parity_error, framing_error, line_break;

  uart_lite dut (.rxd(txd), .*);

  always #10 clk = ~clk;

  initial begin
    repeat (4) @(negedge clk);
    rst_n = 1;
    for (int i = 0; i < 3; i++) begin
      @(negedge clk);
      tx_data = 8'h35 << i;
      tx_start = 1;
      @(negedge clk);
      tx_start = 0;
      wait (!tx_busy);
      repeat (10) @(negedge clk);
    end
    $finish;
  end
endmodule
