`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, wr = 0, trip = 0;
  logic [2:0] addr = 0;
  logic [9:0] wdata = 0, position;
  logic pwm_h, pwm_l, period_end, pending, tripped;
  pwm_shadow dut (.*);
  always #5 clk = ~clk;

  task automatic set(input logic [2:0] where, input logic [9:0] value);
    wr <= 1; addr <= where; wdata <= value; @(posedge clk);
    wr <= 0; @(posedge clk);
  endtask

  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    set(0, 10'd30);
    set(1, 10'd12);
    set(2, 10'd2);
    set(3, 10'd1);
    repeat (100) @(posedge clk);
    set(1, 10'd20);
    set(4, 10'd0);
    repeat (60) @(posedge clk);
    trip <= 1; repeat (2) @(posedge clk);
    trip <= 0; repeat (20) @(posedge clk);
    $finish;
  end
endmodule
