// Multiply-accumulate unit: signed 12 x 12 bits into a 28-bit accumulator.
module mac_unit (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        cfg_valid,
    input  logic [7:0]  cfg_byte,
    input  logic        in_valid,
    input  logic        in_clear,
    input  logic        in_subtract,
    input  logic [11:0] x,
    input  logic [11:0] k,
    output logic [27:0] acc,
    output logic        acc_valid,
    output logic        saturated,
    output logic        negative,
    output logic [3:0]  scale,
    output logic [1:0]  rule,
    output logic        unlocked,
    output logic        cfg_error,
    output logic [15:0] scaled
);
  localparam logic [27:0] TOP = 28'h7FFFFFF, BOTTOM = 28'h8000000;

  typedef enum logic [2:0] {LOCKED, HALF, ALMOST, OPEN, LOCKOUT} guard_t;
  typedef enum logic [1:0] {WRAP, CLAMP, FREEZE, HOLD_OFF} rule_t;

  guard_t             guard;
  rule_t              active_rule;
  logic signed [23:0] product;
  logic               product_valid, product_clear, product_subtract;
  logic signed [28:0] total, operand, base;
  logic               beyond;
  logic [5:0]         penalty;
  logic [3:0]         writes_left;

  assign rule     = active_rule;
  assign unlocked = guard == OPEN;
  assign negative = acc[27];
  assign operand  = product_subtract ? -29'(product) : 29'(product);
  assign base     = product_clear ? '0 : 29'($signed(acc));
  assign total    = base + operand;
  assign beyond   = total[28] != total[27];
  assign scaled   = 16'($signed(acc) >>> scale);

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      product          <= '0;
      product_valid    <= 1'b0;
      product_clear    <= 1'b0;
      product_subtract <= 1'b0;
    end else begin
      product_valid <= in_valid;
      if (in_valid) begin
        product          <= $signed(x) * $signed(k);
        product_clear    <= in_clear;
        product_subtract <= in_subtract;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      acc       <= '0;
      acc_valid <= 1'b0;
      saturated <= 1'b0;
    end else begin
      acc_valid <= product_valid;
      if (product_valid) begin
        if (product_clear) saturated <= 1'b0;
        case (active_rule)
          WRAP: acc <= total[27:0];
          CLAMP:
          if (beyond) begin
            acc       <= total[28] ? BOTTOM : TOP;
            saturated <= 1'b1;
          end else acc <= total[27:0];
          FREEZE: begin
            if (beyond) saturated <= 1'b1;
            else if (!saturated || product_clear) acc <= total[27:0];
          end
          HOLD_OFF: acc_valid <= 1'b0;
        endcase
      end
    end
  end

  // 0x5A 0xC3 0x96 opens the configuration for eight bytes.
  always_ff @(posedge clk) begin
    if (!rst_n) begin
      guard       <= LOCKED;
      active_rule <= WRAP;
      scale       <= '0;
      penalty     <= '0;
      writes_left <= '0;
      cfg_error   <= 1'b0;
    end else begin
      case (guard)
        LOCKED: if (cfg_valid && cfg_byte == 8'h5A) guard <= HALF;
        HALF:
        if (cfg_valid) begin
          if (cfg_byte == 8'hC3) guard <= ALMOST;
          else guard <= LOCKED;
        end
        ALMOST:
        if (cfg_valid) begin
          writes_left <= 4'd8;
          if (cfg_byte == 8'h96) guard <= OPEN;
          else begin
            guard     <= LOCKOUT;
            cfg_error <= 1'b1;
            penalty   <= 6'd40;
          end
        end
        OPEN:
        if (cfg_valid) begin
          writes_left <= writes_left - 4'd1;
          if (writes_left == 4'd1) guard <= LOCKED;
          case (cfg_byte[7:4])
            4'h1: active_rule <= rule_t'(cfg_byte[1:0]);
            4'h2: scale <= cfg_byte[3:0];
            4'h3: cfg_error <= 1'b0;
            4'hF: guard <= LOCKED;
            default: begin
              cfg_error <= 1'b1;
              guard     <= LOCKED;
            end
          endcase
        end
        LOCKOUT: begin
          penalty <= penalty - 6'd1;
          if (penalty == 6'd1) guard <= LOCKED;
        end
      endcase
    end
  end
endmodule
