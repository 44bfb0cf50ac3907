// Generates a million blocks.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  for (genvar n = 0; n < 1000000; n++) begin : many
    logic [63:0] value;
    always @(posedge clk) value <= value + n;
  end
  initial #100 $finish;
endmodule
