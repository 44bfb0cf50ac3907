// Formats with arguments that do not fit.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  string text;
  initial begin
    $sformat(text, "%s%s%s%n%n", "%s%n%x");
    $display(text);
    $display("%s %d %m %p", code);
    text = $sformatf("%0999999d", 1);
    $display("%0d", text.len());
    $finish;
  end
endmodule
