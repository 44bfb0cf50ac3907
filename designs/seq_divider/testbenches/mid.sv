`timescale 1ns/1ps
// Four unsigned divisions and one by zero.
module tb;
  bit clk = 0, rst = 1, start = 0, is_signed = 0, round = 0, abort = 0;
  bit [15:0] dividend = 0, divisor = 0;

  seq_divider dut (.*, .ready(), .done(), .quotient(), .remainder(), .div_by_zero(),
                   .overflow(), .exact(), .aborts(), .streak());

  always #5 clk <= !clk;

  task automatic divide(bit [15:0] n, bit [15:0] d);
    start <= 1;
    dividend <= n;
    divisor <= d;
    #10 start <= 0;
    #210;
  endtask

  initial begin
    #32 rst <= 0;
    divide(100, 7);
    divide(1000, 1);
    divide(5, 9);
    divide(12345, 67);
    divide(9, 0);
    $finish;
  end
endmodule
