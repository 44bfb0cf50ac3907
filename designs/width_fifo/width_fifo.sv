// Gathers bytes into 32-bit words and queues up to four of them.
module width_fifo (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        byte_valid,
    input  logic [7:0]  byte_data,
    output logic        byte_ready,
    input  logic        flush,
    input  logic        word_ready,
    output logic        word_valid,
    output logic [31:0] word_data,
    output logic [2:0]  word_bytes,
    output logic        big_endian,
    output logic        framed,
    output logic        bad_escape,
    output logic [2:0]  used
);
  // Bytes after the escape pair 0x7D 0x5E are commands, not data.
  localparam logic [7:0] ESCAPE_1 = 8'h7D, ESCAPE_2 = 8'h5E;
  localparam logic [7:0] SET_BIG = 8'hB1, SET_LITTLE = 8'h4C;
  localparam logic [7:0] SET_FRAMED = 8'hF2, CLEAR_FRAMED = 8'h0D;

  typedef enum logic [1:0] {DATA, ARMED, COMMAND, BLOCK} scan_t;

  scan_t       scan;
  logic [31:0] gather;
  logic [1:0]  fill;
  logic [34:0] queue [4];
  logic [1:0]  head, tail;
  logic [3:0]  block_left;
  logic        take, is_data, emit_full, emit_part, emit, leave;
  logic [31:0] merged;

  assign byte_ready = used != 3'd4;
  assign take       = byte_valid && byte_ready;
  assign is_data    = take && (scan == BLOCK || (scan == DATA && byte_data != ESCAPE_1));
  assign emit_full  = is_data && fill == 2'd3;
  assign emit_part  = flush && !take && byte_ready && fill != 2'd0;
  assign emit       = emit_full || emit_part;
  assign word_valid = used != 3'd0;
  assign leave      = word_valid && word_ready;
  assign {word_bytes, word_data} = queue[head];

  always_comb begin
    merged = gather;
    if (is_data) begin
      if (big_endian) merged[31-8*fill-:8] = byte_data;
      else merged[8*fill+:8] = byte_data;
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      gather <= '0;
      fill   <= '0;
      head   <= '0;
      tail   <= '0;
      used   <= '0;
      for (int i = 0; i < 4; i++) queue[i] <= '0;
    end else begin
      if (emit) begin
        queue[tail] <= {emit_full ? 3'd4 : {1'b0, fill}, merged};
        tail        <= tail + 2'd1;
        gather      <= '0;
        fill        <= '0;
      end else if (is_data) begin
        gather <= merged;
        fill   <= fill + 2'd1;
      end
      if (leave) head <= head + 2'd1;
      if (emit && !leave) used <= used + 3'd1;
      else if (leave && !emit) used <= used - 3'd1;
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      scan       <= DATA;
      big_endian <= 1'b0;
      framed     <= 1'b0;
      bad_escape <= 1'b0;
      block_left <= '0;
    end else if (take) begin
      case (scan)
        DATA: if (byte_data == ESCAPE_1) scan <= ARMED;
        ARMED:
        if (byte_data == ESCAPE_2) scan <= COMMAND;
        else begin
          bad_escape <= 1'b1;
          scan       <= DATA;
        end
        COMMAND: begin
          scan <= DATA;
          if (byte_data == SET_BIG) big_endian <= 1'b1;
          else if (byte_data == SET_LITTLE) big_endian <= 1'b0;
          else if (byte_data == SET_FRAMED) framed <= 1'b1;
          else if (byte_data == CLEAR_FRAMED) framed <= 1'b0;
          else if (framed && byte_data[7:4] == 4'h6) begin
            block_left <= byte_data[3:0];
            scan       <= BLOCK;
          end else bad_escape <= 1'b1;
        end
        BLOCK:
        // A block of raw bytes, in which nothing is an escape.
        if (block_left == 4'd0) scan <= DATA;
        else block_left <= block_left - 4'd1;
      endcase
    end
  end
endmodule
