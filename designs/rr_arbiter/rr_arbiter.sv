// Round-robin arbiter for four clients with bus locking, lock expiry and a quarantine.
module rr_arbiter (
    input  logic       clk,
    input  logic       rst,
    input  logic       enable,
    input  logic [3:0] req,
    input  logic [3:0] lock,
    input  logic [3:0] mask,
    input  logic       pardon,
    output logic [3:0] gnt,
    output logic [1:0] gnt_id,
    output logic       busy,
    output logic       locked,
    output logic       expired,
    output logic [3:0] banned,
    output logic [4:0] held_for,
    output logic [7:0] handovers
);
  localparam logic [4:0] LOCK_LIMIT = 5'd24;

  typedef enum logic [2:0] {PARKED, GRANTED, LOCKED, REVOKE, COOL} phase_t;

  phase_t     phase;
  logic [1:0] last, winner;
  logic [3:0] eligible;
  logic       any, mine, my_lock;
  logic [2:0] cooling;

  assign eligible = req & ~mask & ~banned;
  assign any      = eligible != 4'd0;
  assign mine     = eligible[gnt_id];
  assign my_lock  = lock[gnt_id];
  assign busy     = phase == GRANTED || phase == LOCKED;
  assign locked   = phase == LOCKED;
  assign gnt      = busy ? 4'd1 << gnt_id : 4'd0;

  // The first eligible client after the last one served.
  always_comb begin
    winner = last;
    for (int step = 4; step >= 1; step--)
      if (eligible[2'(last + 2'(step))]) winner = 2'(last + 2'(step));
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      phase     <= PARKED;
      last      <= 2'd3;
      gnt_id    <= '0;
      expired   <= 1'b0;
      banned    <= '0;
      held_for  <= '0;
      handovers <= '0;
      cooling   <= '0;
    end else begin
      expired <= 1'b0;
      if (pardon) banned <= '0;
      case (phase)
        PARKED: begin
          held_for <= '0;
          if (enable && any) begin
            gnt_id    <= winner;
            handovers <= handovers + 8'd1;
            phase     <= GRANTED;
          end
        end
        GRANTED: begin
          last     <= gnt_id;
          held_for <= held_for + 5'd1;
          if (!enable) phase <= PARKED;
          else if (mine && my_lock) phase <= LOCKED;
          else if (!mine) begin
            if (any) begin
              gnt_id    <= winner;
              handovers <= handovers + 8'd1;
              held_for  <= '0;
            end else phase <= PARKED;
          end else if (held_for >= 5'd3 && (eligible & ~gnt) != 4'd0) begin
            // A client that does not lock has four cycles before the others get their turn.
            gnt_id    <= winner;
            handovers <= handovers + 8'd1;
            held_for  <= '0;
          end else if (held_for == 5'd31) held_for <= 5'd31;
        end
        LOCKED: begin
          held_for <= held_for + 5'd1;
          if (!my_lock || !req[gnt_id]) begin
            held_for <= '0;
            phase    <= GRANTED;
          end else if (held_for == LOCK_LIMIT) phase <= REVOKE;
        end
        REVOKE: begin
          expired        <= 1'b1;
          banned[gnt_id] <= 1'b1;
          cooling        <= 3'd5;
          phase          <= COOL;
        end
        COOL: begin
          cooling <= cooling - 3'd1;
          if (cooling == 3'd0 || pardon) phase <= PARKED;
        end
      endcase
    end
  end
endmodule
