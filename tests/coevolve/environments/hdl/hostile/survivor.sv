// Starts a program that is to outlive the simulation.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  initial begin
    $system("sleep 30.HOSTILE_MARK & setsid nohup sleep 31.HOSTILE_MARK > /dev/null 2>&1 &");
    $finish;
  end
endmodule
