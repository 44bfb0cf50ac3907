`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0;
  logic setup = 0, two_stops = 0, tx_start = 0, loop_back = 1, line = 1;
  logic [3:0] divisor = 4, errors;
  logic [1:0] parity = 0;
  logic [7:0] tx_data = 0, rx_data;
  logic tx_busy, txd, rx_valid, parity_error, framing_error, line_break;
  int bit_cycles = 8;

  uart_lite dut (.rxd(loop_back ? txd : line), .*);

  always #10 clk = ~clk;

  task automatic configure(int div, int mode, bit stops);
    setup = 1;
    divisor = 4'(div);
    parity = 2'(mode);
    two_stops = stops;
    @(negedge clk);
    setup = 0;
    if (div >= 3) bit_cycles = div + 1;
  endtask

  task automatic transmit(logic [7:0] value);
    tx_data = value;
    tx_start = 1;
    @(negedge clk);
    tx_start = 0;
    while (tx_busy) @(negedge clk);
    repeat (bit_cycles + 4) @(negedge clk);
  endtask

  task automatic level(bit value, int cycles);
    line = value;
    repeat (cycles) @(negedge clk);
  endtask

  // A frame made by hand: eight data bits, a parity bit (2: none), a stop bit.
  task automatic frame(logic [7:0] value, int parity_bit, bit stop);
    level(0, bit_cycles);
    for (int i = 0; i < 8; i++) level(value[i], bit_cycles);
    if (parity_bit < 2) level(1'(parity_bit), bit_cycles);
    level(stop, bit_cycles);
    level(1, 2 * bit_cycles);
  endtask

  initial begin
    repeat (4) @(negedge clk);
    rst_n = 1;
    @(negedge clk);
    transmit(8'h55);
    configure(2, 3, 1);
    transmit(8'hA1);
    for (int mode = 0; mode < 4; mode++) begin
      configure(4 + mode, mode, mode[0]);
      transmit(8'h00);
      transmit(8'hFF);
      transmit(8'($urandom));
      transmit(8'h80 >> mode);
    end
    configure(15, 0, 0);
    transmit(8'hC3);
    configure(8, 2, 1);
    // Settings and data that come while it sends are ignored.
    tx_start = 1;
    tx_data = 8'h5A;
    repeat (20) @(negedge clk);
    tx_data = 8'hFF;
    configure(3, 0, 0);
    bit_cycles = 9;
    tx_start = 0;
    while (tx_busy) @(negedge clk);
    repeat (12) @(negedge clk);
    // By hand: glitch, wrong parity of each kind, wrong stop, breaks.
    loop_back = 0;
    level(0, 2);
    level(1, 20);
    level(0, 7);
    configure(3, 0, 0);
    bit_cycles = 9;
    level(1, 120);
    for (int mode = 1; mode < 4; mode++) begin
      configure(5, mode, 0);
      frame(8'h07, 0, 1);
      frame(8'h07, 1, 1);
      frame(8'hF0, 0, 1);
      frame(8'hF0, 1, 1);
      frame(8'hF0, 0, 0);
    end
    configure(3, 0, 0);
    frame(8'h00, 2, 0);
    level(0, 100);
    level(1, 20);
    repeat (20) frame(8'h40, 2, 0);
    frame(8'h99, 2, 1);
    // Both directions at once.
    loop_back = 1;
    repeat (10) transmit(8'($urandom));
    rst_n = 0;
    repeat (2) @(negedge clk);
    $finish;
  end
endmodule
