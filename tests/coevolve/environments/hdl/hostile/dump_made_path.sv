// Makes the path of a wave file at run time.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  string where;
  initial begin
    where = {"/tm", "p/HOSTILE_MARK"};
    $dumpfile(where);
    $dumpvars(0, tb);
    #100 $finish;
  end
endmodule
