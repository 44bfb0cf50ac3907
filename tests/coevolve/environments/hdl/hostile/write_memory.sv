// Writes a file outside with $writememh.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  logic [7:0] memory[4];
  initial begin
    $writememh("/tmp/HOSTILE_MARK", memory);
    $finish;
  end
endmodule
