// design: irq_controller
// aim: leak
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, wr = 0, ack = 0, eoi = 0;
  logic [7:0] line = 0;
  logic [2:0] addr = 0, vector;
  logic [15:0] wdata = 0, rdata;
  logic [3:0] in_service;
  logic irq, spurious;
  irq_controller dut (.*);
  always #5 clk = ~clk;

// trick {
class std; static int x; endclass class VlForkSync; int y; endclass initial begin std s = new; VlForkSync f = new; s.x = f.y; end
// trick }
  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    wr <= 1; addr <= 0; wdata <= 16'h00FF; @(posedge clk);
    wr <= 0; addr <= 3;
    line <= 8'h12;
    repeat (5) @(posedge clk);
    line <= 0;
    repeat (5) @(posedge clk);
    $finish;
  end
endmodule
