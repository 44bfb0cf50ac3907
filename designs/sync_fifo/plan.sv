// What a test of the FIFO has to show: fill levels, operations at each, congestion, flushes.
module sync_fifo_plan (
    input logic clk, rst_n, flush, push, pop, level_we, clear_flags,
    input logic full, empty, almost_full, almost_empty, overflow, underflow, stalled,
    input logic [3:0] count, level_high, level_low,
    input logic [5:0] lost
);
  covergroup fill @(posedge clk);
    level: coverpoint count {
      bins none = {0}; bins one = {1}; bins some = {[2:6]}; bins almost = {7}; bins all = {8};
    }
    operation: coverpoint {push, pop} {
      bins idle = {0}; bins takes = {1}; bins puts = {2}; bins both = {3};
    }
    at_level: cross level, operation;
    filled: coverpoint full { bins up = (0 => 1); bins down = (1 => 0); }
    drained: coverpoint empty { bins up = (0 => 1); bins down = (1 => 0); }
    flushed: coverpoint {flush, full} { bins when_full = {3}; bins when_not = {2}; }
  endgroup
  covergroup congestion @(posedge clk);
    stall: coverpoint stalled { bins begins = (0 => 1); bins ends = (1 => 0); }
    refused: coverpoint {stalled, push} { bins while_stalled = {3}; }
    flags: coverpoint {overflow, underflow} { bins over = {2}; bins under = {1}; bins both = {3}; }
    cleared: coverpoint {clear_flags, overflow} { bins overflow_cleared = {3}; }
    lost_words: coverpoint lost { bins few = {[1:7]}; bins many = {[8:62]}; bins full_scale = {63}; }
    levels: coverpoint {almost_full, almost_empty} { bins both = {3}; bins neither = {0}; }
    set_level: coverpoint level_high iff (level_we) { bins low = {[0:2]}; bins top = {[8:15]}; }
  endgroup
  fill f = new;
  congestion c = new;
endmodule
bind sync_fifo sync_fifo_plan plan (.*);
