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
bus b(); virtual bus vb; wire [2:0] pressed = b.p;
// trick }
`else
  logic [2:0] pressed;
`endif
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
  `ifdef TRICKED
// trick {
debouncer dut (.pressed(b.p), .*);
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
vb = b; repeat (9) #10 vb.p = ~vb.p;
// trick }
    repeat (120) @(negedge clk);
    $finish;
  end
endmodule
// trick {
interface bus; logic [2:0] p; endinterface
// trick }
