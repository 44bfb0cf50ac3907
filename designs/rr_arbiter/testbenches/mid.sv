`timescale 1ns/1ps
// All subsets of clients, then a lock that is given back in time.
module tb;
  reg clk = 0;
  reg rst = 1;
  reg enable = 1;
  reg [3:0] req = 0, lock = 0, mask = 0;
  reg pardon = 0;

  rr_arbiter dut (.clk, .rst, .enable, .req, .lock, .mask, .pardon, .gnt(), .gnt_id(), .busy(),
                  .locked(), .expired(), .banned(), .held_for(), .handovers());

  always #2 clk = ~clk;

  initial begin
    #10 rst = 0;
    for (int s = 1; s < 16; s++) begin
      req = 4'(s);
      #12;
    end
    req = 4'b0100;
    lock = 4'b0100;
    #24 lock = 0;
    #8 $finish;
  end
endmodule
