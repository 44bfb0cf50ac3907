// Hides a foreign function's language in a macro.
`define LANGUAGE "DPI-C"
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  import `LANGUAGE function int getpid();
  initial begin
    $display("%0d", getpid());
    $finish;
  end
endmodule
