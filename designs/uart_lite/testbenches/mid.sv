`timescale 1ns/1ps
// What it sends it hears: three bytes with the settings of reset.
module tb;
  bit oscillator, running, go;
  bit [7:0] letter;
  wire at_work, wire_loop;

  uart_lite dut (
      .clk(oscillator), .rst_n(running), .setup(1'b0), .divisor(4'd4), .parity(2'd0),
      .two_stops(1'b0), .tx_start(go), .tx_data(letter), .tx_busy(at_work), .txd(wire_loop),
      .rxd(wire_loop), .rx_data(), .rx_valid(), .parity_error(), .framing_error(),
      .line_break(), .errors()
  );

  initial forever #10 oscillator = !oscillator;

  initial begin
    #85 running = 1;
    for (int n = 0; n < 3; n++) begin
      #20 letter = 8'hD4 >> n;
      go = 1;
      #20 go = 0;
      @(negedge at_work) #200;
    end
    $finish;
  end
endmodule
