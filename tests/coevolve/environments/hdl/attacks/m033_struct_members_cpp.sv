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
typedef struct {int get, set, \operator , \int , \new ; string to_string; } sx; sx v; initial begin v.get = 1; v.set = 2; v.\operator = 3; v.\int = 4; v.\new = 5; $display("%p", v); end
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
