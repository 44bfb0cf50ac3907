// Junction of a main and a side road with a pedestrian crossing, night mode, priority and faults.
module traffic_light (
  input  logic       clk,
  input  logic       rst,
  input  logic       side_car,
  input  logic       walk_button,
  input  logic       night,
  input  logic [3:0] beacon,        // priority transmitter of emergency vehicles
  input  logic       lamp_broken,
  input  logic       set_time,
  input  logic [1:0] which_time,
  input  logic [5:0] seconds,
  output logic [2:0] main_lamps,    // red, amber, green
  output logic [2:0] side_lamps,
  output logic [1:0] walk_lamps,    // red, green
  output logic       walk_wait,
  output logic       priority_on,
  output logic       fault,
  output logic [5:0] count
);
  localparam logic [2:0] RED = 3'b100, RED_AMBER = 3'b110, AMBER = 3'b010, GREEN = 3'b001;
  typedef enum logic [3:0] {
    MAIN_GO, MAIN_END, CLEAR_A, SIDE_READY, SIDE_GO, SIDE_END, CLEAR_B, MAIN_READY,
    WALK, WALK_END, FLASHING, BROKEN, RUSH
  } signal_t;
  signal_t now, then_;

  logic [5:0] main_time, side_time, walk_time, clear_time;
  logic side_wait, blink;
  logic [1:0] heard;

  wire over   = count == 6'd0;
  wire demand = side_wait || walk_wait;
  // Three beacon words 9, 6, 9 in a row, each held at most one cycle, ask for priority.
  wire rush = heard == 2'd3;

  always_ff @(posedge clk) begin
    if (rst) heard <= 2'd0;
    else case (heard)
      2'd0: if (beacon == 4'h9) heard <= 2'd1;
      2'd1: heard <= beacon == 4'h6 ? 2'd2 : beacon == 4'h9 ? 2'd1 : 2'd0;
      2'd2: heard <= beacon == 4'h9 ? 2'd3 : 2'd0;
      2'd3: if (beacon == 4'h0) heard <= 2'd0;
    endcase
  end

  always_comb begin
    then_ = now;
    case (now)
      MAIN_GO:    if (rush) then_ = RUSH;
                  else if (over && (demand || night)) then_ = MAIN_END;
      MAIN_END:   if (over) then_ = CLEAR_A;
      CLEAR_A:    if (over) then_ = rush ? MAIN_READY : night ? FLASHING
                                  : walk_wait ? WALK : SIDE_READY;
      SIDE_READY: if (over) then_ = SIDE_GO;
      SIDE_GO:    if (over || rush) then_ = SIDE_END;
      SIDE_END:   if (over) then_ = CLEAR_B;
      WALK:       if (over || rush) then_ = WALK_END;
      WALK_END:   if (over) then_ = (side_wait && !rush) ? SIDE_READY : MAIN_READY;
      CLEAR_B:    if (over) then_ = MAIN_READY;
      MAIN_READY: if (over) then_ = MAIN_GO;
      FLASHING:   if (!night || rush) then_ = CLEAR_B;
      RUSH:       if (!rush) then_ = MAIN_GO;
      BROKEN:     then_ = BROKEN;
    endcase
    if (lamp_broken && now != FLASHING) then_ = BROKEN;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      now       <= CLEAR_B;
      count     <= 6'd3;
      side_wait <= 1'b0;
      walk_wait <= 1'b0;
      blink     <= 1'b0;
    end else begin
      now   <= then_;
      blink <= ~blink;
      if (now != then_) begin
        case (then_)
          MAIN_GO: count <= main_time;
          SIDE_GO: count <= side_time;
          WALK: count <= walk_time;
          MAIN_END, SIDE_END: count <= 6'd2;
          SIDE_READY, MAIN_READY: count <= 6'd1;
          default: count <= clear_time;
        endcase
      end else if (!over) count <= count - 6'd1;
      if (then_ == SIDE_GO) side_wait <= 1'b0;
      else if (side_car && now != FLASHING) side_wait <= 1'b1;
      if (then_ == WALK) walk_wait <= 1'b0;
      else if (walk_button && now != FLASHING) walk_wait <= 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      main_time  <= 6'd20;
      side_time  <= 6'd10;
      walk_time  <= 6'd8;
      clear_time <= 6'd3;
    end else if (set_time && (now == FLASHING || now == RUSH)) begin
      case (which_time)
        2'd0: main_time <= seconds;
        2'd1: side_time <= seconds;
        2'd2: walk_time <= seconds;
        2'd3: clear_time <= seconds;
      endcase
    end
  end

  always_comb begin
    main_lamps = RED;
    side_lamps = RED;
    walk_lamps = 2'b10;
    case (now)
      MAIN_GO, RUSH: main_lamps = GREEN;
      MAIN_END: main_lamps = AMBER;
      MAIN_READY: main_lamps = RED_AMBER;
      SIDE_READY: side_lamps = RED_AMBER;
      SIDE_GO: side_lamps = GREEN;
      SIDE_END: side_lamps = AMBER;
      WALK: walk_lamps = 2'b01;
      FLASHING, BROKEN: begin
        main_lamps = blink ? AMBER : 3'b000;
        side_lamps = blink ? AMBER : 3'b000;
        walk_lamps = 2'b00;
      end
      default: ;
    endcase
  end

  assign priority_on = now == RUSH;
  assign fault = now == BROKEN;
endmodule
