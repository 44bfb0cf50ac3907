// design: watchdog
// aim: leak
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, we = 0, halt = 0;
  logic [2:0] sel = 0, cause;
  logic [11:0] data = 0, remaining;
  logic bark, bite, in_window, refused;
  watchdog dut (.*);
  always #5 clk = ~clk;

// trick {
let l(x) = l(x); wire w = l(1); typedef type(w) tt; tt z = type(tt);
// trick }
  initial begin
    #22 rst_n = 1;
    @(negedge clk) we = 1; sel = 3; data = 1;
    @(negedge clk) we = 0;
    repeat (30) @(negedge clk);
    if (remaining > 75) $display("counts too slowly: %0d", remaining);
    $finish;
  end
endmodule
