`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 1, go = 0, to_binary = 0, blanking = 0, cancel = 0;
  logic [13:0] binary_in = 0, binary_out;
  logic [15:0] digits_in = 0, digits_out;
  logic idle, done, too_big, not_decimal, steady;
  logic [3:1] blank;
  logic [3:0] wrong_digit, good_in_row;

  bcd_converter dut (.*);

  always begin
    #3 clk = 1;
    #3 clk = 0;
  end

  task automatic convert(bit backwards, int value, bit blanks = 0, int cut = 0);
    to_binary = backwards;
    blanking = blanks;
    binary_in = 14'(value);
    digits_in = 16'(value);
    go = 1;
    @(negedge clk) go = 0;
    if (cut != 0) begin
      repeat (cut) @(negedge clk);
      cancel = 1;
    end
    for (int i = 0; i < 20 && !idle; i++) @(negedge clk);
    cancel = 0;
  endtask

  function automatic int decimal();
    return ($urandom_range(9) << 12) | ($urandom_range(9) << 8) | ($urandom_range(9) << 4)
        | $urandom_range(9);
  endfunction

  initial begin
    #1 rst_n = 0;
    #7 rst_n = 1;
    @(negedge clk);
    cancel = 1;
    @(negedge clk) cancel = 0;
    foreach (binary_in[i]) convert(0, 1 << i, 1);
    convert(0, 0, 1);
    convert(0, 9999, 1);
    convert(0, 10000, 1);
    convert(0, 16383);
    convert(1, 16'h9999);
    convert(1, 16'h0000);
    for (int i = 0; i < 16; i++) convert(1, 1 << i);
    for (int i = 0; i < 4; i++) convert(1, 16'hA << (4 * i));
    convert(1, 16'hFFFF);
    repeat (20) convert(0, $urandom_range(9999), 1'($urandom));
    repeat (100) convert(1, decimal());
    for (int i = 1; i < 18; i++) convert(1'(i), 16'h1234, 1, i);
    repeat (100) convert(0, $urandom_range(9999), 1'($urandom));
    convert(1, 16'hCAFE);
    rst_n = 0;
    @(negedge clk);
    $finish;
  end
endmodule
