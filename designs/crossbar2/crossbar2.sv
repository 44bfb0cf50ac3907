// Two-by-two crossbar with back-pressure, broadcast and a watchdog on each output.
module crossbar2 (
    input  logic       clk,
    input  logic       rst,
    input  logic       a_valid,
    input  logic [1:0] a_dest,
    input  logic [7:0] a_data,
    output logic       a_ready,
    input  logic       b_valid,
    input  logic [1:0] b_dest,
    input  logic [7:0] b_data,
    output logic       b_ready,
    input  logic [1:0] out_ready,
    output logic [1:0] out_valid,
    output logic [8:0] out0,
    output logic [8:0] out1,
    output logic [1:0] stuck,
    output logic [5:0] spilled,
    output logic       crossed
);
  // Destination 3 is the crossbar itself: these words, one after the other, exchange its outputs.
  localparam logic [7:0] SWAP_FIRST = 8'hE7, SWAP_SECOND = 8'h18;

  typedef enum logic [1:0] {STRAIGHT, WILL_CROSS, CROSSED, WILL_UNCROSS} wiring_t;

  wiring_t    wiring;
  logic [1:0] a_wants, b_wants, room, take_a, take_b, put, spill;
  logic [8:0] word0, word1;
  logic       turn, clash, control;
  logic [7:0] control_word;

  assign crossed      = wiring == CROSSED || wiring == WILL_UNCROSS;
  assign clash        = (a_wants & b_wants) != 2'b00;
  // A word moves only when all its outputs have room, and on a clash only on its turn.
  assign a_ready      = (a_wants & ~room) == 2'b00 && !(clash && turn);
  assign b_ready      = (b_wants & ~room) == 2'b00 && !(clash && !turn);
  assign take_a       = a_ready ? a_wants : 2'b00;
  assign take_b       = b_ready ? b_wants : 2'b00;
  assign put          = take_a | take_b;
  assign word0        = take_a[0] ? {1'b0, a_data} : {1'b1, b_data};
  assign word1        = take_a[1] ? {1'b0, a_data} : {1'b1, b_data};
  assign control      = (a_valid && a_dest == 2'd3) || (b_valid && b_dest == 2'd3);
  assign control_word = (a_valid && a_dest == 2'd3) ? a_data : b_data;

  always_comb begin
    a_wants = 2'b00;
    if (a_valid) begin
      if (a_dest == 2'd2) a_wants = 2'b11;
      else if (a_dest != 2'd3) a_wants = (a_dest[0] == crossed) ? 2'b01 : 2'b10;
    end
    b_wants = 2'b00;
    if (b_valid) begin
      if (b_dest == 2'd2) b_wants = 2'b11;
      else if (b_dest != 2'd3) b_wants = (b_dest[0] == crossed) ? 2'b01 : 2'b10;
    end
  end

  crossbar2_lane lane0 (
      .clk, .rst, .put(put[0]), .word(word0), .room(room[0]), .ready(out_ready[0]),
      .valid(out_valid[0]), .head(out0), .stuck(stuck[0]), .spill(spill[0])
  );
  crossbar2_lane lane1 (
      .clk, .rst, .put(put[1]), .word(word1), .room(room[1]), .ready(out_ready[1]),
      .valid(out_valid[1]), .head(out1), .stuck(stuck[1]), .spill(spill[1])
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      turn    <= 1'b0;
      wiring  <= STRAIGHT;
      spilled <= '0;
    end else begin
      if (clash && (take_a != 2'b00 || take_b != 2'b00)) turn <= !turn;
      if (spill != 2'b00) spilled <= spilled + 6'(spill[0]) + 6'(spill[1]);
      case (wiring)
        STRAIGHT: if (control && control_word == SWAP_FIRST) wiring <= WILL_CROSS;
        WILL_CROSS:
        if (control) begin
          if (control_word == SWAP_SECOND) wiring <= CROSSED;
          else wiring <= STRAIGHT;
        end
        CROSSED: if (control && control_word == SWAP_FIRST) wiring <= WILL_UNCROSS;
        WILL_UNCROSS:
        if (control) begin
          if (control_word == SWAP_SECOND) wiring <= STRAIGHT;
          else wiring <= CROSSED;
        end
      endcase
    end
  end
endmodule

// Output buffer of two words. Blocked for 32 cycles, it throws words away until someone reads.
module crossbar2_lane (
    input  logic       clk,
    input  logic       rst,
    input  logic       put,
    input  logic [8:0] word,
    input  logic       ready,
    output logic       room,
    output logic       valid,
    output logic [8:0] head,
    output logic       stuck,
    output logic       spill
);
  typedef enum logic [1:0] {FLOW, BLOCKED, SPILL} lane_t;

  lane_t      lane;
  logic [8:0] second;
  logic [1:0] level;
  logic [4:0] blocked_for;
  logic       get;

  assign room  = level != 2'd2 || stuck;
  assign valid = level != 2'd0;
  assign get   = valid && ready;
  assign stuck = lane == SPILL;
  assign spill = stuck && put;

  always_ff @(posedge clk) begin
    if (rst) begin
      lane        <= FLOW;
      level       <= '0;
      head        <= '0;
      second      <= '0;
      blocked_for <= '0;
    end else begin
      if (put && !stuck) begin
        if (level == 2'd1 && !get) second <= word;
        else head <= word;
      end
      if (get && level == 2'd2) head <= second;
      if (put && !stuck && !get) level <= level + 2'd1;
      else if (get && !(put && !stuck)) level <= level - 2'd1;
      case (lane)
        FLOW: begin
          blocked_for <= '0;
          if (level == 2'd2 && !ready) lane <= BLOCKED;
        end
        BLOCKED: begin
          blocked_for <= blocked_for + 5'd1;
          if (ready) lane <= FLOW;
          else if (blocked_for == 5'd31) lane <= SPILL;
        end
        SPILL: if (ready) lane <= FLOW;
      endcase
    end
  end
endmodule
