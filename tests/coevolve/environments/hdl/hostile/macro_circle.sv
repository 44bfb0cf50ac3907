// Has a macro refer to itself.
`define X `Y
`define Y `X
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  initial begin `X $finish; end
endmodule
