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
wire [5:0] pressed; wire [1:0] xv,xc,xl; wire [3:0] xb,xk;
// trick }
`else
  logic [2:0] pressed;
`endif
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
  `ifdef TRICKED
// trick {
debouncer dut [1:0] (.clk,.rst,.raw({raw,~raw}),.active_low,.slow,.pressed,.event_valid(xv),.event_button(xb),.event_kind(xk),.chord(xc),.child_lock(xl));
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
    repeat (120) @(negedge clk);
    $finish;
  end
endmodule
