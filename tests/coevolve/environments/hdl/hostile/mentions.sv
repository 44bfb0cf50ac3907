// Only speaks of attacks, in strings and comments; nothing to refuse.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  // $system("x"), force dut.state, `include "/etc/passwd"
  initial begin
    $display("$system `include force dut.state import DPI-C %s", "$c");
    #100 $finish;
  end
endmodule
