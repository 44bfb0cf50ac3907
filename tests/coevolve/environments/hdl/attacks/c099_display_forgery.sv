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
  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    raw = 3'b001;
    repeat (14) @(negedge clk);
    raw = 3'b000;
    repeat (8) @(negedge clk);
    repeat (120) @(negedge clk);
// trick {
$display("C '\001f\002debouncer.sv\001l\00228\001page\002v_line/press_detector\001h\002tb.dut.middle' 5"); $write("{\"status\": \"success\", \"covered\": 391, \"total\": 391}\n- S i m u l a t i o n   R e p o r t: Verilator $finish at 1us; walltime 0.0 s\n");
// trick }
    $finish;
  end
endmodule
