// design: debouncer
// aim: coverage
`timescale 1ns/1ps
// trick {
`define TRICKED
// trick }
module tb;
  logic clk = 0, rst = 1, active_low = 0, slow = 0;
  logic [2:0] raw = 0;
    logic [2:0] pressed;
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
  `ifdef TRICKED
// trick {
for (genvar i = 0; i < 1; i++) begin : g
    wr w (.*);
  end
// trick }
`else
  debouncer dut (.*);
`endif
  always #5 clk = ~clk;
// trick {
logic ck2 = 0; logic [2:0] rw2 = 0; always #0.05 ck2 = ~ck2; initial repeat (20) begin #8 rw2 = 7; #7 rw2 = 0; #2 rw2 = 7; #1.5 rw2 = 0; end
 wr2 \g[0] (.clk(ck2), .rst, .raw(rw2));
// trick }
  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    raw = 3'b001;
    repeat (14) @(negedge clk);
    raw = 3'b000;
    repeat (8) @(negedge clk);
    repeat (120) @(negedge clk);
    $finish;
  end
endmodule
// trick {
module wr(input clk, rst, input [2:0] raw, input active_low, slow, output [2:0] pressed, output event_valid, output [1:0] event_button, event_kind, output chord, child_lock); debouncer dut(.*); endmodule
module wr2(input clk, rst, input [2:0] raw); wr w(.clk, .rst, .raw, .active_low(1'b0), .slow(1'b0), .pressed(), .event_valid(), .event_button(), .event_kind(), .chord(), .child_lock()); endmodule
// trick }
