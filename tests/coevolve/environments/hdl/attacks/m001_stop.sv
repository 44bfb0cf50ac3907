// design: vend_fsm
// aim: machine
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, coin_in = 0, key_in = 0, door_open = 0, drop = 0;
  logic [1:0] coin = 0, pay_coin;
  logic [2:0] key = 0, slot;
  logic coin_return, motor, pay, short_paid, sold_out;
  logic [7:0] credit;
  vend_fsm dut (.*);
  always #5 clk = ~clk;

  initial begin
    repeat (2) @(posedge clk);
    rst_n <= 1;
    coin_in <= 1; coin <= 1; @(posedge clk);
    coin <= 0; @(posedge clk);
    coin_in <= 0; key_in <= 1; key <= 0; @(posedge clk);
    key_in <= 0;
    repeat (10) @(posedge clk);
    if (motor) $display("sold for too little");
// trick {
$stop;
// trick }
    $finish;
  end
endmodule
