// What a test of the junction has to show: phases in their order, waiting, night, priority, faults.
module traffic_light_plan (
    input logic clk, side_car, walk_button, night, lamp_broken, set_time,
    input logic walk_wait, priority_on, fault,
    input logic [1:0] which_time,
    input logic [3:0] beacon, now,
    input logic [5:0] seconds, count
);
  covergroup phases @(posedge clk);
    phase: coverpoint now {
      bins main_go = {0}; bins side_go = {4}; bins walk = {8}; bins flashing = {10};
      bins broken = {11}; bins rush = {12};
    }
    order: coverpoint now {
      bins to_side = (3 => 4); bins to_main = (7 => 0); bins walk_ends = (8 => 9); bins wakes = (10 => 0, 6, 7);
      bins rush_ends = (12 => 0, 1, 2, 6, 7);
    }
    side: coverpoint side_car { bins waits = {1}; }
    at_side: cross phase, side;
    night_falls: coverpoint {night, now == 4'd4} { bins at_side_go = {3}; }
    walk: coverpoint walk_wait { bins asked = (0 => 1); bins served = (1 => 0); }
  endgroup
  covergroup settings @(posedge clk);
    which: coverpoint which_time iff (set_time) { bins each[] = {[0:3]}; }
    length: coverpoint seconds iff (set_time) { bins zero = {0}; bins short = {[1:3]}; bins long = {[40:63]}; }
    which_length: cross which, length;
    prior: coverpoint priority_on { bins begins = (0 => 1); bins ends = (1 => 0); }
    failing: coverpoint {fault, lamp_broken} { bins seen = {3}; bins mended = {2}; }
  endgroup
  phases p = new;
  settings s = new;
endmodule
bind traffic_light traffic_light_plan plan (.now(4'(now)), .*);
