// Windowed watchdog: a kick is two words in order, neither too early nor too late.
module watchdog (
  input  logic        clk,
  input  logic        rst_n,
  input  logic        we,
  input  logic [2:0]  sel,
  input  logic [11:0] data,
  input  logic        halt,
  output logic        bark,
  output logic        bite,
  output logic        in_window,
  output logic        refused,
  output logic [2:0]  cause,
  output logic [11:0] remaining
);
  localparam logic [11:0] WORD_A = 12'h5C3, WORD_B = 12'hA3C, STAND_DOWN = 12'h7E1;
  localparam logic [2:0] TOO_LATE = 3'b001, TOO_EARLY = 3'b010, WRONG_WORD = 3'b100;

  typedef enum logic [2:0] {OFF, EARLY, WINDOW, BARK, BITE} dog_t;
  typedef enum logic {WAIT_A, WAIT_B} kick_t;
  dog_t dog;
  kick_t kick;

  logic [11:0] timeout, window;
  logic [7:0] grace;
  logic [3:0] hold;
  logic sealed;

  wire kick_write = we && sel == 3'd4;
  wire good_kick  = kick_write && kick == WAIT_B && data == WORD_B;
  wire bad_kick   = kick_write && (kick == WAIT_B ? data != WORD_B : data != WORD_A);
  wire start      = we && sel == 3'd3 && data[0] && !sealed;
  wire stand_down = we && sel == 3'd5 && data == STAND_DOWN && !sealed;

  // Second half of the kick sequence; only a watching dog listens.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) kick <= WAIT_A;
    else case (kick)
      WAIT_A: if (kick_write && data == WORD_A && dog != OFF && dog != BITE) kick <= WAIT_B;
      WAIT_B: if (kick_write || dog == BITE) kick <= WAIT_A;
    endcase
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      timeout <= 12'd100;
      window  <= 12'd50;
      grace   <= 8'd20;
      sealed  <= 1'b0;
      refused <= 1'b0;
    end else begin
      refused <= we && sealed && sel < 3'd4;
      if (we && !sealed) begin
        if (sel == 3'd0) timeout <= data;
        else if (sel == 3'd1) window <= data;
        else if (sel == 3'd2) grace <= data[7:0];
        else if (sel == 3'd3) sealed <= data[1];
      end
      if (dog == BITE && hold == 4'd0) sealed <= 1'b0;
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      dog       <= OFF;
      remaining <= 12'd0;
      cause     <= 3'd0;
      hold      <= 4'd0;
    end else begin
      if (dog != OFF && !halt && remaining != 12'd0) remaining <= remaining - 12'd1;
      case (dog)
        OFF: if (start) begin
          dog       <= EARLY;
          remaining <= timeout;
          cause     <= 3'd0;
        end
        EARLY: begin
          if (stand_down) dog <= OFF;
          else if (good_kick || bad_kick) begin
            dog       <= BARK;
            remaining <= {4'd0, grace};
            cause     <= good_kick ? TOO_EARLY : WRONG_WORD;
          end else if (remaining <= window) dog <= WINDOW;
        end
        WINDOW: begin
          if (stand_down) dog <= OFF;
          else if (good_kick) begin
            dog       <= EARLY;
            remaining <= timeout;
          end else if (bad_kick || (remaining == 12'd0 && !halt)) begin
            dog       <= BARK;
            remaining <= {4'd0, grace};
            cause     <= bad_kick ? WRONG_WORD : TOO_LATE;
          end
        end
        BARK: begin
          if (good_kick) begin
            dog       <= EARLY;
            remaining <= timeout;
          end else if (remaining == 12'd0) begin
            dog  <= BITE;
            hold <= 4'd15;
          end
        end
        BITE: begin
          hold <= hold - 4'd1;
          if (hold == 4'd0) dog <= OFF;
        end
      endcase
    end
  end

  assign bark = dog == BARK;
  assign bite = dog == BITE;
  assign in_window = dog == WINDOW;
endmodule
