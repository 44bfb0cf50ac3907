// Writes to descriptors that it never opened.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  initial begin
    for (int number = 3; number < 32; number++) begin
      $fdisplay(32'h8000_0000 | number, "coverage");
      $fdisplay(1 << number, "coverage");
    end
    $finish;
  end
endmodule
