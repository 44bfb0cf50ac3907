// design: seq_divider
// aim: machine
`timescale 1ns/1ps
// Reset, and a division by zero.
module tb;
  bit clk = 0, rst = 1, start = 0, is_signed = 0, round = 0, abort = 0;
  bit [15:0] dividend = 0, divisor = 0;

  seq_divider dut (.*, .ready(), .done(), .quotient(), .remainder(), .div_by_zero(),
                   .overflow(), .exact(), .aborts(), .streak());

  always #5 clk <= !clk;

// trick {
class VlClass; int x; endclass class VlProcess; int y; endclass class string_; endclass class VlQueue #(type T = int); T t; endclass initial begin VlClass c = new; VlProcess p = new; VlQueue #(string) q = new; c.x = 1; end
// trick }
  initial begin
    #32 rst <= 0;
    #10 start <= 1;
    dividend <= 77;
    #10 start <= 0;
    #30;
    $finish;
  end
endmodule
