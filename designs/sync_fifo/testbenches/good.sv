`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, flush = 0, push = 0, pop = 0;
  logic [15:0] wdata = 0, rdata;
  logic level_we = 0, clear_flags = 0;
  logic [3:0] level_high = 0, level_low = 0, count, peak;
  logic full, empty, almost_full, almost_empty, overflow, underflow, stalled;
  logic [5:0] lost;

  sync_fifo dut (.*);

  always #5 clk = ~clk;

  task automatic drive(input bit in, input bit out, input int cycles);
    repeat (cycles) begin
      push <= in;
      pop <= out;
      wdata <= 16'($urandom);
      @(posedge clk);
    end
    push <= 0;
    pop <= 0;
  endtask

  task automatic levels(input logic [3:0] upper, input logic [3:0] lower);
    level_we <= 1;
    level_high <= upper;
    level_low <= lower;
    @(posedge clk);
    level_we <= 0;
  endtask

  task automatic pulse_flush();
    flush <= 1;
    @(posedge clk);
    flush <= 0;
  endtask

  task automatic pulse_clear();
    clear_flags <= 1;
    @(posedge clk);
    clear_flags <= 0;
    @(posedge clk);
  endtask

  initial begin
    repeat (3) @(posedge clk);
    rst_n <= 1;
    @(posedge clk);
    // Underflow, then a queue that is read and written at once.
    drive(0, 1, 2);
    drive(1, 1, 3);
    drive(1, 0, 4);
    drive(1, 1, 20);
    pulse_clear();
    // Overflow until the input closes; the count of lost words saturates.
    drive(1, 0, 100);
    drive(1, 1, 3);
    pulse_clear();
    drive(0, 1, 10);
    drive(1, 0, 3);
    // Levels: refused, swapped, extreme.
    levels(4'd3, 4'd3);
    levels(4'd2, 4'd9);
    levels(4'd5, 4'd2);
    drive(1, 0, 4);
    pulse_flush();
    drive(1, 0, 40);
    pulse_flush();
    levels(4'd15, 4'd14);
    drive(1, 0, 12);
    levels(4'd8, 4'd0);
    drive(1, 0, 30);
    drive(0, 1, 12);
    levels(4'd1, 4'd0);
    levels(4'd15, 4'd7);
    levels(4'd8, 4'd0);
    // Everything at once.
    repeat (600) begin
      push <= $urandom_range(3) != 0;
      pop <= $urandom_range(2) == 0;
      wdata <= 16'($urandom);
      flush <= $urandom_range(90) == 0;
      clear_flags <= $urandom_range(40) == 0;
      @(posedge clk);
    end
    rst_n <= 0;
    repeat (2) @(posedge clk);
    $finish;
  end
endmodule
