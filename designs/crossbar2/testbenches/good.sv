`timescale 1ns/1ps
module tb;
  bit clk, rst, a_valid, b_valid;
  bit [1:0] a_dest, b_dest, out_ready;
  bit [7:0] a_data, b_data;
  wire a_ready, b_ready, crossed;
  wire [1:0] out_valid, stuck;
  wire [8:0] out0, out1;
  wire [5:0] spilled;

  crossbar2 dut (.*);

  always #8 clk++;

  task automatic traffic(int cycles, bit [1:0] always_ready, bit [1:0] never_ready);
    repeat (cycles) begin
      a_valid <= $urandom_range(3) != 0;
      b_valid <= $urandom_range(3) != 0;
      a_dest <= 2'($urandom_range(2));
      b_dest <= 2'($urandom_range(2));
      a_data <= 8'($urandom);
      b_data <= 8'($urandom);
      out_ready <= (2'($urandom) | always_ready) & ~never_ready;
      #16;
    end
    a_valid <= 0;
    b_valid <= 0;
  endtask

  // A control word by A, by B, or by both (A's counts).
  task automatic control(bit [7:0] value, bit by_a, bit by_b);
    a_dest <= 2'd3;
    b_dest <= 2'd3;
    a_data <= value;
    b_data <= by_a ? 8'h55 : value;
    a_valid <= by_a;
    b_valid <= by_b;
    #16 a_valid <= 0;
    b_valid <= 0;
    #16;
  endtask

  initial begin
    rst <= 1;
    #40 rst <= 0;
    traffic(200, 2'b00, 2'b00);
    traffic(60, 2'b11, 2'b00);
    // Output 0 blocked, then output 1, then both, each beyond the watchdog.
    traffic(80, 2'b00, 2'b01);
    traffic(30, 2'b11, 2'b00);
    traffic(80, 2'b00, 2'b10);
    traffic(30, 2'b11, 2'b00);
    traffic(80, 2'b00, 2'b11);
    traffic(10, 2'b00, 2'b00);
    // Swap words, right and wrong.
    control(8'h18, 1, 0);
    control(8'hE7, 1, 0);
    control(8'h19, 1, 0);
    traffic(20, 2'b00, 2'b00);
    control(8'hE7, 1, 0);
    control(8'hE7, 0, 1);
    control(8'hE7, 0, 1);
    control(8'h18, 1, 1);
    traffic(120, 2'b00, 2'b00);
    control(8'h00, 0, 1);
    control(8'hE7, 1, 1);
    control(8'h81, 1, 0);
    control(8'hE7, 1, 0);
    control(8'h18, 0, 1);
    traffic(60, 2'b00, 2'b00);
    rst <= 1;
    #32 $finish;
  end
endmodule
