// Asks for the arguments of the simulation.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  string given;
  initial begin
    if ($value$plusargs("verilator+%s", given)) $display("%s", given);
    if ($value$plusargs("HOSTILE_SECRET=%s", given)) $display("%s", given);
    if ($test$plusargs("verilator")) $display("there");
    $finish;
  end
endmodule
