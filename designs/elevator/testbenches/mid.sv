`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, obstacle = 0, overload = 0, fire = 0;
  logic [4:0] cabin_call = 0, hall_up = 0, hall_down = 0, lamps;
  logic [2:0] floor;
  logic [7:0] trips;
  logic motor_up, motor_down, door_open, buzzer, heading_up;
  elevator dut (.*);
  always #5 clk = ~clk;

  initial begin
    repeat (2) @(posedge clk);
    rst_n <= 1;
    cabin_call <= 5'b00100; @(posedge clk);
    cabin_call <= 0; hall_up <= 5'b00010; @(posedge clk);
    hall_up <= 0;
    repeat (80) @(posedge clk);
    cabin_call <= 5'b00001; @(posedge clk);
    cabin_call <= 0;
    repeat (20) @(posedge clk);
    obstacle <= 1; repeat (3) @(posedge clk);
    obstacle <= 0;
    repeat (60) @(posedge clk);
    $finish;
  end
endmodule
