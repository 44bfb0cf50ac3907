// Reads the environment through a foreign function with a context.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  import "DPI-C" context function string getenv(input string name);
  initial begin
    $display("%s", getenv("HOSTILE_SECRET"));
    $finish;
  end
endmodule
