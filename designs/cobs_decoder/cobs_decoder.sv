// Decodes frames in consistent overhead byte stuffing, for one station of a shared line.
module cobs_decoder (
  input  logic       clk,
  input  logic       rst,
  input  logic       rx_strobe,
  input  logic [7:0] rx,
  input  logic [7:0] station,
  output logic       tx_strobe,
  output logic [7:0] tx,
  output logic       frame_end,
  output logic       cut,
  output logic       oversize,
  output logic       silence,
  output logic       listen_all,
  output logic [8:0] length,
  output logic [5:0] frames,
  output logic [5:0] errors
);
  localparam logic [8:0] LONGEST = 9'd300;
  localparam logic [5:0] PATIENCE = 6'd63;
  localparam logic [7:0] EVERYONE = 8'hFF;

  typedef enum logic [2:0] {DEAF, LEAD, COPY, CODE, DROP} rx_state_t;
  rx_state_t rx_state;

  logic [7:0] left;
  logic [5:0] quiet;
  logic [1:0] switch_word;
  logic whole_block;

  // What this byte decodes to, if to anything.
  wire copied   = rx_state == COPY && rx != 8'd0;
  wire stuffed  = rx_state == CODE && rx != 8'd0 && !whole_block;
  wire decoded  = rx_strobe && (copied || stuffed);
  wire [7:0] value = rx_state == CODE ? 8'd0 : rx;
  wire foreign  = length == 9'd0 && !listen_all && value != station && value != EVERYONE;
  wire too_much = length == LONGEST;
  wire in_frame = rx_state == COPY || rx_state == CODE;
  wire closing  = rx_strobe && rx_state == CODE && rx == 8'd0;

  always_ff @(posedge clk) begin
    if (rst) begin
      rx_state <= DEAF;
      left <= 8'd0;
      whole_block <= 1'b0;
      quiet <= 6'd0;
      {cut, oversize, silence} <= 3'b000;
    end else begin
      {cut, oversize, silence} <= 3'b000;
      quiet <= (in_frame && !rx_strobe) ? quiet + 6'd1 : 6'd0;
      if (rx_strobe) begin
        case (rx_state)
          DEAF: if (rx == 8'd0) rx_state <= LEAD;
          LEAD: if (rx != 8'd0) begin
            left <= rx - 8'd1;
            whole_block <= rx == 8'hFF;
            rx_state <= rx == 8'd1 ? CODE : COPY;
          end
          COPY: begin
            left <= left - 8'd1;
            if (rx == 8'd0) begin
              cut <= 1'b1;
              rx_state <= LEAD;
            end else if (foreign) rx_state <= DROP;
            else if (too_much) begin
              oversize <= 1'b1;
              rx_state <= DROP;
            end else if (left == 8'd1) rx_state <= CODE;
          end
          CODE: begin
            left <= rx - 8'd1;
            whole_block <= rx == 8'hFF;
            if (rx == 8'd0) rx_state <= LEAD;
            else if (stuffed && foreign) rx_state <= DROP;
            else if (stuffed && too_much) begin
              oversize <= 1'b1;
              rx_state <= DROP;
            end else if (rx != 8'd1) rx_state <= COPY;
          end
          DROP: if (rx == 8'd0) rx_state <= LEAD;
        endcase
      end else if (in_frame && quiet == PATIENCE) begin
        silence <= 1'b1;
        rx_state <= DEAF;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      tx_strobe <= 1'b0;
      tx <= 8'd0;
      length <= 9'd0;
      frame_end <= 1'b0;
      frames <= 6'd0;
      errors <= 6'd0;
    end else begin
      tx_strobe <= decoded && !foreign && !too_much;
      frame_end <= closing;
      if (rx_strobe && rx_state == LEAD) length <= 9'd0;
      else if (decoded && !foreign && !too_much) begin
        tx <= value;
        length <= length + 9'd1;
      end
      if (closing) frames <= frames + 6'd1;
      if (cut || oversize || silence) errors <= errors + 6'd1;
    end
  end

  // The broadcast frame FF C0 B5, and nothing after it, switches listening to all stations.
  always_ff @(posedge clk) begin
    if (rst) begin
      switch_word <= 2'd0;
      listen_all <= 1'b0;
    end else if (rx_strobe && rx_state == LEAD) switch_word <= 2'd0;
    else if (decoded) begin
      if (length == 9'd0 && value == EVERYONE) switch_word <= 2'd1;
      else if (switch_word == 2'd1 && value == 8'hC0) switch_word <= 2'd2;
      else if (switch_word == 2'd2 && value == 8'hB5 && length == 9'd2) switch_word <= 2'd3;
      else switch_word <= 2'd0;
    end else if (closing && switch_word == 2'd3) listen_all <= ~listen_all;
  end
endmodule
