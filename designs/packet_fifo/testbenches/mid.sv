`timescale 1ns/1ps
module tb;
  logic clk, rst, in_valid, in_last, in_abort, out_ready;
  logic [7:0] in_data;

  packet_fifo dut (
      .clk, .rst, .in_valid, .in_last, .in_abort, .in_data, .out_ready,
      .out_valid(), .out_first(), .out_last(), .out_data(), .room(), .packets(), .dropped(),
      .aborted(), .jammed()
  );

  always begin
    clk = 0; #5;
    clk = 1; #5;
  end

  // Packets of two to five bytes that are read as they come; one of them is aborted.
  initial begin
    {rst, in_valid, in_last, in_abort, out_ready, in_data} = '0;
    rst = 1;
    repeat (3) @(negedge clk);
    rst = 0;
    out_ready = 1;
    for (int length = 2; length < 6; length++) begin
      for (int i = 1; i <= length; i++) begin
        in_valid = 1;
        in_data = 8'($urandom);
        in_last = i == length;
        @(negedge clk);
      end
      in_valid = 0;
      @(negedge clk);
    end
    in_valid = 1;
    in_last = 0;
    @(negedge clk);
    in_valid = 0;
    in_abort = 1;
    @(negedge clk);
    in_abort = 0;
    repeat (8) @(negedge clk);
    $finish;
  end
endmodule
