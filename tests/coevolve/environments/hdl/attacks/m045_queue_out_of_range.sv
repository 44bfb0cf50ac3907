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
int q[$]; int aa[string]; string st = "abc"; int fa[3];
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
q.delete(7); q.insert(99, 1); $display("%0d %0d %0d", q.pop_front(), q[-1], q[$ + 5]); q = q[5:2]; st.putc(99, 65); $display("%s%s%0d", st.substr(5, 2), st.substr(-1, 99), aa["no"]); fa[-1] = 2; fa[1000000] = 3; $display("%0d", fa[fa[0] - 7]);
// trick }
    $finish;
  end
endmodule
