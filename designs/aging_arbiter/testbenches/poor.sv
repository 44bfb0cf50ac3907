`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, accept = 0, patience_we = 0, freeze_ages = 0;
  logic [3:0] request = 4'b0000;
  logic [4:0] patience = 5'd0;
  wire offer, promoted, alarm;
  wire [1:0] chosen, mode;
  wire [3:0] starving;
  wire [5:0] oldest_age, rescues;

  aging_arbiter dut (.*);

  initial begin : clock_source
    forever #7 clk = ~clk;
  end

  initial begin : stimulus
    #50 rst_n = 1;
    request = 4'b0001;
    #28 accept = 1;
    #28 request = 4'b0000;
    #14 $finish;
  end
endmodule
