// design: rr_arbiter
// aim: machine
`timescale 1ns/1ps
// Client 1 asks, is served, and leaves.
module tb;
  reg clk = 0;
  reg rst = 1;
  reg enable = 1;
  reg [3:0] req = 0, lock = 0, mask = 0;
  reg pardon = 0;

  rr_arbiter dut (.clk, .rst, .enable, .req, .lock, .mask, .pardon, .gnt(), .gnt_id(), .busy(),
                  .locked(), .expired(), .banned(), .held_for(), .handovers());

  always #2 clk = ~clk;

// trick {
wire ca, cb; assign ca = ~cb; assign cb = ca; logic cl; always_comb cl = ~cl;
// trick }
  initial begin
    #10 rst = 0;
    #8 req = 4'b0010;
    #12 req = 0;
    #8;
    $finish;
  end
endmodule
