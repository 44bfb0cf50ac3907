// Lift of five floors: collective control in both directions, door, overload, fire service.
module elevator (
  input  logic       clk,
  input  logic       rst_n,
  input  logic [4:0] cabin_call,
  input  logic [4:0] hall_up,
  input  logic [4:0] hall_down,
  input  logic       obstacle,
  input  logic       overload,
  input  logic       fire,
  output logic [2:0] floor,
  output logic       motor_up,
  output logic       motor_down,
  output logic       door_open,
  output logic       buzzer,
  output logic       heading_up,
  output logic [4:0] lamps,
  output logic [7:0] trips
);
  localparam logic [3:0] TRAVEL = 4'd5;
  localparam logic [3:0] DWELL  = 4'd11;
  localparam logic [3:0] PANEL  = 4'd2;

  typedef enum logic [2:0] {PARKED, CLIMB, SINK, OPENING, WAITING, CLOSING, HELD} motion_t;
  motion_t motion, motion_d;

  logic [4:0] cabin;
  logic [3:0] up, down;             // floors 0 to 3, floors 1 to 4
  logic [3:0] clock_left, clock_load;
  logic reload, alarm;
  logic [1:0] code_step;

  wire [4:0] here   = 5'd1 << floor;
  wire [4:0] wanted = cabin | {1'b0, up} | {down, 1'b0};
  wire any_above = (wanted >> floor) > 5'd1;
  wire any_below = (wanted & (here - 5'd1)) != 5'd0;
  wire elapsed   = clock_left == 4'd0;

  // A hall call stops the cabin only when it goes the caller's way, or nobody wants further.
  wire stop_up   = (here & (cabin | {1'b0, up})) != 5'd0
                   || (!any_above && (here & {down, 1'b0}) != 5'd0);
  wire stop_down = (here & (cabin | {down, 1'b0})) != 5'd0
                   || (!any_below && (here & {1'b0, up}) != 5'd0);
  wire serve     = motion == WAITING;

  always_comb begin
    motion_d = motion;
    reload = 1'b0;
    clock_load = TRAVEL;
    case (motion)
      PARKED: begin
        if (alarm && floor == 3'd0) motion_d = HELD;
        else if (alarm) motion_d = SINK;
        else if ((wanted & here) != 5'd0) motion_d = OPENING;
        else if (any_above && (heading_up || !any_below)) motion_d = CLIMB;
        else if (any_below) motion_d = SINK;
        reload = motion_d != PARKED;
        clock_load = motion_d == OPENING ? PANEL : TRAVEL;
      end
      CLIMB: if (elapsed) begin
        reload = 1'b1;
        if (alarm) motion_d = SINK;
        else if (stop_up) begin
          motion_d = OPENING;
          clock_load = PANEL;
        end
      end
      SINK: if (elapsed) begin
        reload = 1'b1;
        if (alarm) motion_d = floor == 3'd0 ? HELD : SINK;
        else if (stop_down) begin
          motion_d = OPENING;
          clock_load = PANEL;
        end
      end
      OPENING: if (elapsed) begin
        motion_d = WAITING;
        reload = 1'b1;
        clock_load = DWELL;
      end
      WAITING: begin
        if (obstacle || overload) begin
          reload = 1'b1;
          clock_load = DWELL;
        end else if (elapsed || alarm) begin
          motion_d = CLOSING;
          reload = 1'b1;
          clock_load = PANEL;
        end
      end
      CLOSING: begin
        if (obstacle && !alarm) begin
          motion_d = OPENING;
          reload = 1'b1;
          clock_load = PANEL;
        end else if (elapsed) motion_d = PARKED;
      end
      HELD: if (!alarm) begin
        motion_d = CLOSING;
        reload = 1'b1;
        clock_load = PANEL;
      end
    endcase
  end

  // An alarm lasts until the firemen press floors 3, 1, 4 in the held cabin, the key turned back.
  wire code_button = cabin_call == (code_step == 2'd0 ? 5'b01000
                                    : code_step == 2'd1 ? 5'b00010 : 5'b10000);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      alarm     <= 1'b0;
      code_step <= 2'd0;
    end else if (fire || motion != HELD) begin
      alarm     <= alarm || fire;
      code_step <= 2'd0;
    end else if (cabin_call != 5'd0) begin
      code_step <= code_button ? code_step + 2'd1 : 2'd0;
      if (code_button && code_step == 2'd2) alarm <= 1'b0;
    end
  end

  // The cabin reaches the next floor as its travel time ends.
  wire arrive = clock_left == 4'd1;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      motion     <= PARKED;
      clock_left <= 4'd0;
      floor      <= 3'd0;
      heading_up <= 1'b1;
      trips      <= 8'd0;
    end else begin
      motion <= motion_d;
      if (reload) clock_left <= clock_load;
      else if (!elapsed) clock_left <= clock_left - 4'd1;
      if (motion == CLIMB && arrive) floor <= floor + 3'd1;
      if (motion == SINK && arrive) floor <= floor - 3'd1;
      if (motion_d == CLIMB) heading_up <= 1'b1;
      if (motion_d == SINK) heading_up <= 1'b0;
      if (motion == OPENING && motion_d == WAITING) trips <= trips + 8'd1;
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) {cabin, up, down} <= 13'd0;
    else if (alarm) {cabin, up, down} <= 13'd0;
    else begin
      cabin <= (cabin | cabin_call) & ~(serve ? here : 5'd0);
      up    <= (up | hall_up[3:0]) & ~(serve ? here[3:0] : 4'd0);
      down  <= (down | hall_down[4:1]) & ~(serve ? here[4:1] : 4'd0);
    end
  end

  assign motor_up   = motion == CLIMB;
  assign motor_down = motion == SINK;
  assign door_open  = motion == WAITING || motion == HELD;
  assign buzzer     = serve && overload;
  assign lamps      = cabin;
endmodule
