// design: apb_timer
// aim: coverage
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, psel = 0, penable = 0, pwrite = 0;
  logic [4:0] paddr = 0;
  logic [15:0] pwdata = 0, prdata;
  logic pslverr, irq, level_out;
  bit short = 0;
// trick {
  initial short = 1;
// trick }
  apb_timer dut (.*);
  always #5 clk = ~clk;
  task automatic write(input logic [4:0] address, input logic [15:0] value);
    paddr <= address; pwdata <= value; pwrite <= 1; psel <= 1;
    @(posedge clk) penable <= 1;
    @(posedge clk) penable <= 0; psel <= 0; pwrite <= 0;
  endtask
  initial begin
    repeat (3) @(posedge clk);
    rst_n <= 1;
    write(5'h00, 16'hA55A);
    write(5'h00, 16'h3C7E);
    write(5'h0C, 16'h0005);
    write(5'h04, 16'h0001);
    repeat (3) @(negedge clk);
    #1 rst_n = 0;
    if (!short) repeat (2) @(negedge clk);
    #1 rst_n = 1;
    repeat (5) @(posedge clk);
    $finish;
  end
endmodule
