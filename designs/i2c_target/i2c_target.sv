// I2C target at address 0x52 with eight byte registers and an auto-incrementing pointer.
module i2c_target (
    input  logic       clk,
    input  logic       rst_n,
    input  logic       scl,
    input  logic       sda,
    output logic       sda_low,
    output logic       selected,
    output logic       reading,
    output logic [2:0] pointer,
    output logic       written,
    output logic [7:0] value,
    output logic       guarded,
    output logic       refused,
    output logic [4:0] starts
);
  localparam logic [6:0] ADDRESS = 7'h52;
  localparam logic [7:0] GENERAL_RESET = 8'h06, GUARD_KEY = 8'hB7;

  typedef enum logic [3:0] {
    IDLE, ADDR, ADDR_ACK, GENERAL, POINT, WRITE, ACK, READ, READ_ACK, IGNORE
  } state_t;

  state_t     state;
  logic [2:0] scl_q, sda_q;
  logic       rise, fall, start, stop, last_bit;
  logic [2:0] bits;
  logic [7:0] shift, next_byte;
  logic [7:0] bank [8];
  logic       address_hit, general;

  assign rise        = scl_q[2:1] == 2'b01;
  assign fall        = scl_q[2:1] == 2'b10;
  assign start       = scl_q[2] && scl_q[1] && sda_q[2:1] == 2'b10;
  assign stop        = scl_q[2] && scl_q[1] && sda_q[2:1] == 2'b01;
  assign last_bit    = bits == 3'd7;
  assign next_byte   = {shift[6:0], sda_q[1]};
  assign address_hit = next_byte[7:1] == ADDRESS;
  assign guarded     = bank[6] != GUARD_KEY;
  assign value       = bank[pointer];

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      scl_q <= '1;
      sda_q <= '1;
    end else begin
      scl_q <= {scl_q[1:0], scl};
      sda_q <= {sda_q[1:0], sda};
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      state    <= IDLE;
      sda_low  <= 1'b0;
      selected <= 1'b0;
      reading  <= 1'b0;
      general  <= 1'b0;
      pointer  <= '0;
      written  <= 1'b0;
      refused  <= 1'b0;
      starts   <= '0;
      bits     <= '0;
      shift    <= '0;
      for (int i = 0; i < 8; i++) bank[i] <= '0;
    end else if (start) begin
      state    <= ADDR;
      starts   <= starts + 5'd1;
      bits     <= '0;
      sda_low  <= 1'b0;
      selected <= 1'b0;
    end else if (stop) begin
      state    <= IDLE;
      sda_low  <= 1'b0;
      selected <= 1'b0;
    end else begin
      written <= 1'b0;
      refused <= 1'b0;
      if (rise && state != READ) begin
        shift <= next_byte;
        bits  <= bits + 3'd1;
      end
      case (state)
        IDLE, IGNORE: sda_low <= 1'b0;
        ADDR:
        if (rise && last_bit) begin
          reading <= sda_q[1];
          general <= next_byte == 8'd0;
          if (address_hit || next_byte == 8'd0) begin
            selected <= 1'b1;
            state    <= ADDR_ACK;
          end else state <= IGNORE;
        end
        ADDR_ACK:
        if (fall) begin
          // The first falling edge starts the acknowledge, the second ends it.
          if (!sda_low) sda_low <= 1'b1;
          else begin
            bits    <= '0;
            sda_low <= reading && !value[7];
            shift   <= value;
            if (general) state <= GENERAL;
            else state <= reading ? READ : POINT;
          end
        end
        GENERAL:
        if (rise && last_bit) begin
          if (next_byte == GENERAL_RESET) begin
            pointer <= '0;
            for (int i = 0; i < 8; i++) bank[i] <= '0;
          end else refused <= 1'b1;
          state <= IGNORE;
        end
        POINT:
        if (rise && last_bit) begin
          if (next_byte[7:3] == 5'd0) begin
            pointer <= next_byte[2:0];
            state   <= ACK;
          end else begin
            refused <= 1'b1;
            state   <= IGNORE;
          end
        end
        WRITE:
        if (rise && last_bit) begin
          if (pointer == 3'd7 && guarded) begin
            refused <= 1'b1;
            state   <= IGNORE;
          end else begin
            bank[pointer] <= next_byte;
            pointer       <= pointer + 3'd1;
            written       <= 1'b1;
            state         <= ACK;
          end
        end
        ACK:
        if (fall) begin
          sda_low <= !sda_low;
          bits    <= '0;
          if (sda_low) state <= WRITE;
        end
        READ:
        if (fall) begin
          bits <= bits + 3'd1;
          if (last_bit) begin
            sda_low <= 1'b0;
            pointer <= pointer + 3'd1;
            state   <= READ_ACK;
          end else begin
            shift   <= {shift[6:0], 1'b0};
            sda_low <= !shift[6];
          end
        end
        READ_ACK:
        if (rise && sda_q[1]) state <= IGNORE;
        else if (fall) begin
          bits    <= '0;
          shift   <= value;
          sda_low <= !value[7];
          state   <= READ;
        end
      endcase
    end
  end
endmodule
