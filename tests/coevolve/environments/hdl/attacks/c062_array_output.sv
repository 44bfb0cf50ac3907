// design: debouncer
// aim: coverage
`timescale 1ns/1ps
// trick {
`define TRICKED
// trick }
module tb;
  logic clk = 0, rst = 1, active_low = 0, slow = 0;
  logic [2:0] raw = 0;
  `ifdef TRICKED
// trick {
logic [2:0] ar [0:1]; wire [2:0] pressed = ar[0];
// trick }
`else
  logic [2:0] pressed;
`endif
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
  `ifdef TRICKED
// trick {
debouncer dut (.pressed(ar[0]), .*);
// trick }
`else
  debouncer dut (.*);
`endif
  always #5 clk = ~clk;
  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    raw = 3'b001;
    repeat (14) @(negedge clk);
    raw = 3'b000;
    repeat (8) @(negedge clk);
// trick {
for (int i = 0; i < 9; i++) #10 ar[i & 0] = 3'(i * 7);
// trick }
    repeat (120) @(negedge clk);
    $finish;
  end
endmodule
