// Declares an array that no machine holds.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  logic [31:0] memory[0:2**30-1];
  initial begin
    for (longint at = 0; at < 2 ** 30; at++) memory[at] = 32'(at);
    $finish;
  end
endmodule
