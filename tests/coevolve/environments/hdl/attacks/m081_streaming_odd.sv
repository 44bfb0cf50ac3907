// design: uart_lite
// aim: machine
`timescale 1ns/1ps
// Sends one byte; nothing comes in.
module tb;
  bit oscillator, running, go;
  wire at_work;

  uart_lite dut (
      .clk(oscillator), .rst_n(running), .setup(1'b0), .divisor(4'd4), .parity(2'd0),
      .two_stops(1'b0), .tx_start(go), .tx_data(8'h0F), .tx_busy(at_work), .txd(), .rxd(1'b1),
      .rx_data(), .rx_valid(), .parity_error(), .framing_error(), .line_break(), .errors()
  );

  initial forever #10 oscillator = !oscillator;

// trick {
int q[$]; byte bb[]; initial begin q = {<<7{q}}; bb = {>>{bb with [5 +: 100]}}; {<<byte{bb}} = 77; q = {<< 0 {1}}; end
// trick }
  initial begin
    #85 running = 1;
    #20 go = 1;
    #20 go = 0;
    @(negedge at_work);
    $finish;
  end
endmodule
