// Manchester receiver: finds preamble and sync word, then takes a checked frame of up to 8 bytes.
module manchester_rx (
    input  logic       clk,
    input  logic       rst_n,
    input  logic       tick,
    input  logic       level,
    input  logic       listen,
    input  logic       clear,
    output logic [7:0] data,
    output logic       data_valid,
    output logic       frame_good,
    output logic       frame_bad,
    output logic       carrier,
    output logic       synced,
    output logic       slipped,
    output logic [3:0] length,
    output logic [4:0] good_frames,
    output logic [4:0] bad_frames,
    output logic [2:0] fault
);
  localparam logic [15:0] SYNC = 16'h2DD4;
  localparam logic [2:0] NO_SYNC = 3'd1, LENGTH = 3'd2, SYMBOL = 3'd3, SUM = 3'd4;

  typedef enum logic [2:0] {DEAF, HUNT, TRAIN, MATCH, SIZE, BODY, TAIL} stage_t;

  stage_t      stage;
  logic        second_half, first_level;
  logic        symbol, legal, one;
  logic [3:0]  ones;
  logic [15:0] window;
  logic [4:0]  searched;
  logic [2:0]  bit_count;
  logic [3:0]  bytes_left;
  logic [7:0]  sum;
  logic [7:0]  byte_now;
  logic        byte_ends;

  // A one is low then high; equal halves are illegal.
  assign symbol    = tick && second_half;
  assign legal     = first_level != level;
  assign one       = level;
  assign byte_now  = {window[6:0], one};
  assign byte_ends = bit_count == 3'd7;
  assign carrier   = stage != DEAF && stage != HUNT;
  assign synced    = stage == SIZE || stage == BODY || stage == TAIL;

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      stage       <= DEAF;
      second_half <= 1'b0;
      first_level <= 1'b0;
      ones        <= '0;
      window      <= '0;
      searched    <= '0;
      bit_count   <= '0;
      bytes_left  <= '0;
      sum         <= '0;
      data        <= '0;
      data_valid  <= 1'b0;
      frame_good  <= 1'b0;
      frame_bad   <= 1'b0;
      slipped     <= 1'b0;
      length      <= '0;
      fault       <= '0;
    end else begin
      data_valid <= 1'b0;
      frame_good <= 1'b0;
      frame_bad  <= 1'b0;
      slipped    <= 1'b0;
      if (tick) begin
        second_half <= !second_half;
        first_level <= level;
      end
      if (symbol) window <= {window[14:0], one};
      if (symbol) bit_count <= bit_count + 3'd1;
      case (stage)
        DEAF: begin
          ones <= '0;
          if (listen) stage <= HUNT;
        end
        HUNT:
        if (!listen) stage <= DEAF;
        else if (symbol) begin
          if (!legal) begin
            // Half a symbol off: take this half for a first one.
            second_half <= 1'b1;
            slipped     <= 1'b1;
            ones        <= '0;
          end else if (one) begin
            ones <= ones + 4'd1;
            if (ones == 4'd9) stage <= TRAIN;
          end else ones <= '0;
        end
        TRAIN:
        if (symbol) begin
          searched <= '0;
          ones     <= '0;
          if (!legal) stage <= HUNT;
          else if (!one) stage <= MATCH;
        end
        MATCH:
        if (symbol) begin
          searched  <= searched + 5'd1;
          bit_count <= '0;
          if (window[14:0] == SYNC[15:1] && one == SYNC[0] && legal) stage <= SIZE;
          else if (!legal || searched == 5'd23) begin
            fault     <= NO_SYNC;
            frame_bad <= 1'b1;
            stage     <= HUNT;
          end
        end
        SIZE:
        if (symbol) begin
          if (!legal) begin
            fault     <= SYMBOL;
            frame_bad <= 1'b1;
            stage     <= HUNT;
          end else if (byte_ends) begin
            length     <= byte_now[3:0];
            bytes_left <= byte_now[3:0];
            sum        <= byte_now;
            if (byte_now == 8'd0 || byte_now > 8'd8) begin
              fault     <= LENGTH;
              frame_bad <= 1'b1;
              stage     <= HUNT;
            end else stage <= BODY;
          end
        end
        BODY:
        if (symbol) begin
          if (!legal) begin
            fault     <= SYMBOL;
            frame_bad <= 1'b1;
            stage     <= HUNT;
          end else if (byte_ends) begin
            data       <= byte_now;
            data_valid <= 1'b1;
            sum        <= {sum[6:0], sum[7]} ^ byte_now;
            bytes_left <= bytes_left - 4'd1;
            if (bytes_left == 4'd1) stage <= TAIL;
          end
        end
        TAIL:
        if (symbol && byte_ends) begin
          if (byte_now == sum) begin
            frame_good <= 1'b1;
            fault      <= '0;
            stage      <= HUNT;
          end else begin
            frame_bad <= 1'b1;
            fault     <= SUM;
            stage     <= DEAF;
          end
        end
      endcase
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n || clear) begin
      good_frames <= '0;
      bad_frames  <= '0;
    end else begin
      if (frame_good && good_frames != 5'd31) good_frames <= good_frames + 5'd1;
      if (frame_bad && bad_frames != 5'd31) bad_frames <= bad_frames + 5'd1;
    end
  end
endmodule
