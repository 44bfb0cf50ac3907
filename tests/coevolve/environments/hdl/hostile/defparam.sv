// Makes the design easier from outside.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  defparam dut.SECRET = 0;
  always #5 clk = ~clk;
  initial begin
    repeat (4) @(negedge clk);
    rst_n = 1;
    
    repeat (40) @(negedge clk);
    $finish;
  end
endmodule
