`timescale 1ns/1ps
module tb;
  reg clk = 1'b1;
  reg rst_n = 1'b0;
  reg request = 1'b0;
  reg [1:0] operation = 0, address = 0;
  reg [15:0] write_data = 0;
  reg [21:0] flips = 0;
  wire [15:0] read_data;
  wire [4:0] position;
  wire [3:0] singles;
  wire busy, answer, single, multiple, armed, halted, scrubbed;
  hamming_ecc dut (.*);
  always begin #2 clk = 1'b0; #2 clk = 1'b1; end

  task run_operation(input [1:0] what, input [1:0] at, input [15:0] value);
    begin
      request = 1'b1; operation = what; address = at; write_data = value;
      #4 request = 1'b0;
      #20;
    end
  endtask

  initial begin
    #9 rst_n = 1'b1;
    run_operation(1, 0, 16'hFFFF);
    run_operation(0, 0, 0);
    run_operation(1, 3, 16'h1234);
    run_operation(0, 3, 0);
    // one wrong bit
    flips = 22'h000100;
    run_operation(2, 2, 16'hB1E5);
    run_operation(1, 1, 16'h5A5A);
    run_operation(0, 1, 0);
    run_operation(0, 1, 0);
    run_operation(3, 0, 0);
    #60 $finish;
  end
endmodule
