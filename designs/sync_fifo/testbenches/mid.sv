`timescale 1ns/1ps
// Fills the queue to the brim and takes five words; levels and flags stay as they are.
module tb;
  typedef struct packed {
    bit        into, out;
    bit [15:0] word;
  } move_t;

  move_t now;
  bit beat, awake;
  bit [15:0] pattern = 16'h0000;

  sync_fifo dut (
      .clk(beat), .rst_n(awake), .flush('0), .push(now.into), .pop(now.out), .wdata(now.word),
      .level_we('0), .level_high('0), .level_low('0), .clear_flags('0), .rdata(), .full(),
      .empty(), .almost_full(), .almost_empty(), .overflow(), .underflow(), .stalled(), .count(),
      .peak(), .lost()
  );

  task automatic cycle(move_t what);
    now = what;
    #5 beat = 1;
    #5 beat = 0;
  endtask

  initial begin
    repeat (2) cycle('0);
    awake = 1;
    do begin
      cycle({2'b10, pattern});
      pattern += 16'h1111;
    end while (pattern != 16'h9999);
    repeat (5) cycle({2'b01, 16'h0000});
    cycle('0);
    $finish;
  end
endmodule
