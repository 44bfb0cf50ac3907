// Goes into one of an array of designs.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault many[1:0] (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  initial begin
    repeat (4) @(negedge clk);
    rst_n = 1;
    many[0].state = 2;
    repeat (40) @(negedge clk);
    $finish;
  end
endmodule
