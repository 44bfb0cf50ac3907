`timescale 1ns/1ps
module tb;
  bit clk = 0, rst = 1, start = 0, is_signed = 0, round = 0, abort = 0;
  bit [15:0] dividend = 0, divisor = 0;

  seq_divider dut (.*, .ready(), .done(), .quotient(), .remainder(), .div_by_zero(),
                   .overflow(), .exact(), .aborts(), .streak());

  always #5 clk <= !clk;

  // One division, with an abort after `stop` cycles where that is not negative.
  task automatic divide(bit [15:0] n, bit [15:0] d, bit sign, bit nearest, int stop = -1);
    start <= 1;
    dividend <= n;
    divisor <= d;
    is_signed <= sign;
    round <= nearest;
    #10 start <= 0;
    if (stop >= 0) begin
      repeat (stop) #10;
      abort <= 1;
      #10 abort <= 0;
    end
    #230;
  endtask

  task automatic all_signs(bit [15:0] n, bit [15:0] d);
    for (int mode = 0; mode < 4; mode++) begin
      divide(n, d, mode[0], mode[1]);
      divide(-n, d, mode[0], mode[1]);
      divide(n, -d, mode[0], mode[1]);
      divide(-n, -d, mode[0], mode[1]);
    end
  endtask

  initial begin
    #32 rst <= 0;
    #20;
    all_signs(100, 7);
    all_signs(7, 100);
    all_signs(99, 100);
    all_signs(65535, 1);
    all_signs(32768, 3);
    all_signs(41, 41);
    all_signs(0, 5);
    divide(16'h8000, 16'hFFFF, 1, 0);
    divide(16'h8000, 16'hFFFF, 0, 1);
    divide(16'h8001, 16'hFFFF, 1, 1);
    divide(16'h8000, 16'hFFFE, 1, 0);
    divide(16'h8000, 0, 1, 0);
    divide(16'h1234, 0, 0, 0);
    divide(16'hFFFF, 16'hFFFF, 0, 1);
    divide(0, 16'h8000, 1, 1);
    for (int i = 0; i < 20; i++) divide(16'hF0F0, 3, 0, 0, i % 5);
    divide(3, 16'hF000, 0, 0, 0);
    divide(3000, 3, 0, 1, 18);
    // A start while it is busy is lost.
    start <= 1;
    #200 start <= 0;
    #300;
    repeat (300)
      divide(16'($urandom), 16'($urandom) >> $urandom_range(15), 1'($urandom), 1'($urandom));
    rst <= 1;
    #20 $finish;
  end
endmodule
