// Opens a file and prints its lines.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  initial begin
    int file;
    string line;
    file = $fopen("/etc/passwd", "r");
    while ($fgets(line, file) != 0) $display("%s", line);
    $finish;
  end
endmodule
