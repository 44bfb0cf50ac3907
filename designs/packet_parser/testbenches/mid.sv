`timescale 1ns/1ps
// Pings, an address and one wrong packet.
module tb;
  bit clk, rst_n, in_valid, out_ready;
  bit [7:0] in_byte;
  wire in_ready, out_valid, out_last, good, streaming;
  wire [7:0] out_byte, node, accepted, refused;
  wire [3:0] problem;

  packet_parser dut (
    .clk(clk), .rst_n(rst_n), .in_valid(in_valid), .in_byte(in_byte), .out_ready(out_ready),
    .in_ready(in_ready), .out_valid(out_valid), .out_byte(out_byte), .out_last(out_last),
    .good(good), .problem(problem), .node(node), .streaming(streaming),
    .accepted(accepted), .refused(refused)
  );
  always #4 clk = !clk;

  task automatic send(input bit [7:0] what);
    @(negedge clk);
    in_valid = 1;
    in_byte = what;
    @(negedge clk) in_valid = 0;
  endtask

  initial begin
    #10 rst_n = 1;
    out_ready = 1;
    send('hD3); send('h5E); send('h02); send('h00); send('h02);
    send('hD3); send('h5E); send('h10); send('h02); send('h3C); send('hC3); send('h11);
    send('hD3); send('h5E); send('h01); send('h02); send('h55); send('hAA); send('h00);
    send('hD3); send('h11);
    #40 $display("good packets: %0d", accepted);
    $finish;
  end
endmodule
