`timescale 1ns/1ps
module tb;
  bit clk = 0;
  bit rst = 1;
  bit [2:0] command = 0;
  bit [15:0] operand = 0;
  wire ready, done, equal, misuse, overflow;
  wire [15:0] result;
  wire [7:0] amount;
  crc_stream dut (.clk, .rst, .command, .operand, .ready, .done, .equal, .misuse, .result, .amount,
                  .overflow);
  initial forever #3 clk = ~clk;

  task automatic give(input bit [2:0] code, input bit [15:0] value);
    @(negedge clk) command = code; operand = value;
    @(negedge clk) command = 0;
    wait (ready);
  endtask

  // XMODEM check value of "123456789" is 31C3
  initial begin
    #20 rst = 0;
    give(1, 16'h1021);
    give(2, 16'h0000);
    give(4, 0);
    for (int n = 1; n < 10; n++) give(5, 16'(48 + n));
    give(6, 0);
    if (result != 16'h31C3) $display("wrong: %h", result);
    repeat (3) @(negedge clk);
    $finish;
  end
endmodule
