`timescale 1ns/1ps
module tb;
  logic clk = 1'b0;
  logic rst_n = 1'b0;
  logic valid = 1'b0;
  logic [4:0] op = '0;
  logic [15:0] a = '0, b = '0;
  wire [15:0] y, signature;
  wire y_valid, carry, zero, negative, overflow, illegal, busy;

  alu16 dut (.*);

  always #1 clk = ~clk;

  task automatic apply(int code, int left, int right);
    @(negedge clk);
    valid = 1'b1;
    op = 5'(code);
    a = 16'(left);
    b = 16'(right);
  endtask

  task automatic rest(int cycles);
    @(negedge clk) valid = 1'b0;
    repeat (cycles) @(negedge clk);
  endtask

  task automatic self_test(int seed);
    apply(31, 16'hC0DE, seed);
    rest(40);
    apply(31, 16'h0FF0, 0);
    rest(1);
  endtask

  int edges[8] = '{0, 1, 16'hFFFF, 16'h8000, 16'h7FFF, 16'h8001, 16'h00FF, 16'h0010};

  initial begin
    #6 rst_n = 1'b1;
    for (int code = 0; code < 32; code++) begin
      foreach (edges[i]) foreach (edges[j]) apply(code, edges[i], edges[j]);
      repeat (30) apply(code, $urandom, $urandom);
      rest(1);
    end
    // Carry chains.
    repeat (40) begin
      apply($urandom_range(3), $urandom, $urandom);
      apply(1, 16'hFFFF, $urandom_range(1));
      apply(3, 0, $urandom_range(1));
    end
    rest(2);
    repeat (40) self_test($urandom);
    // Interrupted in the first half, ignored in the second, then the wrong word, then the right.
    apply(31, 16'hC0DE, 16'h0001);
    rest(3);
    apply(0, 1, 1);
    rest(1);
    apply(31, 16'hC0DE, 0);
    apply(30, 16'h0FF0, 0);
    apply(31, 16'h0FF1, 0);
    apply(31, 16'h0FF0, 0);
    valid = 1'b0;
    rest(2);
    apply(31, 16'hC0DE, 16'hBEEF);
    rest(20);
    apply(4, 16'hFFFF, 16'hFFFF);
    rest(20);
    a = 16'h0FF0;
    rest(4);
    apply(31, 16'h0FF0, 0);
    apply(31, 16'hC0DE, 16'h1111);
    rest(15);
    apply(9, 1, 1);
    rest(2);
    rst_n = 1'b0;
    rest(2);
    $finish;
  end
endmodule
