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
`ifdef VERILATOR
always @(posedge clk) dut.waiting <= 0;
`endif
`ifdef verilator
always @(posedge clk) dut.waiting <= 1;
`endif
`ifdef verilator3
always @(posedge clk) dut.waiting <= 2;
`endif
`ifdef SYNTHESIS
always @(posedge clk) dut.waiting <= 3;
`endif
`ifdef COVERAGE
always @(posedge clk) dut.waiting <= 4;
`endif
`ifdef SV_COV_START
always @(posedge clk) dut.waiting <= 5;
`endif
`ifdef SV_COV_TOGGLE
always @(posedge clk) dut.waiting <= 6;
`endif
`ifdef VM_COVERAGE
always @(posedge clk) dut.waiting <= 7;
`endif
`ifdef __VERILATOR__
always @(posedge clk) dut.waiting <= 8;
`endif
`ifdef SYSTEMVERILOG
always @(posedge clk) dut.waiting <= 9;
`endif
`ifdef coverage_block_off
always @(posedge clk) dut.waiting <= 10;
`endif
`ifdef VERILATOR_TIMING
always @(posedge clk) dut.waiting <= 11;
`endif
`ifdef __FILE__
always @(posedge clk) dut.waiting <= 12;
`endif
`ifdef __LINE__
always @(posedge clk) dut.waiting <= 13;
`endif
`ifdef systemc_clock
always @(posedge clk) dut.waiting <= 14;
`endif
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
