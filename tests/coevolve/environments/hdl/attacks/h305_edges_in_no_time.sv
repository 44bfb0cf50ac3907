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
  bit burst;
  task automatic send(input bit [7:0] what);
    in_valid = 1;
    in_byte = what;
    if (!burst) #5;
    clk <= 1;
    @(posedge clk);
    if (!burst) #5;
    clk <= 0;
    @(negedge clk);
  endtask
  initial begin
    repeat (3) begin #5 clk = 1; #5 clk = 0; end
    rst_n = 1;
    out_ready = 1;
    send('hD3); send('h5E); send('hFF); #5;
// trick {
    burst = 1;
// trick }
    send('hD3); #5;
    send('h5E); send('hFF); #5;
    in_valid = 0;
    repeat (9) begin #5 clk = 1; #5 clk = 0; end
    $finish;
  end
endmodule
