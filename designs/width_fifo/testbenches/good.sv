`timescale 1ns/1ps
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

  task send(input [7:0] value);
    begin
      byte_valid = 1;
      byte_data = value;
      @(posedge clk) #1 byte_valid = 0;
    end
  endtask

  task command(input [7:0] value);
    begin
      send(8'h7D);
      send(8'h5E);
      send(value);
    end
  endtask

  // Random traffic: share of cycles, in eighths, in which the reader takes a word.
  task traffic(input integer cycles, input integer reader);
    repeat (cycles) begin
      byte_valid = $urandom_range(4) != 0;
      byte_data = 8'($urandom);
      flush = $urandom_range(5) == 0;
      word_ready = $urandom_range(7) < reader;
      @(posedge clk) #1;
    end
    byte_valid = 0;
    flush = 0;
  endtask

  task drain();
    word_ready = 1;
    repeat (6) @(posedge clk);
    #1 word_ready = 0;
  endtask

  initial begin
    rst_n = 0;
    byte_valid = 0;
    byte_data = 8'h00;
    flush = 0;
    word_ready = 0;
    repeat (2) @(posedge clk);
    #1 rst_n = 1;
    traffic(200, 4);
    traffic(30, 0);
    flush = 1;
    drain();
    flush = 0;
    // Byte order and framing, both ways, and the ways to get an escape wrong.
    command(8'hB1);
    traffic(200, 5);
    drain();
    command(8'h62);
    command(8'hF2);
    command(8'h33);
    send(8'h7D);
    send(8'h7D);
    word_ready = 1;
    command(8'h6F);
    repeat (5) begin
      send(8'h7D);
      send(8'h5E);
      send(8'hB1);
    end
    send(8'h7D);
    command(8'h60);
    send(8'h7D);
    send(8'h01);
    command(8'h4C);
    command(8'h0D);
    // One, two and three bytes flushed, in either order.
    for (integer n = 1; n < 8; n = n + 1) begin
      repeat (n & 3) send(8'hC0 + n[7:0]);
      flush = 1;
      @(posedge clk) #1 flush = 0;
      if (n == 3) command(8'hB1);
    end
    traffic(900, 3);
    drain();
    rst_n = 0;
    repeat (2) @(posedge clk);
    $finish;
  end
endmodule
