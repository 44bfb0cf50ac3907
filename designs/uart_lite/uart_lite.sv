// Small UART: transmitter and receiver with parity, break detection and a programmable divisor.
module uart_lite (
    input  logic       clk,
    input  logic       rst_n,
    input  logic       setup,
    input  logic [3:0] divisor,
    input  logic [1:0] parity,
    input  logic       two_stops,
    input  logic       tx_start,
    input  logic [7:0] tx_data,
    output logic       tx_busy,
    output logic       txd,
    input  logic       rxd,
    output logic [7:0] rx_data,
    output logic       rx_valid,
    output logic       parity_error,
    output logic       framing_error,
    output logic       line_break,
    output logic [3:0] errors
);
  typedef enum logic [2:0] {T_IDLE, T_START, T_DATA, T_PARITY, T_STOP, T_STOP2} tx_t;
  typedef enum logic [2:0] {R_IDLE, R_START, R_DATA, R_PARITY, R_STOP, R_BREAK} rx_t;

  tx_t        tx;
  rx_t        rx;
  logic [3:0] period, tx_tick, rx_tick;
  logic [1:0] parity_mode;
  logic       stops, tx_last, rx_mid, rx_last;
  logic [7:0] tx_shift, rx_shift;
  logic [2:0] tx_bit, rx_bit;
  logic       tx_parity, rx_parity, rx_bad;
  logic [1:0] sync;

  assign tx_busy = tx != T_IDLE;
  assign tx_last = tx_tick == period;
  assign rx_last = rx_tick == period;
  assign rx_mid  = rx_tick == {1'b0, period[3:1]};

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      period      <= 4'd7;
      parity_mode <= 2'd0;
      stops       <= 1'b0;
    end else if (setup && tx == T_IDLE && rx == R_IDLE && divisor >= 4'd3) begin
      period      <= divisor;
      parity_mode <= parity;
      stops       <= two_stops;
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      tx        <= T_IDLE;
      txd       <= 1'b1;
      tx_tick   <= '0;
      tx_shift  <= '0;
      tx_bit    <= '0;
      tx_parity <= 1'b0;
    end else begin
      tx_tick <= (tx == T_IDLE || tx_last) ? 4'd0 : tx_tick + 4'd1;
      case (tx)
        T_IDLE: begin
          txd <= 1'b1;
          if (tx_start) begin
            tx        <= T_START;
            tx_shift  <= tx_data;
            tx_bit    <= '0;
            // Parity mode 1 is even, 2 is odd, 3 sends a mark.
            tx_parity <= (parity_mode == 2'd3) || (^tx_data ^ parity_mode[1]);
          end
        end
        T_START: begin
          txd <= 1'b0;
          if (tx_last) tx <= T_DATA;
        end
        T_DATA: begin
          txd <= tx_shift[0];
          if (tx_last) begin
            tx_shift <= {1'b0, tx_shift[7:1]};
            tx_bit   <= tx_bit + 3'd1;
            if (tx_bit == 3'd7) tx <= (parity_mode != 2'd0) ? T_PARITY : T_STOP;
          end
        end
        T_PARITY: begin
          txd <= tx_parity;
          if (tx_last) tx <= T_STOP;
        end
        T_STOP: begin
          txd <= 1'b1;
          if (tx_last) tx <= stops ? T_STOP2 : T_IDLE;
        end
        T_STOP2: if (tx_last) tx <= T_IDLE;
      endcase
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      rx            <= R_IDLE;
      sync          <= 2'b11;
      rx_tick       <= '0;
      rx_shift      <= '0;
      rx_bit        <= '0;
      rx_parity     <= 1'b0;
      rx_bad        <= 1'b0;
      rx_data       <= '0;
      rx_valid      <= 1'b0;
      parity_error  <= 1'b0;
      framing_error <= 1'b0;
      line_break    <= 1'b0;
      errors        <= '0;
    end else begin
      sync       <= {sync[0], rxd};
      rx_valid   <= 1'b0;
      line_break <= 1'b0;
      rx_tick    <= (rx == R_IDLE || rx_last) ? 4'd0 : rx_tick + 4'd1;
      case (rx)
        R_IDLE: begin
          rx_bit    <= '0;
          rx_parity <= 1'b0;
          rx_bad    <= 1'b0;
          if (!sync[1]) rx <= R_START;
        end
        R_START: begin
          if (rx_mid && sync[1]) rx <= R_IDLE;
          else if (rx_last) rx <= R_DATA;
        end
        R_DATA: begin
          if (rx_mid) begin
            rx_shift  <= {sync[1], rx_shift[7:1]};
            rx_parity <= rx_parity ^ sync[1];
          end
          if (rx_last) begin
            rx_bit <= rx_bit + 3'd1;
            if (rx_bit == 3'd7) rx <= (parity_mode != 2'd0) ? R_PARITY : R_STOP;
          end
        end
        R_PARITY: begin
          if (rx_mid)
            rx_bad <= (parity_mode == 2'd3) ? !sync[1] : (sync[1] != (rx_parity ^ parity_mode[1]));
          if (rx_last) rx <= R_STOP;
        end
        R_STOP:
        if (rx_mid) begin
          framing_error <= !sync[1];
          parity_error  <= rx_bad;
          if (sync[1] && !rx_bad) begin
            rx_data  <= rx_shift;
            rx_valid <= 1'b1;
          end else if (errors != 4'd15) errors <= errors + 4'd1;
          if (!sync[1] && rx_shift == 8'd0) rx <= R_BREAK;
          else rx <= R_IDLE;
        end
        R_BREAK:
        if (sync[1]) begin
          line_break <= 1'b1;
          rx         <= R_IDLE;
        end
      endcase
    end
  end
endmodule
