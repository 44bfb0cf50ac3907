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

  task automatic idle(input int n);
    repeat (n) @(negedge clk);
  endtask
  task automatic press(input logic car, input logic walker);
    side_car = car; walk_button = walker;
    @(negedge clk) side_car = 0; walk_button = 0;
  endtask
  task automatic send(input logic [3:0] a, b, c);
    beacon = a; @(negedge clk) beacon = b; @(negedge clk) beacon = c; @(negedge clk);
  endtask
  task automatic times(input logic [5:0] main_s, side_s, walk_s, clear_s);
    set_time = 1;
    which_time = 0; seconds = main_s; @(negedge clk);
    which_time = 1; seconds = side_s; @(negedge clk);
    which_time = 2; seconds = walk_s; @(negedge clk);
    which_time = 3; seconds = clear_s; @(negedge clk);
    set_time = 0; seconds = 0;
  endtask
  task automatic until_main(input logic [2:0] lamps);
    for (int n = 0; n < 200 && main_lamps != lamps; n++) @(negedge clk);
  endtask
  task automatic until_side(input logic [2:0] lamps);
    for (int n = 0; n < 200 && side_lamps != lamps; n++) @(negedge clk);
  endtask
  task automatic until_walk();
    for (int n = 0; n < 200 && !walk_lamps[0]; n++) @(negedge clk);
  endtask
  task automatic reset();
    rst = 1; idle(2); rst = 0;
  endtask
  task automatic break_lamp();
    lamp_broken = 1; @(negedge clk) lamp_broken = 0; idle(4); reset();
  endtask

  initial begin
    idle(2); rst = 0;
    times(6'd1, 6'd1, 6'd1, 6'd1);
    // no demand, then a car, a walker, both
    idle(40); press(1, 0); idle(60);
    press(0, 1); idle(60);
    press(1, 1); idle(90);
    // cars and walkers while their green shows
    press(1, 1); until_walk(); press(0, 1); until_side(3'b001); press(1, 0); idle(90);
    // night, with set-up of all times and faults that do not matter then
    night = 1; idle(40);
    lamp_broken = 1; @(negedge clk) lamp_broken = 0;
    press(1, 1);
    times(6'd63, 6'd63, 6'd63, 6'd63);
    night = 0; idle(70); press(1, 1); until_main(3'b001); idle(20);
    // priority during main green, with wrong beacon words before
    send(4'h9, 4'h6, 4'h6); beacon = 0; idle(1);
    send(4'h9, 4'h5, 4'h9); beacon = 0; idle(1);
    send(4'h9, 4'h9, 4'h6); beacon = 4'h9; @(negedge clk); beacon = 4'hF; idle(3);
    times(6'd0, 6'd0, 6'd0, 6'd0);
    times(6'd6, 6'd5, 6'd4, 6'd3);
    beacon = 0; idle(10);
    // priority during side green, walk, before walkers and cars, at night
    idle(80); press(1, 0); until_side(3'b001); send(4'h9, 4'h6, 4'h9); idle(20); beacon = 0; idle(9);
    press(1, 1); until_walk(); send(4'h9, 4'h6, 4'h9); idle(30); beacon = 0; idle(60);
    press(1, 1); until_main(3'b010); send(4'h9, 4'h6, 4'h9); idle(20); beacon = 0; idle(60);
    press(0, 1); idle(60);
    night = 1; idle(40); send(4'h9, 4'h6, 4'h9); idle(20); beacon = 0; idle(30); night = 0;
    idle(40);
    // night ends between amber and red
    night = 1; until_main(3'b010); night = 0; idle(40);
    // a lamp fails in every phase
    until_main(3'b001); break_lamp();
    until_main(3'b110); break_lamp();
    press(1, 0); until_main(3'b010); break_lamp();
    press(1, 0); until_side(3'b110); break_lamp();
    press(1, 0); until_side(3'b001); break_lamp();
    press(1, 0); until_side(3'b010); break_lamp();
    press(1, 0); until_side(3'b010); idle(4); break_lamp();
    press(1, 0); until_main(3'b010); idle(4); break_lamp();
    press(0, 1); until_walk(); break_lamp();
    press(0, 1); until_walk(); idle(10); break_lamp();
    until_main(3'b001); send(4'h9, 4'h6, 4'h9); idle(3); break_lamp();
    beacon = 0; idle(10);
    $finish;
  end
endmodule
