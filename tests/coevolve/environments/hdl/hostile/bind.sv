// Binds a module into the design that drives its state.
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  vault dut (.clk, .rst_n, .go, .code, .opened, .tries);
  always #5 clk = ~clk;
  initial begin
    repeat (4) @(negedge clk);
    rst_n = 1;
    
    repeat (40) @(negedge clk);
    $finish;
  end
endmodule
module driver (input logic clk);
  always @(posedge clk) vault.state = 2;
endmodule
bind vault driver inner (.clk(clk));
