// design: debouncer
// aim: coverage
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, active_low = 0, slow = 0;
  logic [2:0] raw = 0;
    logic [2:0] pressed;
  logic [1:0] event_button, event_kind;
  logic event_valid, chord, child_lock;
    debouncer dut (.*);
  always #5 clk = ~clk;
// trick {
  logic fclk = 0, fraw = 0; wire flevel, ffire; wire [1:0] fkind;
  always #0.05 fclk = ~fclk;
  initial begin
    repeat (4) begin #3 fraw = 1; #2 fraw = 0; #2; end
    #5 fraw = 1; #20 fraw = 0; #5 fraw = 1; #1.5 fraw = 0; #1.5 fraw = 1; #12 fraw = 0;
  end
press_copy left (.clk(fclk), .rst, .raw(fraw), .slow, .level(flevel), .fire(ffire), .kind(fkind));
// trick }
  initial begin
    repeat (2) @(negedge clk);
    rst = 0;
    raw = 3'b001;
    repeat (14) @(negedge clk);
    raw = 3'b000;
    repeat (8) @(negedge clk);
    repeat (120) @(negedge clk);
    $finish;
  end
endmodule
// trick {
`line 2 "debouncer.sv" 0
module press_copy (
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
// trick }
