// 16-bit arithmetic and logic unit with flags, saturation and a built-in self-test.
module alu16 (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        valid,
    input  logic [4:0]  op,
    input  logic [15:0] a,
    input  logic [15:0] b,
    output logic [15:0] y,
    output logic        y_valid,
    output logic        carry,
    output logic        zero,
    output logic        negative,
    output logic        overflow,
    output logic        illegal,
    output logic        busy,
    output logic [15:0] signature
);
  typedef enum logic [2:0] {WORK, WALK, FOLD, JUDGE, BROKEN} mode_t;

  mode_t       mode;
  logic [16:0] wide;
  logic [15:0] next_y;
  logic        next_c, next_v, unknown, special;
  logic [3:0]  lap;
  logic [16:0] sum, difference;

  assign sum        = {1'b0, a} + {1'b0, b} + {16'd0, op[0] & carry};
  assign difference = {1'b0, a} - {1'b0, b} - {16'd0, op[0] & carry};
  assign busy       = mode != WORK;
  assign special    = op == 5'd31;

  always_comb begin
    wide    = '0;
    next_y  = '0;
    next_c  = carry;
    next_v  = 1'b0;
    unknown = 1'b0;
    case (op)
      5'd0, 5'd1: begin
        {next_c, next_y} = sum;
        next_v = (a[15] == b[15]) && (sum[15] != a[15]);
      end
      5'd2, 5'd3: begin
        {next_c, next_y} = difference;
        next_v = (a[15] != b[15]) && (difference[15] != a[15]);
      end
      5'd4: next_y = a & b;
      5'd5: next_y = a | b;
      5'd6: next_y = a ^ b;
      5'd7: next_y = ~a;
      5'd8: {next_c, next_y} = {1'b0, a} << b[4:0];
      5'd9: next_y = a >> b[3:0];
      5'd10: next_y = 16'($signed(a) >>> b[3:0]);
      5'd11: next_y = 16'({a, a} >> (5'd16 - {1'b0, b[3:0]}));
      5'd12: next_y = ($signed(a) < $signed(b)) ? a : b;
      5'd13: next_y = (a > b) ? a : b;
      5'd14: begin
        // Saturating signed sum.
        wide   = {a[15], a} + {b[15], b};
        next_v = wide[16] != wide[15];
        if (next_v) next_y = wide[16] ? 16'h8000 : 16'h7FFF;
        else next_y = wide[15:0];
      end
      5'd15: for (int i = 0; i < 16; i++) next_y = next_y + 16'(a[i]);
      5'd16: begin
        next_y = {a[7:0], a[15:8]};
        if (a == b) next_c = 1'b1;
      end
      5'd31: next_y = signature;
      default: unknown = 1'b1;
    endcase
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      y        <= '0;
      y_valid  <= 1'b0;
      carry    <= 1'b0;
      zero     <= 1'b0;
      negative <= 1'b0;
      overflow <= 1'b0;
      illegal  <= 1'b0;
    end else begin
      y_valid <= valid && !busy && !unknown;
      illegal <= valid && !busy && unknown;
      if (valid && !busy && !unknown) begin
        y        <= next_y;
        carry    <= next_c;
        zero     <= next_y == 16'd0;
        negative <= next_y[15];
        overflow <= next_v;
      end
    end
  end

  // Self-test: sixteen walking ones, sixteen folds, and a verdict over the seed in `b`.
  always_ff @(posedge clk) begin
    if (!rst_n) begin
      mode      <= WORK;
      signature <= '0;
      lap       <= '0;
    end else begin
      case (mode)
        WORK:
        if (valid && special && a == 16'hC0DE) begin
          mode      <= WALK;
          signature <= b;
          lap       <= '0;
        end
        WALK: begin
          lap       <= lap + 4'd1;
          signature <= signature ^ (16'd1 << lap);
          if (!valid && lap == 4'd15) mode <= FOLD;
          else if (valid) mode <= BROKEN;
        end
        FOLD: begin
          lap       <= lap + 4'd1;
          signature <= {signature[14:0], signature[15] ^ signature[12] ^ signature[3]};
          if (lap == 4'd15) mode <= JUDGE;
        end
        JUDGE:
        if (signature[3:0] == 4'h7) mode <= BROKEN;
        else mode <= WORK;
        BROKEN: if (valid && special && a == 16'h0FF0) mode <= WORK;
      endcase
    end
  end
endmodule
