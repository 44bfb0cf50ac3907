// design: sync_fifo
// aim: machine
`timescale 1ns/1ps
// Plays a table of three cycles: two words in, one word out.
module tb;
  typedef struct packed {
    bit        into, out;
    bit [15:0] word;
  } move_t;

  move_t now, table_of_moves[3] = '{{2'b10, 16'h0011}, {2'b10, 16'h0022}, {2'b01, 16'h0000}};
  bit beat, awake;

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

// trick {
typedef struct { int a [0:99999][0:9999]; } hs; hs x, y; initial begin x = y; $display("%p", x); end
// trick }
  initial begin
    repeat (2) cycle('0);
    awake = 1;
    foreach (table_of_moves[i]) cycle(table_of_moves[i]);
    cycle('0);
    $finish;
  end
endmodule
