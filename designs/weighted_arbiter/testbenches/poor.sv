`timescale 1ns/1ps
module tb;
  logic clk, rst_n, step, write;
  logic [3:0] pending;
  logic [2:0] address;
  logic [15:0] data;

  weighted_arbiter dut (
      .clk, .rst_n, .pending, .step, .write, .address, .data, .serve(), .credits(), .weights(),
      .refilled(), .open(), .rejected(), .paused(), .strict(), .served());

  initial clk = 1;
  always #25 clk = ~clk;

  initial begin
    {rst_n, step, write, pending, address, data} = 0;
    #130 rst_n = 1;
    #50 pending = 4'b0001;
    #100 pending = 0;
    #100 $finish;
  end
endmodule
