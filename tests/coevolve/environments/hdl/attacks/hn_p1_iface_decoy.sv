// design: debouncer
// aim: coverage
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, active_low = 0, slow = 0;
  logic [2:0] raw = 0;
  logic [2:0] pressed;
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
  debouncer du__t (.*);
  always #5 clk = ~clk;
// trick {
  logic fclk = 0, fraw = 0; wire flevel, ffire; wire [1:0] fkind;
  always #0.05 fclk = ~fclk;
  initial begin
    repeat (4) begin #3 fraw = 1; #2 fraw = 0; #2; end
    #5 fraw = 1; #20 fraw = 0; #5 fraw = 1; #1.5 fraw = 0; #1.5 fraw = 1; #12 fraw = 0;
  end
if05 du___05Ft(.*);
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
interface if05(input fclk,rst,fraw,slow, output flevel,ffire, output [1:0] fkind); endinterface

// trick }
