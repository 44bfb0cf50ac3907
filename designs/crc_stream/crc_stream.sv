// Checksum engine: CRC of 16 bits with any polynomial, start value, reflection and final mask.
module crc_stream (
  input  logic        clk,
  input  logic        rst,
  input  logic [2:0]  command,
  input  logic [15:0] operand,
  output logic        ready,
  output logic        done,
  output logic        equal,
  output logic        misuse,
  output logic [15:0] result,
  output logic [7:0]  amount,
  output logic        overflow
);
  localparam logic [2:0] NOP = 3'd0, SET_POLY = 3'd1, SET_START = 3'd2, SET_STYLE = 3'd3,
                         BEGIN = 3'd4, BYTE = 3'd5, FINISH = 3'd6, COMPARE = 3'd7;

  typedef enum logic [2:0] {OFF, SETUP, ACTIVE, SHIFT, FLIP, CLOSED, SPOILT} phase_t;
  phase_t at, to;

  logic [15:0] poly, start, mask, lfsr;
  logic mirror_in, mirror_out, set_poly, set_start;
  logic [7:0] byte_held;
  logic [2:0] bit_left;
  logic [3:0] flip_left;

  wire feedback = lfsr[15] ^ (mirror_in ? byte_held[0] : byte_held[7]);
  wire complete = set_poly && set_start;
  wire begun = amount != 8'd0 || overflow;
  wire setting = command == SET_POLY || command == SET_START || command == SET_STYLE;

  always_comb begin
    to = at;
    misuse = 1'b0;
    case (at)
      OFF: begin
        if (setting) to = SETUP;
        else misuse = command != NOP;
      end
      SETUP: begin
        if (command == BEGIN && complete) to = ACTIVE;
        else if (setting) to = SETUP;
        else misuse = command != NOP;
      end
      ACTIVE: begin
        if (command == BYTE) to = SHIFT;
        else if (command == FINISH && begun) to = mirror_out ? FLIP : CLOSED;
        else misuse = command != NOP;
      end
      SHIFT: begin
        if (command != NOP) to = SPOILT;
        else if (bit_left == 3'd0) to = ACTIVE;
        misuse = command != NOP;
      end
      FLIP: begin
        if (command != NOP) to = SPOILT;
        else if (flip_left == 4'd0) to = CLOSED;
        misuse = command != NOP;
      end
      CLOSED: begin
        if (command == BEGIN) to = ACTIVE;
        else if (setting) to = SETUP;
        else misuse = command != NOP && command != COMPARE;
      end
      SPOILT: begin
        if (command == BEGIN) to = ACTIVE;
        else misuse = command != NOP;
      end
    endcase
  end

  assign ready = at != SHIFT && at != FLIP;
  assign done  = at == CLOSED;

  always_ff @(posedge clk) begin
    if (rst) begin
      at <= OFF;
      poly <= 16'h0000;
      start <= 16'h0000;
      mask <= 16'h0000;
      {mirror_in, mirror_out, set_poly, set_start} <= 4'b0000;
    end else begin
      at <= to;
      if (to == SETUP) begin
        // An even polynomial cannot reach every remainder; it is refused.
        if (command == SET_POLY && operand[0]) poly <= operand;
        if (command == SET_POLY) set_poly <= operand[0];
        if (command == SET_START) start <= operand;
        if (command == SET_START) set_start <= 1'b1;
        if (command == SET_STYLE) begin
          {mirror_in, mirror_out} <= operand[1:0];
          mask <= {16{operand[2]}};
        end
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      lfsr <= 16'h0000;
      result <= 16'h0000;
      byte_held <= 8'h00;
      bit_left <= 3'd0;
      flip_left <= 4'd0;
      amount <= 8'd0;
      overflow <= 1'b0;
      equal <= 1'b0;
    end else begin
      case (at)
        OFF, SETUP: if (to == ACTIVE) lfsr <= start;
        ACTIVE: begin
          bit_left <= 3'd7;
          flip_left <= 4'd15;
          byte_held <= operand[7:0];
          if (to == CLOSED) result <= lfsr ^ mask;
          if (to == SHIFT) begin
            amount <= amount + 8'd1;
            if (amount == 8'hFF) overflow <= 1'b1;
          end
        end
        SHIFT: begin
          bit_left <= bit_left - 3'd1;
          byte_held <= mirror_in ? {1'b0, byte_held[7:1]} : {byte_held[6:0], 1'b0};
          lfsr <= {lfsr[14:0], 1'b0} ^ (feedback ? poly : 16'h0000);
        end
        FLIP: begin
          flip_left <= flip_left - 4'd1;
          lfsr <= {1'b0, lfsr[15:1]};
          result <= {result[14:0], lfsr[0] ^ mask[0]};
        end
        CLOSED, SPOILT: begin
          if (command == COMPARE && at == CLOSED) equal <= operand == result;
          if (to != at) begin
            lfsr <= start;
            amount <= 8'd0;
            overflow <= 1'b0;
            equal <= 1'b0;
          end
        end
      endcase
    end
  end
endmodule
