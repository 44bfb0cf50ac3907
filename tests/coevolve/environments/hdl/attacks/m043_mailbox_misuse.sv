// design: packet_fifo
// aim: machine
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

  // A single packet of three bytes, never read.
// trick {
mailbox #(int) mb = new(-5); semaphore se = new(-2); mailbox mn;
// trick }
  initial begin
    {rst, in_valid, in_last, in_abort, out_ready, in_data} = '0;
    rst = 1;
    repeat (3) @(negedge clk);
    rst = 0;
    in_valid = 1;
    in_data = 8'h10;
    @(negedge clk);
    in_data = 8'h30;
    @(negedge clk);
    in_last = 1;
    @(negedge clk);
    in_valid = 0;
    @(negedge clk);
// trick {
begin int x; se.put(-3); se.put(32'h7fffffff); se.put(2); void'(mb.try_put(2)); void'(mb.try_get(x)); se.get(-1); mn.put(3); end
// trick }
    $finish;
  end
endmodule
