// Finds packets in a byte stream, checks their sum, and acts on them by kind.
//
// A packet: 0xD3 0x5E kind length payload[length] sum, the sum over all bytes after the magic.
module packet_parser (
  input  logic        clk,
  input  logic        rst_n,
  input  logic        in_valid,
  input  logic [7:0]  in_byte,
  input  logic        out_ready,
  output logic        in_ready,
  output logic        out_valid,
  output logic [7:0]  out_byte,
  output logic        out_last,
  output logic        good,
  output logic [3:0]  problem,      // one-hot: sum, kind, length, address
  output logic [7:0]  node,
  output logic        streaming,
  output logic [7:0]  accepted,
  output logic [7:0]  refused
);
  localparam logic [7:0] MAGIC_1 = 8'hD3, MAGIC_2 = 8'h5E;
  localparam logic [7:0] DATA = 8'h01, PING = 8'h02, ADDRESS = 8'h10, START = 8'h21, STOP = 8'h22;

  typedef enum logic [2:0] {HUNT, HALF, KIND, LENGTH, BODY, SUM, SKIP} place_t;
  place_t place;

  logic [7:0] kind, left, sum, first, second;
  logic is_first, is_second;

  wire take = in_valid && in_ready;
  wire known = in_byte == DATA || in_byte == PING || in_byte == ADDRESS || in_byte == START
               || in_byte == STOP;
  // Commands carry two bytes: the node they are for, and an argument.
  wire fitting = kind == DATA ? in_byte != 8'd0 && in_byte <= 8'd64
               : kind == PING ? in_byte == 8'd0
               : in_byte == 8'd2;
  wire forward = place == BODY && kind == DATA && streaming;

  assign in_ready = !(forward && out_valid && !out_ready);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      out_valid <= 1'b0;
      out_byte  <= '0;
      out_last  <= 1'b0;
    end else if (take && forward) begin
      out_valid <= 1'b1;
      out_byte  <= in_byte;
      out_last  <= left == 8'd1;
    end else if (out_ready) begin
      out_valid <= 1'b0;
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      place <= HUNT;
      {kind, left, sum, first, second} <= '0;
      {is_first, is_second} <= '0;
      good <= 1'b0;
      problem <= '0;
      node <= '0;
      streaming <= 1'b0;
      {accepted, refused} <= '0;
    end else begin
      good <= 1'b0;
      problem <= '0;
      if (take) begin
        sum <= sum + in_byte;
        case (place)
          HUNT: if (in_byte == MAGIC_1) place <= HALF;
          HALF: begin
            sum <= '0;
            if (in_byte == MAGIC_2) place <= KIND;
            else if (in_byte != MAGIC_1) place <= HUNT;
          end
          KIND: begin
            kind <= in_byte;
            if (known) place <= LENGTH;
            else begin
              problem <= 4'b0010;
              refused <= refused + 8'd1;
              place <= HUNT;
            end
          end
          LENGTH: begin
            left <= in_byte;
            {is_first, is_second} <= 2'b10;
            if (!fitting) begin
              problem <= 4'b0100;
              refused <= refused + 8'd1;
              place <= in_byte == 8'd0 ? HUNT : SKIP;
            end else if (in_byte == 8'd0) place <= SUM;
            else place <= BODY;
          end
          BODY: begin
            left <= left - 8'd1;
            {is_first, is_second} <= {1'b0, is_first};
            if (is_first) first <= in_byte;
            if (is_second) second <= in_byte;
            if (left == 8'd1) place <= SUM;
          end
          SKIP: begin
            left <= left - 8'd1;
            if (left == 8'd0) place <= HUNT;
          end
          SUM: begin
            place <= HUNT;
            if (in_byte != sum) begin
              problem <= 4'b0001;
              refused <= refused + 8'd1;
            end else if (kind[7:4] == 4'd2 && first != node) begin
              problem <= 4'b1000;
              refused <= refused + 8'd1;
            end else begin
              good <= 1'b1;
              accepted <= accepted + 8'd1;
              if (kind == ADDRESS && first == ~second) node <= first;
              if (kind == START && second == 8'hA7) streaming <= 1'b1;
              if (kind == STOP) streaming <= 1'b0;
            end
          end
        endcase
      end
    end
  end
endmodule
