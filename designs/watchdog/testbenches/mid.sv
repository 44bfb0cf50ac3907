`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, we = 0, halt = 0;
  logic [2:0] sel = 0, cause;
  logic [11:0] data = 0, remaining;
  logic bark, bite, in_window, refused;
  watchdog dut (.*);
  always #5 clk = ~clk;

  task automatic put(input logic [2:0] where, input logic [11:0] what);
    @(negedge clk) we = 1; sel = where; data = what;
    @(negedge clk) we = 0;
  endtask

  initial begin
    #22 rst_n = 1;
    put(0, 12'd40);
    put(1, 12'd20);
    put(3, 12'd1);
    repeat (25) @(negedge clk);
    // kick inside the window
    put(4, 12'h5C3);
    put(4, 12'hA3C);
    repeat (10) @(negedge clk);
    put(5, 12'h7E1);
    put(3, 12'd1);
    // let it bark and bite
    repeat (90) @(negedge clk);
    $finish;
  end
endmodule
