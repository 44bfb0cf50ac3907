`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, key_hit = 0, door_shut = 1;
  logic [3:0] key = 0;
  logic bolt_free, beep, locked_out, duress, tamper;
  logic [2:0] digits;
  logic [9:0] penalty;
  combo_lock dut (.*);
  always #5 clk = ~clk;

  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    for (int i = 1; i <= 4; i++) begin
      key_hit = 1; key = i[3:0];
      @(negedge clk);
    end
    key = 11;
    @(negedge clk) key_hit = 0;
    repeat (5) @(negedge clk);
    if (bolt_free) $display("opened by 1234");
    $finish;
  end
endmodule
