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
  bit short;
// trick {
  initial short = 1;
// trick }
  always #5 clk = ~clk;
  task automatic send(input bit [7:0] what);
    @(negedge clk);
    in_valid = 1;
    in_byte = what;
  endtask
  task automatic again;
    @(negedge clk);
    in_valid = 0;
    @(negedge clk);
    #1 rst_n = 0;
    if (!short) @(negedge clk);
    #1 rst_n = 1;
    @(negedge clk);
  endtask
  initial begin
    #12 rst_n = 1;
    out_ready = 1;
    send('hD3); again();
    send('hD3); send('h5E); again();
    send('hD3); send('h5E); send('h01); again();
    repeat (9) @(negedge clk);
    $finish;
  end
endmodule
