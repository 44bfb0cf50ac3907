// SPI master: four modes, both bit orders, words of 8 or 16 bits, bursts under one chip select.
module spi_master (
    input  logic        clk,
    input  logic        rst,
    input  logic        start,
    input  logic        abort,
    input  logic        more,
    input  logic        cpol,
    input  logic        cpha,
    input  logic        lsb_first,
    input  logic        wide,
    input  logic [2:0]  divider,
    input  logic [15:0] tx_word,
    input  logic        miso,
    output logic        sclk,
    output logic        mosi,
    output logic        cs_n,
    output logic        busy,
    output logic        done,
    output logic [15:0] rx_word,
    output logic [3:0]  burst,
    output logic        burst_full,
    output logic        late
);
  typedef enum logic [2:0] {REST, LEAD, FIRST_HALF, SECOND_HALF, BETWEEN, TRAIL} phase_t;

  phase_t      phase, phase_next;
  logic        mode_cpol, mode_cpha, mode_lsb, mode_wide, keep;
  logic [2:0]  rate, tick;
  logic [15:0] shift_out, shift_in;
  logic [3:0]  left;
  logic        edge_now, last_bit, sample, advance;
  logic [4:0]  patience;

  assign busy       = phase != REST;
  assign cs_n       = phase == REST;
  assign edge_now   = tick == rate;
  assign last_bit   = left == 4'd0;
  assign burst_full = burst == 4'd15;
  assign sclk       = mode_cpol ^ (phase == SECOND_HALF);
  assign mosi       = mode_lsb ? shift_out[0] : (mode_wide ? shift_out[15] : shift_out[7]);
  // The active half of a bit is the second; data is sampled on its first edge or on its second.
  assign sample     = edge_now && (mode_cpha ? phase == SECOND_HALF : phase == FIRST_HALF);
  assign advance    = edge_now && phase == SECOND_HALF && !last_bit;

  always_comb begin
    phase_next = phase;
    unique case (phase)
      REST:        if (start) phase_next = LEAD;
      LEAD:        if (abort) phase_next = TRAIL; else if (edge_now) phase_next = FIRST_HALF;
      FIRST_HALF:  if (edge_now) phase_next = SECOND_HALF;
      SECOND_HALF: if (edge_now) begin
        if (!last_bit) phase_next = abort ? TRAIL : FIRST_HALF;
        else if (keep && !burst_full) phase_next = BETWEEN;
        else phase_next = TRAIL;
      end
      BETWEEN: begin
        if (start) phase_next = FIRST_HALF;
        else if (abort || patience == 5'd31) phase_next = TRAIL;
      end
      TRAIL:       if (edge_now) phase_next = REST;
    endcase
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      phase     <= REST;
      mode_cpol <= 1'b0;
      mode_cpha <= 1'b0;
      mode_lsb  <= 1'b0;
      mode_wide <= 1'b0;
      keep      <= 1'b0;
      rate      <= '0;
      tick      <= '0;
      shift_out <= '0;
      shift_in  <= '0;
      left      <= '0;
      done      <= 1'b0;
      rx_word   <= '0;
      burst     <= '0;
      late      <= 1'b0;
      patience  <= '0;
    end else begin
      phase <= phase_next;
      done  <= 1'b0;
      tick  <= (phase == REST || phase == BETWEEN || edge_now) ? 3'd0 : tick + 3'd1;
      if (phase == REST && start) begin
        mode_cpol <= cpol;
        mode_cpha <= cpha;
        mode_lsb  <= lsb_first;
        mode_wide <= wide;
        rate      <= divider;
        burst     <= '0;
        late      <= 1'b0;
      end
      if (start && (phase == REST || phase == BETWEEN)) begin
        shift_out <= tx_word;
        shift_in  <= '0;
        keep      <= more;
        left      <= (phase == REST ? wide : mode_wide) ? 4'd15 : 4'd7;
        patience  <= '0;
      end else begin
        if (phase == BETWEEN) begin
          patience <= patience + 5'd1;
          if (patience == 5'd31) late <= 1'b1;
        end
        if (sample) begin
          if (!mode_lsb) shift_in <= {shift_in[14:0], miso};
          else if (mode_wide) shift_in <= {miso, shift_in[15:1]};
          else shift_in <= {8'd0, miso, shift_in[7:1]};
        end
        if (advance) begin
          shift_out <= mode_lsb ? {1'b0, shift_out[15:1]} : {shift_out[14:0], 1'b0};
          left      <= left - 4'd1;
        end
      end
      // With cpha = 0 the last bit is in; with cpha = 1 it arrives with this very edge.
      if (phase == SECOND_HALF && edge_now && last_bit) begin
        done  <= 1'b1;
        burst <= burst + 4'd1;
        if (!mode_cpha) rx_word <= shift_in;
        else if (!mode_lsb) rx_word <= {shift_in[14:0], miso};
        else if (mode_wide) rx_word <= {miso, shift_in[15:1]};
        else rx_word <= {8'd0, miso, shift_in[7:1]};
      end
    end
  end
endmodule
