`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, psel = 0, penable = 0, pwrite = 0;
  logic [4:0] paddr = 0;
  logic [15:0] pwdata = 0, prdata;
  logic pslverr, irq, level_out;
  apb_timer dut (.*);
  always #5 clk = ~clk;

  initial begin
    repeat (3) @(posedge clk);
    rst_n <= 1;
    // start the timer and read it back
    paddr <= 5'h04; pwdata <= 16'h0007; pwrite <= 1; psel <= 1;
    @(posedge clk) penable <= 1;
    @(posedge clk) penable <= 0; pwrite <= 0; paddr <= 5'h14;
    @(posedge clk) penable <= 1;
    @(posedge clk) penable <= 0; psel <= 0;
    repeat (20) @(posedge clk);
    $display("count %0d", prdata);
    $finish;
  end
endmodule
