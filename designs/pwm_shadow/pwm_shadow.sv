// Complementary PWM pair with dead time; settings are double buffered and taken over together.
module pwm_shadow (
  input  logic        clk,
  input  logic        rst,
  input  logic        wr,
  input  logic [2:0]  addr,
  input  logic [9:0]  wdata,
  input  logic        trip,
  output logic        pwm_h,
  output logic        pwm_l,
  output logic        period_end,
  output logic        pending,
  output logic        tripped,
  output logic [9:0]  position
);
  typedef enum logic [2:0] {IDLE, RISE_GAP, HIGH, FALL_GAP, LOW, FAULT} phase_t;
  phase_t phase, phase_next;

  logic [9:0] period_shadow, duty_shadow, period, duty;
  logic [4:0] gap_shadow, gap, gap_left;
  logic run, single, take_over, armed;

  wire last = position >= period;
  wire gap_done = gap_left == 5'd0;

  always_comb begin
    phase_next = phase;
    case (phase)
      IDLE: if (run && !armed && period_shadow > 10'd3) phase_next = RISE_GAP;
      RISE_GAP: if (last) phase_next = LOW;
                else if (gap_done) phase_next = HIGH;
      HIGH: if (last) phase_next = single ? IDLE : RISE_GAP;
            else if (position >= duty) phase_next = FALL_GAP;
      FALL_GAP: if (last) phase_next = single ? IDLE : RISE_GAP;
                else if (gap_done) phase_next = LOW;
      LOW: if (last) phase_next = (single || !run) ? IDLE : RISE_GAP;
      FAULT: if (wr && addr == 3'd7 && wdata == 10'h2D5 && !trip) phase_next = IDLE;
    endcase
    if (trip) phase_next = FAULT;
  end

  wire new_cycle = phase_next == RISE_GAP && phase != RISE_GAP;

  always_ff @(posedge clk) begin
    if (rst) begin
      phase      <= IDLE;
      position   <= 10'd0;
      period_end <= 1'b0;
      gap_left   <= 5'd0;
      armed      <= 1'b0;
    end else begin
      phase      <= phase_next;
      period_end <= last && phase != IDLE && phase != FAULT;
      position   <= (new_cycle || phase_next == IDLE || phase == FAULT) ? 10'd0
                    : last ? position : position + 10'd1;
      if (new_cycle) gap_left <= (take_over || phase == IDLE) ? gap_shadow : gap;
      else if (phase == HIGH) gap_left <= gap;
      else if (!gap_done) gap_left <= gap_left - 5'd1;
      // A single shot needs a fresh run command.
      if (phase_next == IDLE && phase != IDLE && single) armed <= 1'b1;
      else if (wr && addr == 3'd3) armed <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      period_shadow <= 10'd0;
      duty_shadow   <= 10'd0;
      gap_shadow    <= 5'd0;
      period <= 10'd0;
      duty   <= 10'd0;
      gap    <= 5'd0;
      run    <= 1'b0;
      single <= 1'b0;
      take_over <= 1'b0;
    end else begin
      if (new_cycle && (take_over || phase == IDLE)) begin
        period <= period_shadow;
        duty   <= duty_shadow;
        gap    <= gap_shadow;
        take_over <= 1'b0;
      end
      if (wr) begin
        case (addr)
          3'd0: period_shadow <= wdata;
          3'd1: duty_shadow <= wdata;
          3'd2: gap_shadow <= wdata[4:0];
          3'd3: {single, run} <= wdata[1:0];
          3'd4: take_over <= 1'b1;
          default: ;
        endcase
      end
    end
  end

  assign pwm_h = phase == HIGH;
  assign pwm_l = phase == LOW;
  assign tripped = phase == FAULT;
  assign pending = take_over;
endmodule
