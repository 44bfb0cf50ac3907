`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, active_low = 0, slow = 0;
  logic [2:0] raw = 0, pressed;
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
  debouncer dut (.*);
  always #5 clk = ~clk;

  task automatic hold(input logic [2:0] which, input int cycles);
    raw = which ^ {3{active_low}};
    repeat (cycles) @(negedge clk);
  endtask
  task automatic click(input logic [2:0] which);
    hold(which, 20); hold(0, 50);
  endtask
  task automatic double(input logic [2:0] which);
    hold(which, 20); hold(0, 20); hold(which, 20); hold(0, 50);
  endtask
  task automatic long(input logic [2:0] which, input int cycles = 80);
    hold(which, cycles); hold(0, 50);
  endtask

  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    // bounces that are too short, then a press that bounces
    hold(3'b111, 7); hold(0, 20); hold(3'b111, 8); hold(0, 60);
    repeat (4) begin hold(3'b101, 3); hold(0, 2); end
    hold(3'b101, 30); repeat (3) begin hold(0, 3); hold(3'b101, 5); end hold(0, 60);
    // every kind on every button, alone and all together
    for (int b = 1; b < 8; b = b < 4 ? b * 2 : b + 3) begin
      click(b[2:0]); double(b[2:0]); long(b[2:0], 160);
      hold(b[2:0], 20); hold(0, 20); long(b[2:0]);
    end
    // exact times of the gap and of the long press
    hold(3'b001, 20); hold(0, 25); hold(3'b001, 20); hold(0, 60);
    hold(3'b001, 20); hold(0, 26); hold(3'b001, 20); hold(0, 60);
    hold(3'b001, 20); hold(0, 27); hold(3'b001, 20); hold(0, 60);
    long(3'b010, 59); long(3'b010, 60); long(3'b010, 61); long(3'b010, 62); long(3'b010, 93);
    // chords: too short, long, one released
    hold(3'b011, 14); hold(0, 60); hold(3'b011, 50); hold(3'b010, 20); hold(3'b011, 30); hold(0, 60);
    // slow debouncing
    slow = 1;
    hold(3'b010, 12); hold(0, 40); hold(3'b010, 30); hold(0, 60);
    hold(3'b101, 30); hold(0, 60);
    slow = 0;
    // child lock: wrong orders, then on
    click(3'b100); long(3'b100); click(3'b100); double(3'b100); click(3'b100);
    long(3'b100); repeat (3) double(3'b100); click(3'b100);
    long(3'b100); double(3'b100); long(3'b100); click(3'b010); long(3'b100, 150); double(3'b100);
    click(3'b001); click(3'b100);
    // locked: no events of left and right, also none under way
    click(3'b011); double(3'b011); long(3'b011, 130);
    hold(3'b011, 20); hold(0, 20); long(3'b011);
    long(3'b100); double(3'b100); click(3'b100);
    click(3'b001);
    // inverted contacts
    active_low = 1; hold(0, 20);
    click(3'b010); double(3'b001);
    active_low = 0; hold(0, 20);
    rst = 1; repeat (2) @(negedge clk);
    $finish;
  end
endmodule
