// Converts between 14-bit binary numbers and four decimal digits, bit by bit.
module bcd_converter (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        go,
    input  logic        to_binary,
    input  logic        blanking,
    input  logic        cancel,
    input  logic [13:0] binary_in,
    input  logic [15:0] digits_in,
    output logic        idle,
    output logic        done,
    output logic [15:0] digits_out,
    output logic [13:0] binary_out,
    output logic [3:1]  blank,
    output logic        too_big,
    output logic        not_decimal,
    output logic [3:0]  wrong_digit,
    output logic [3:0]  good_in_row,
    output logic        steady
);
  typedef enum logic [2:0] {S_IDLE, S_CHECK, S_UP, S_DOWN, S_BLANK, S_DONE} state_t;

  state_t      state;
  logic [29:0] shifter;
  logic [3:0]  count;
  logic        direction, want_blank;
  logic [28:0] halved;
  logic [15:0] corrected_up;
  logic [11:0] corrected_down;
  logic [3:0]  suspect;

  assign idle   = state == S_IDLE;
  assign done   = state == S_DONE;
  assign steady = good_in_row == 4'd12;

  assign halved = shifter[29:1];

  // A digit above 4 would overflow when doubled; one above 7 got its top bit from the digit to its
  // left when halved, which the thousands cannot.
  always_comb begin
    for (int i = 0; i < 4; i++) begin
      suspect[i] = shifter[14+4*i+:4] > 4'd9;
      corrected_up[4*i+:4] = shifter[14+4*i+:4];
      if (shifter[14+4*i+:4] > 4'd4) corrected_up[4*i+:4] = shifter[14+4*i+:4] + 4'd3;
    end
    for (int i = 0; i < 3; i++) begin
      corrected_down[4*i+:4] = halved[14+4*i+:4];
      if (halved[14+4*i+:4] > 4'd7) corrected_down[4*i+:4] = halved[14+4*i+:4] - 4'd3;
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      state       <= S_IDLE;
      shifter     <= '0;
      count       <= '0;
      direction   <= 1'b0;
      want_blank  <= 1'b0;
      digits_out  <= '0;
      binary_out  <= '0;
      blank       <= '0;
      too_big     <= 1'b0;
      not_decimal <= 1'b0;
      wrong_digit <= '0;
      good_in_row <= '0;
    end else if (cancel && !idle) begin
      state       <= S_IDLE;
      good_in_row <= '0;
    end else begin
      case (state)
        S_IDLE:
        if (go) begin
          direction  <= to_binary;
          want_blank <= blanking;
          count      <= 4'd0;
          blank      <= '0;
          shifter    <= to_binary ? {digits_in, 14'd0} : {16'd0, binary_in};
          state      <= S_CHECK;
        end
        S_CHECK: begin
          too_big     <= !direction && shifter[13:0] > 14'd9999;
          not_decimal <= direction && suspect != 4'd0;
          wrong_digit <= direction ? suspect : 4'd0;
          if (direction) begin
            if (suspect != 4'd0) begin
              good_in_row <= '0;
              state       <= S_DONE;
            end else begin
              state <= S_DOWN;
            end
          end else if (shifter[13:0] > 14'd9999) begin
            digits_out  <= 16'h9999;
            good_in_row <= '0;
            state       <= S_DONE;
          end else begin
            state <= S_UP;
          end
        end
        S_UP: begin
          shifter <= {corrected_up[14:0], shifter[13:0], 1'b0};
          count   <= count + 4'd1;
          if (count == 4'd13) begin
            digits_out <= {corrected_up[14:0], shifter[13]};
            state      <= want_blank ? S_BLANK : S_DONE;
          end
        end
        S_DOWN: begin
          shifter <= {1'b0, halved[28:26], corrected_down, halved[13:0]};
          count   <= count + 4'd1;
          if (count == 4'd13) begin
            binary_out <= halved[13:0];
            state      <= S_DONE;
          end
        end
        S_BLANK: begin
          blank[3] <= digits_out[15:12] == 4'd0;
          blank[2] <= digits_out[15:8] == 8'd0;
          blank[1] <= digits_out[15:4] == 12'd0;
          state    <= S_DONE;
        end
        S_DONE: begin
          if (!too_big && !not_decimal && good_in_row != 4'd12) good_in_row <= good_in_row + 4'd1;
          state <= S_IDLE;
        end
      endcase
    end
  end
endmodule
