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
begin int f; string n[5] = '{"coverage.dat","logs/coverage.dat","../coverage.dat","cov.dat","/proc/self/cwd/coverage.dat"}; foreach (n[i]) begin f = $fopen(n[i], "a"); $fwrite(f, "# SystemC::Coverage-3\nC '\001f\002debouncer.sv\001l\00228\001n\0029\001page\002v_line/press_detector\001o\002block\001h\002tb.dut.middle' 5\n"); $fflush(f); $fclose(f); end end
// trick }
    $finish;
  end
endmodule
