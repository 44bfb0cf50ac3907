// Restoring divider, 16 by 16 bits, one quotient bit a cycle, signed or unsigned.
module seq_divider (
    input  logic        clk,
    input  logic        rst,
    input  logic        start,
    input  logic        is_signed,
    input  logic        round,
    input  logic        abort,
    input  logic [15:0] dividend,
    input  logic [15:0] divisor,
    output logic        ready,
    output logic        done,
    output logic [15:0] quotient,
    output logic [15:0] remainder,
    output logic        div_by_zero,
    output logic        overflow,
    output logic        exact,
    output logic [3:0]  aborts,
    output logic [4:0]  streak
);
  typedef enum logic [2:0] {WAIT, MAGNITUDE, SHIFT, ROUND, SIGN, FINISH} step_t;

  step_t       step, step_next;
  logic [15:0] divisor_q;
  logic [31:0] work;
  logic [3:0]  bits_left;
  logic        flip_q, flip_r, rounding;
  logic [16:0] trial;
  logic        minimum, half;

  assign ready   = step == WAIT;
  assign done    = step == FINISH;
  assign trial   = {1'b0, work[30:15]} - {1'b0, divisor_q};
  assign minimum = is_signed && dividend == 16'h8000 && divisor == 16'hFFFF;
  assign half    = {work[31:16], 1'b0} >= {1'b0, divisor_q};

  always_comb begin
    step_next = step;
    case (step)
      WAIT:
      if (start) begin
        if (divisor == 16'd0 || minimum) step_next = FINISH;
        else step_next = MAGNITUDE;
      end
      MAGNITUDE:
      if (abort) step_next = WAIT;
      else if (work[15:0] < divisor_q) step_next = ROUND;
      else step_next = SHIFT;
      SHIFT:
      if (abort) step_next = WAIT;
      else if (bits_left == 4'd0) step_next = rounding ? ROUND : SIGN;
      ROUND:   step_next = SIGN;
      SIGN:    step_next = FINISH;
      FINISH:  step_next = WAIT;
    endcase
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      step        <= WAIT;
      divisor_q   <= '0;
      work        <= '0;
      bits_left   <= '0;
      flip_q      <= 1'b0;
      flip_r      <= 1'b0;
      rounding    <= 1'b0;
      quotient    <= '0;
      remainder   <= '0;
      div_by_zero <= 1'b0;
      overflow    <= 1'b0;
      exact       <= 1'b0;
      aborts      <= '0;
      streak      <= '0;
    end else begin
      step <= step_next;
      case (step)
        WAIT:
        if (start) begin
          rounding    <= round;
          div_by_zero <= divisor == 16'd0;
          overflow    <= minimum;
          flip_q      <= is_signed && (dividend[15] != divisor[15]);
          flip_r      <= is_signed && dividend[15];
          work        <= {16'd0, (is_signed && dividend[15]) ? -dividend : dividend};
          divisor_q   <= (is_signed && divisor[15]) ? -divisor : divisor;
          bits_left   <= 4'd15;
          if (divisor == 16'd0) begin
            quotient  <= 16'hFFFF;
            remainder <= dividend;
          end else if (minimum) begin
            quotient  <= 16'h8000;
            remainder <= '0;
          end
        end
        MAGNITUDE: begin
          if (abort) aborts <= aborts + 4'd1;
          // Nothing to subtract: the dividend is the remainder.
          if (work[15:0] < divisor_q) work <= {work[15:0], 16'd0};
        end
        SHIFT: begin
          if (abort) aborts <= aborts + 4'd1;
          bits_left <= bits_left - 4'd1;
          // Long divisions in a row without an abort.
          if (abort) streak <= '0;
          else if (bits_left == 4'd0 && streak != 5'd20) streak <= streak + 5'd1;
          if (trial[16]) work <= {work[30:0], 1'b0};
          else work <= {trial[15:0], work[14:0], 1'b1};
        end
        ROUND:
        if (rounding && half) begin
          work[15:0]  <= work[15:0] + 16'd1;
          work[31:16] <= '0;
        end
        SIGN: begin
          exact     <= work[31:16] == 16'd0;
          quotient  <= flip_q ? -work[15:0] : work[15:0];
          remainder <= flip_r ? -work[31:16] : work[31:16];
        end
        FINISH: work <= '0;
      endcase
    end
  end
endmodule
