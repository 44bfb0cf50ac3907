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

  // Serves every set of queues with the weights of reset; a weight is written without the key.
  initial begin
    {rst_n, step, write, pending, address, data} = 0;
    #130 rst_n = 1;
    step = 1;
    for (int set = 0; set < 16; set++) begin
      pending = 4'(set);
      #400;
    end
    write = 1;
    data = 16'd9;
    #50 address = 3;
    #50 write = 0;
    #100 $finish;
  end
endmodule
