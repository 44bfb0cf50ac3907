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

  task automatic set(input logic [2:0] a, input logic [15:0] v);
    wr <= 1; addr <= a; wdata <= v; @(posedge clk);
    wr <= 0; @(posedge clk);
  endtask

  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    set(6, 16'h1D0C);
    set(0, 16'h000F);
    set(2, 16'h00E4);
    line <= 8'h01; repeat (4) @(posedge clk);
    ack <= 1; @(posedge clk) ack <= 0;
    line <= 8'h05; repeat (4) @(posedge clk);
    ack <= 1; @(posedge clk) ack <= 0;
    line <= 0; repeat (3) @(posedge clk);
    eoi <= 1; repeat (2) @(posedge clk);
    eoi <= 0; repeat (3) @(posedge clk);
    $finish;
  end
endmodule
