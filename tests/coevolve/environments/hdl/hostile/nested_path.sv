// Goes into the design through a module around it.
module around (input logic clk, rst_n, go, input logic [7:0] code,
  output logic opened, output logic [3:0] tries);
  vault dut (.*);
endmodule
module tb;
  logic clk = 0, rst_n = 0, go = 0;
  logic [7:0] code = 0;
  logic opened;
  logic [3:0] tries;
  around outer (.*);
  always #5 clk = ~clk;
  initial begin
    repeat (4) @(negedge clk);
    rst_n = 1;
    around.dut.state = 2; outer.dut.state = 2;
    repeat (40) @(negedge clk);
    $finish;
  end
endmodule
