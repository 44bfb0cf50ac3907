`timescale 1ns/1ps
// One word of four bytes.
module tb;
  reg clk, rst_n, byte_valid, flush, word_ready;
  reg [7:0] byte_data;
  wire byte_ready, word_valid, big_endian, framed, bad_escape;
  wire [31:0] word_data;
  wire [2:0] word_bytes, used;

  width_fifo dut (
      .clk(clk), .rst_n(rst_n), .byte_valid(byte_valid), .byte_data(byte_data),
      .byte_ready(byte_ready), .flush(flush), .word_ready(word_ready), .word_valid(word_valid),
      .word_data(word_data), .word_bytes(word_bytes), .big_endian(big_endian), .framed(framed),
      .bad_escape(bad_escape), .used(used));

  initial clk = 0;
  always #10 clk = ~clk;

  initial begin
    rst_n = 0;
    byte_valid = 0;
    byte_data = 8'h00;
    flush = 0;
    word_ready = 0;
    #45 rst_n = 1;
    @(posedge clk) #1 byte_valid = 1;
    byte_data = 8'h21;
    repeat (4) @(posedge clk);
    #1 byte_valid = 0;
    repeat (2) @(posedge clk);
    $finish;
  end
endmodule
