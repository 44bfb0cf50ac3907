// Key-pad lock with a changeable four-digit code, growing lock-out, and a duress digit.
module combo_lock (
  input  logic       clk,
  input  logic       rst,
  input  logic       key_hit,
  input  logic [3:0] key,
  input  logic       door_shut,
  output logic       bolt_free,
  output logic       beep,
  output logic       locked_out,
  output logic       duress,
  output logic       tamper,
  output logic [2:0] digits,
  output logic [9:0] penalty
);
  localparam logic [3:0] CLEAR = 4'd10, ENTER = 4'd11, CHANGE = 4'd12;
  localparam logic [15:0] FACTORY = 16'h4715;

  typedef enum logic [2:0] {ARMED, CHECK, BLOCKED, FREE, AJAR, NEW_CODE} stage_t;
  stage_t stage;

  logic [15:0] code, entry;
  logic [1:0] misses;
  logic [4:0] grace;
  logic [1:0] repeats;

  wire digit = key_hit && key < 4'd10;
  wire enter = key_hit && key == ENTER;
  wire full  = digits == 3'd4;
  wire match = full && entry == code;
  // Under duress the last digit is typed one too high.
  wire forced_match = full && entry[15:4] == code[15:4] && entry[3:0] == code[3:0] + 4'd1;

  always_ff @(posedge clk) begin
    if (rst) begin
      stage    <= ARMED;
      code     <= FACTORY;
      entry    <= 16'd0;
      digits   <= 3'd0;
      misses   <= 2'd0;
      grace    <= 5'd0;
      penalty  <= 10'd0;
      repeats  <= 2'd0;
      beep     <= 1'b0;
      duress   <= 1'b0;
      tamper   <= 1'b0;
    end else begin
      beep <= key_hit && stage != BLOCKED;
      if (digit && (stage == ARMED || stage == NEW_CODE) && !full) begin
        entry  <= {entry[11:0], key};
        digits <= digits + 3'd1;
      end
      if (key_hit && key == CLEAR) digits <= 3'd0;

      case (stage)
        ARMED: begin
          if (!door_shut) tamper <= 1'b1;
          if (enter) stage <= CHECK;
        end
        CHECK: begin
          digits <= 3'd0;
          if (match || forced_match) begin
            stage    <= FREE;
            duress   <= duress || forced_match;
            misses   <= 2'd0;
            grace    <= 5'd25;
          end else if (misses == 2'd2) begin
            stage    <= BLOCKED;
            penalty  <= 10'd64 << repeats;
            misses   <= 2'd0;
            if (repeats != 2'd3) repeats <= repeats + 2'd1;
          end else begin
            stage  <= ARMED;
            misses <= misses + 2'd1;
          end
        end
        BLOCKED: begin
          if (penalty == 10'd0) stage <= ARMED;
          else penalty <= penalty - 10'd1;
        end
        FREE: begin
          grace <= grace - 5'd1;
          if (!door_shut) stage <= AJAR;
          else if (grace == 5'd0) stage <= ARMED;
          else if (key_hit && key == CHANGE) stage <= NEW_CODE;
        end
        AJAR: if (door_shut) begin
          stage <= FREE;
          grace <= 5'd9;
        end
        NEW_CODE: begin
          if (!door_shut) begin
            stage  <= AJAR;
            digits <= 3'd0;
          end else if (enter) begin
            stage  <= ARMED;
            digits <= 3'd0;
            if (full) begin
              code     <= entry;
              repeats  <= 2'd0;
              tamper   <= 1'b0;
              duress   <= 1'b0;
            end
          end
        end
      endcase
    end
  end

  assign bolt_free  = stage == FREE || stage == AJAR || stage == NEW_CODE;
  assign locked_out = stage == BLOCKED;
endmodule
