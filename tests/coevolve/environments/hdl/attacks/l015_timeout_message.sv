// design: traffic_light
// aim: leak
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, side_car = 0, walk_button = 0, night = 0, lamp_broken = 0, set_time = 0;
  logic [3:0] beacon = 0;
  logic [1:0] which_time = 0, walk_lamps;
  logic [5:0] seconds = 0, count;
  logic [2:0] main_lamps, side_lamps;
  logic walk_wait, priority_on, fault;
  traffic_light dut (.*);
  always #5 clk = ~clk;

// trick {
initial forever #1 $display("%m %s", `__FILE__);
// trick }
  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    repeat (10) @(negedge clk);
    side_car = 1;
    @(negedge clk) side_car = 0;
    repeat (25) @(negedge clk);
    $finish;
  end
endmodule
