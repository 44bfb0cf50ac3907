// Tag store of a write-back cache: four sets of two ways, least recently used goes first.
module cache_tags (
  input  logic       clk,
  input  logic       rst_n,
  input  logic       req,
  input  logic [1:0] op,
  input  logic [7:0] addr,
  input  logic       mem_ack,
  output logic       ready,
  output logic       done,
  output logic       hit,
  output logic       way,
  output logic       denied,
  output logic       mem_fetch,
  output logic       mem_evict,
  output logic [7:0] mem_addr,
  output logic [5:0] hits,
  output logic [5:0] misses
);
  typedef enum logic [2:0] {INVALIDATE, ACCEPT, LOOKUP, WRITE_BACK, REFILL, WALK, WALK_BACK} ctrl_t;
  typedef enum logic [1:0] {SHUT, AJAR, UNBARRED} gate_t;
  ctrl_t ctrl;
  gate_t gate;

  logic [5:0] tag0 [0:3], tag1 [0:3];
  logic [3:0] valid0, valid1, dirty0, dirty1, pinned, older1;
  logic [7:0] held;
  logic [2:0] walk;
  logic is_write, victim;

  wire [1:0] set  = held[1:0];
  wire match0     = valid0[set] && tag0[set] == held[7:2];
  wire match1     = valid1[set] && tag1[set] == held[7:2];
  // Free ways first; a pinned line (way 0 only) is never the victim.
  wire choose     = pinned[set] || (valid0[set] && (!valid1[set] || older1[set]));
  wire must_save  = choose ? valid1[set] && dirty1[set] : valid0[set] && dirty0[set];
  wire [1:0] wset = walk[2:1];
  wire walk_dirty = walk[0] ? valid1[wset] && dirty1[wset] : valid0[wset] && dirty0[wset];
  wire keyed      = req && ready && op == 2'd2;
  wire service    = req && ready && op == 2'd3;

  assign ready     = ctrl == ACCEPT;
  assign mem_fetch = ctrl == REFILL;
  assign mem_evict = ctrl == WRITE_BACK || ctrl == WALK_BACK;

  always_comb begin
    mem_addr = held;
    if (ctrl == WRITE_BACK) mem_addr = {victim ? tag1[set] : tag0[set], set};
    if (ctrl == WALK_BACK) mem_addr = {walk[0] ? tag1[wset] : tag0[wset], wset};
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) gate <= SHUT;
    else case (gate)
      SHUT: if (keyed && addr == 8'hA5) gate <= AJAR;
      AJAR: if (keyed) gate <= addr == 8'h3C ? UNBARRED : SHUT;
      UNBARRED: if (service || keyed) gate <= SHUT;
    endcase
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      ctrl <= INVALIDATE;
      {valid0, valid1, dirty0, dirty1, pinned, older1} <= 24'hFFFFFF;
      {held, walk, is_write, victim, done, hit, way, denied} <= 17'd0;
      {hits, misses} <= 12'd0;
      for (int i = 0; i < 4; i++) {tag0[i], tag1[i]} <= 12'd0;
    end else begin
      done   <= 1'b0;
      denied <= 1'b0;
      case (ctrl)
        INVALIDATE: begin
          valid0[wset] <= 1'b0;
          valid1[wset] <= 1'b0;
          pinned[wset] <= 1'b0;
          walk <= walk + 3'd2;
          if (wset == 2'd3) begin
            walk <= 3'd0;
            ctrl <= ACCEPT;
          end
        end
        ACCEPT: if (req) begin
          held <= addr;
          is_write <= op[0];
          if (!op[1]) ctrl <= LOOKUP;
          else if (op[0] && gate != UNBARRED) denied <= 1'b1;
          else if (op[0]) begin
            case (addr[7:6])
              2'd0: ctrl <= WALK;
              2'd1: pinned[addr[1:0]] <= valid0[addr[1:0]];
              2'd2: pinned <= 4'd0;
              2'd3: {hits, misses} <= 12'd0;
            endcase
          end
        end
        LOOKUP: begin
          hit <= match0 || match1;
          way <= match1;
          if (match0 || match1) begin
            hits <= hits + 6'd1;
            done <= 1'b1;
            older1[set] <= match0;
            if (is_write && match0) dirty0[set] <= 1'b1;
            if (is_write && match1) dirty1[set] <= 1'b1;
            ctrl <= ACCEPT;
          end else begin
            misses <= misses + 6'd1;
            victim <= choose;
            ctrl <= must_save ? WRITE_BACK : REFILL;
          end
        end
        WRITE_BACK: if (mem_ack) ctrl <= REFILL;
        REFILL: if (mem_ack) begin
          if (victim) {valid1[set], dirty1[set], tag1[set]} <= {1'b1, is_write, held[7:2]};
          else {valid0[set], dirty0[set], tag0[set]} <= {1'b1, is_write, held[7:2]};
          older1[set] <= !victim;
          way  <= victim;
          done <= 1'b1;
          ctrl <= ACCEPT;
        end
        WALK: begin
          if (walk_dirty) ctrl <= WALK_BACK;
          else begin
            walk <= walk + 3'd1;
            if (walk == 3'd7) begin
              done <= 1'b1;
              ctrl <= ACCEPT;
            end
          end
        end
        WALK_BACK: if (mem_ack) begin
          if (walk[0]) dirty1[wset] <= 1'b0;
          else dirty0[wset] <= 1'b0;
          ctrl <= WALK;
        end
      endcase
    end
  end
endmodule
