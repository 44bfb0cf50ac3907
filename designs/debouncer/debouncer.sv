// Three push buttons: debounced, and told apart by click, double click, long press and repetition.
module press_detector (
  input  logic       clk,
  input  logic       rst,
  input  logic       raw,
  input  logic       slow,
  output logic       level,
  output logic       fire,
  output logic [1:0] kind
);
  localparam logic [5:0] HOLD = 6'd59, GAP_TIME = 6'd24, AGAIN = 6'd29;
  typedef enum logic [2:0] {UP, DOWN, GAP, SECOND, HELD} press_t;
  press_t press;

  logic [1:0] sync;
  logic [3:0] stable;
  logic [5:0] age;

  always_ff @(posedge clk) begin
    if (rst) begin
      sync   <= 2'b00;
      stable <= 4'd0;
      level  <= 1'b0;
    end else begin
      sync <= {sync[0], raw};
      if (sync[1] == level) stable <= 4'd0;
      else if (stable == {slow, 3'b111}) begin
        stable <= 4'd0;
        level  <= sync[1];
      end else stable <= stable + 4'd1;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      press <= UP;
      age   <= 6'd0;
      fire  <= 1'b0;
      kind  <= 2'd0;
    end else begin
      fire <= 1'b0;
      age  <= age + 6'd1;
      case (press)
        UP: begin
          age <= 6'd0;
          if (level) press <= DOWN;
        end
        DOWN: begin
          if (!level) begin
            press <= GAP;
            age   <= 6'd0;
          end else if (age == HOLD) begin
            press <= HELD;
            age   <= 6'd0;
            {fire, kind} <= {1'b1, 2'd2};
          end
        end
        GAP: begin
          if (level) begin
            press <= SECOND;
            age   <= 6'd0;
          end else if (age == GAP_TIME) begin
            press <= UP;
            {fire, kind} <= {1'b1, 2'd0};
          end
        end
        SECOND: begin
          if (!level) begin
            press <= UP;
            {fire, kind} <= {1'b1, 2'd1};
          end else if (age == HOLD) begin
            press <= HELD;
            age   <= 6'd0;
            {fire, kind} <= {1'b1, 2'd2};
          end
        end
        HELD: begin
          if (!level) press <= UP;
          else if (age == AGAIN) begin
            age <= 6'd0;
            {fire, kind} <= {1'b1, 2'd3};
          end
        end
      endcase
    end
  end
endmodule

module debouncer (
  input  logic       clk,
  input  logic       rst,
  input  logic [2:0] raw,
  input  logic       active_low,
  input  logic       slow,
  output logic [2:0] pressed,
  output logic       event_valid,
  output logic [1:0] event_button,
  output logic [1:0] event_kind,
  output logic       chord,
  output logic       child_lock
);
  localparam logic [1:0] CLICK = 2'd0, DOUBLE = 2'd1, LONG_PRESS = 2'd2;
  typedef enum logic [1:0] {NOTHING, GOT_LONG, GOT_DOUBLE} unlock_t;
  unlock_t unlock;

  logic [2:0] fire, waiting;
  logic [1:0] kind [0:2];
  logic [3:0] together;

  press_detector left   (.clk, .rst, .raw(raw[0] ^ active_low), .slow,
                         .level(pressed[0]), .fire(fire[0]), .kind(kind[0]));
  press_detector right  (.clk, .rst, .raw(raw[1] ^ active_low), .slow,
                         .level(pressed[1]), .fire(fire[1]), .kind(kind[1]));
  press_detector middle (.clk, .rst, .raw(raw[2] ^ active_low), .slow,
                         .level(pressed[2]), .fire(fire[2]), .kind(kind[2]));

  // Presses that end together are reported one after another, the lowest button first.
  always_ff @(posedge clk) begin
    if (rst) begin
      waiting      <= 3'b000;
      event_valid  <= 1'b0;
      event_button <= 2'd0;
      event_kind   <= 2'd0;
    end else begin
      event_valid <= waiting != 3'b000;
      waiting     <= (waiting & (waiting - 3'd1)) | (fire & {1'b1, {2{!child_lock}}});
      if (waiting[0]) {event_button, event_kind} <= {2'd0, kind[0]};
      else if (waiting[1]) {event_button, event_kind} <= {2'd1, kind[1]};
      else if (waiting[2]) {event_button, event_kind} <= {2'd2, kind[2]};
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      unlock     <= NOTHING;
      child_lock <= 1'b0;
      together   <= 4'd0;
      chord      <= 1'b0;
    end else begin
      if (pressed[1:0] != 2'b11) together <= 4'd0;
      else if (together != 4'd15) together <= together + 4'd1;
      chord <= together == 4'd14;
      if (event_valid && event_button == 2'd2) begin
        case (unlock)
          NOTHING: if (event_kind == LONG_PRESS) unlock <= GOT_LONG;
          GOT_LONG: begin
            if (event_kind == DOUBLE) unlock <= GOT_DOUBLE;
            else if (event_kind == CLICK) unlock <= NOTHING;
          end
          GOT_DOUBLE: begin
            unlock <= event_kind == LONG_PRESS ? GOT_LONG : NOTHING;
            if (event_kind == CLICK) child_lock <= ~child_lock;
          end
        endcase
      end
    end
  end
endmodule
