`timescale 1ns/1ps
// Sends a few bytes and hopes for the best.
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

  initial begin
    #10 rst_n = 1;
    for (int n = 0; n < 12; n++) begin
      @(negedge clk);
      in_valid = 1;
      in_byte = 8'(n * 7);
    end
    @(negedge clk) in_valid = 0;
    #40 $display("good packets: %0d", accepted);
    $finish;
  end
endmodule
