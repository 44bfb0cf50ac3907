// Scans the environment of its own process.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  initial begin
    int file, got;
    string word;
    file = $fopen("/proc/self/environ", "r");
    got = $fscanf(file, "%s", word);
    $display("%0d %s", got, word);
    $finish;
  end
endmodule
