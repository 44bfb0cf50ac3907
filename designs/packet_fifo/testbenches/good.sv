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

  // Write a packet; `cut` aborts it after that many bytes (0: never).
  task automatic packet(int length, int cut = 0);
    for (int i = 1; i <= length; i++) begin
      // Now and then the writer pauses, and `in_last` means nothing.
      in_valid = 0;
      in_last = 1;
      if (i > 1 && $urandom_range(7) == 0) @(negedge clk);
      in_valid = 1;
      in_data = 8'($urandom);
      in_last = i == length;
      if (cut == i) in_abort = 1;
      @(negedge clk);
      if (cut == i) break;
    end
    {in_valid, in_last, in_abort} = '0;
  endtask

  task automatic drain(int cycles);
    out_ready = 1;
    repeat (cycles) @(negedge clk);
    out_ready = 0;
  endtask

  initial begin
    {rst, in_valid, in_last, in_abort, out_ready, in_data} = '0;
    rst = 1;
    repeat (2) @(negedge clk);
    rst = 0;
    drain(2);
    in_valid = 1; in_abort = 1; @(negedge clk);
    in_valid = 0; @(negedge clk);
    in_abort = 0;
    // Runt, whole, aborted early, aborted late.
    packet(1);
    packet(2);
    packet(4, 1);
    packet(5, 4);
    packet(3, 3);
    packet(2, 2);
    drain(4);
    // Exactly full, then one too many; too long packets are skipped.
    packet(16);
    packet(3);
    drain(20);
    packet(17);
    packet(2);
    packet(20, 19);
    packet(24);
    // Seven packets is the most, whatever the room.
    drain(20);
    repeat (7) packet(2);
    packet(2);
    packet(1);
    packet(2);
    packet(2);
    packet(2);
    // Jammed: nothing gets in before the buffer is empty and the input quiet.
    packet(2);
    in_valid = 1;
    drain(20);
    in_valid = 0;
    repeat (2) @(negedge clk);
    for (int i = 0; i < 18; i++) packet(3, 2);
    for (int i = 0; i < 18; i++) packet(1);
    // Reading and writing at once.
    repeat (60) begin
      out_ready = $urandom_range(3) != 0;
      packet($urandom_range(2, 6));
      if ($urandom_range(3) == 0) @(negedge clk);
    end
    drain(30);
    out_ready = 1;
    repeat (40) packet(2);
    drain(30);
    rst = 1;
    repeat (2) @(negedge clk);
    $finish;
  end
endmodule
