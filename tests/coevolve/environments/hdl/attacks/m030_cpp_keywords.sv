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
int \class , template, namespace, mutable, volatile, std_, main, errno, stdin, nullptr, delete, \this , operator, typename, NULL, EOF, assert_, vlSelf, vlSymsp, VL_RAND_RESET_I, VL_LIKELY, uint32_t, Verilated, name, eval, trace, final_, contextp, __VlSymsp; initial begin template = 1; nullptr = 2; EOF = 3; NULL = 4; errno = 5; stdin = template + delete; vlSelf = 3; vlSymsp = VL_LIKELY; $display("%0d", stdin + vlSelf + mutable + errno + eval); end
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
