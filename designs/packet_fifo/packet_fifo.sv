// Store-and-forward packet buffer of 16 bytes: a packet is readable once it is committed.
module packet_fifo (
    input  logic       clk,
    input  logic       rst,
    input  logic       in_valid,
    input  logic       in_last,
    input  logic       in_abort,
    input  logic [7:0] in_data,
    input  logic       out_ready,
    output logic       out_valid,
    output logic       out_first,
    output logic       out_last,
    output logic [7:0] out_data,
    output logic [4:0] room,
    output logic [2:0] packets,
    output logic [3:0] dropped,
    output logic [3:0] aborted,
    output logic       jammed
);
  typedef enum logic [1:0] {GAP, BODY, SKIP, JAM} input_t;

  input_t      writer, writer_next;
  logic [8:0]  ram [16];
  logic [4:0]  commit_ptr, write_ptr, read_ptr;
  logic        fits, store, commit, drop, give_up, read;
  logic [1:0]  drops_in_row;
  logic        at_start;

  assign room      = 5'd16 - (write_ptr - read_ptr);
  assign fits      = room != 5'd0;
  assign out_valid = packets != 3'd0;
  assign read      = out_valid && out_ready;
  assign {out_last, out_data} = ram[read_ptr[3:0]];
  assign out_first = out_valid && at_start;
  assign jammed    = writer == JAM;

  always_comb begin
    writer_next = writer;
    store       = 1'b0;
    commit      = 1'b0;
    drop        = 1'b0;
    give_up     = 1'b0;
    case (writer)
      GAP:
      if (in_valid && !in_abort) begin
        if (!fits || packets == 3'd7) begin
          drop = 1'b1;
          if (!in_last) writer_next = SKIP;
        end else if (in_last) begin
          drop = 1'b1;
        end else begin
          store       = 1'b1;
          writer_next = BODY;
        end
      end
      BODY:
      if (in_abort) begin
        give_up     = 1'b1;
        writer_next = GAP;
      end else if (in_valid) begin
        if (fits) begin
          store = 1'b1;
          if (in_last) begin
            commit      = 1'b1;
            writer_next = GAP;
          end
        end else begin
          drop = 1'b1;
          if (in_last) writer_next = GAP;
          else writer_next = SKIP;
        end
      end
      SKIP:
      if (in_abort) writer_next = GAP;
      else if (in_valid && in_last) begin
        if (drops_in_row == 2'd3) writer_next = JAM;
        else writer_next = GAP;
      end
      JAM: if (packets == 3'd0 && !in_valid) writer_next = GAP;
    endcase
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      writer       <= GAP;
      commit_ptr   <= '0;
      write_ptr    <= '0;
      dropped      <= '0;
      aborted      <= '0;
      drops_in_row <= '0;
      for (int i = 0; i < 16; i++) ram[i] <= '0;
    end else begin
      writer <= writer_next;
      if (store) begin
        ram[write_ptr[3:0]] <= {in_last, in_data};
        write_ptr           <= write_ptr + 5'd1;
      end
      if (commit) commit_ptr <= write_ptr + 5'd1;
      if (drop || give_up) write_ptr <= commit_ptr;
      if (drop && dropped != 4'd15) dropped <= dropped + 4'd1;
      if (give_up && aborted != 4'd15) aborted <= aborted + 4'd1;
      if (commit) drops_in_row <= '0;
      else if (drop && drops_in_row != 2'd3) drops_in_row <= drops_in_row + 2'd1;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      read_ptr <= '0;
      packets  <= '0;
      at_start <= 1'b1;
    end else begin
      if (read) begin
        read_ptr <= read_ptr + 5'd1;
        at_start <= out_last;
      end
      case ({commit, read && out_last})
        2'b10:   packets <= packets + 3'd1;
        2'b01:   packets <= packets - 3'd1;
        default: packets <= packets;
      endcase
    end
  end
endmodule
