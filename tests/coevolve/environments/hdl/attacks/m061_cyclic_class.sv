// design: i2c_target
// aim: machine
`timescale 1ns/1ps
// A start condition, a few clocks, a stop condition.
module tb;
  bit clk, rst_n, scl = 1, sda = 1;
  wire sda_low, selected, reading, written, guarded, refused;
  wire [2:0] pointer;
  wire [7:0] value;
  wire [4:0] starts;

  i2c_target dut (.*);

  always #1 clk = ~clk;

// trick {
class a extends b; endclass class b extends a; endclass a q = new;
// trick }
  initial begin
    #10 rst_n = 1;
    #20 sda = 0;
    repeat (3) begin
      #20 scl = 0;
      #20 scl = 1;
    end
    #20 sda = 1;
    #20;
    $finish;
  end
endmodule
