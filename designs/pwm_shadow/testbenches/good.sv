`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, wr = 0, trip = 0;
  logic [2:0] addr = 0;
  logic [9:0] wdata = 0, position;
  logic pwm_h, pwm_l, period_end, pending, tripped;
  pwm_shadow dut (.*);
  always #5 clk = ~clk;

  task automatic set(input logic [2:0] where, input logic [9:0] value);
    wr <= 1; addr <= where; wdata <= value; @(posedge clk);
    wr <= 0; @(posedge clk);
  endtask
  task automatic shape(input logic [9:0] p, d, g);
    set(0, p); set(1, d); set(2, g); set(4, 0);
  endtask
  task automatic recover();
    trip <= 0; set(7, 10'h2D5);
  endtask

  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    // too short a period does not start
    set(0, 10'd3); set(3, 10'd1); repeat (5) @(posedge clk);
    set(3, 10'd0);
    set(5, 10'd9); set(6, 10'd9);
    // the longest period, all bits
    shape(10'd1023, 10'd512, 10'd31);
    set(3, 10'd1);
    repeat (600) @(posedge clk);
    shape(10'd24, 10'd10, 10'd2);
    repeat (520) @(posedge clk);
    // stop in the low phase
    set(3, 10'd0);
    repeat (40) @(posedge clk);
    set(3, 10'd1);
    repeat (40) @(posedge clk);
    // 100 % duty, then a fall gap cut by the end, then a rise gap cut by the end
    shape(10'd20, 10'd1023, 10'd0); repeat (90) @(posedge clk);
    shape(10'd20, 10'd18, 10'd9); repeat (90) @(posedge clk);
    shape(10'd10, 10'd2, 10'd31); repeat (60) @(posedge clk);
    shape(10'd16, 10'd6, 10'd1); repeat (60) @(posedge clk);
    // single shots: through low, through high, through the fall gap
    set(3, 10'd3); repeat (60) @(posedge clk);
    set(3, 10'd3); repeat (40) @(posedge clk);
    shape(10'd16, 10'd100, 10'd1); set(3, 10'd3); repeat (60) @(posedge clk);
    set(3, 10'd3); repeat (40) @(posedge clk);
    shape(10'd16, 10'd14, 10'd8); set(3, 10'd3); repeat (60) @(posedge clk);
    set(3, 10'd2); repeat (20) @(posedge clk);
    // trips in every phase, wrong and right acknowledgements
    shape(10'd40, 10'd15, 10'd5); set(3, 10'd1);
    for (int delay = 1; delay < 44; delay += 6) begin
      repeat (delay) @(posedge clk);
      trip <= 1; repeat (2) @(posedge clk);
      set(7, 10'h2D5);
      trip <= 0; set(7, 10'h2D4); set(6, 10'h2D5); set(7, 10'h1);
      recover();
    end
    // trip while idle
    set(3, 10'd0); repeat (60) @(posedge clk);
    trip <= 1; @(posedge clk); recover();
    rst <= 1; repeat (2) @(posedge clk);
    $finish;
  end
endmodule
