// Doubles a macro's argument forty times.
`define D(x) x x
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  initial begin <<40 times: `D(>>;<<40 times: )>> $finish; end
endmodule
