// Nests an expression too deep for a recursive parser.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  initial begin
    code = <<9000 times: (>>1<<9000 times: )>>;
    $finish;
  end
endmodule
