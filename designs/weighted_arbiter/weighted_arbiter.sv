// Weighted round robin over four queues; the weights sit behind a two-word key.
module weighted_arbiter (
    input  logic        clk,
    input  logic        rst_n,
    input  logic [3:0]  pending,
    input  logic        step,
    input  logic        write,
    input  logic [2:0]  address,
    input  logic [15:0] data,
    output logic [3:0]  serve,
    output logic [15:0] credits,
    output logic [15:0] weights,
    output logic        refilled,
    output logic        open,
    output logic        rejected,
    output logic        paused,
    output logic        strict,
    output logic [5:0]  served
);
  localparam logic [15:0] KEY_ONE = 16'h3AC5, KEY_TWO = 16'hD00D;

  typedef enum logic [1:0] {SHUT, AJAR, OPEN} door_t;
  typedef enum logic [1:0] {IDLE, SERVING, REFILL, PAUSED} engine_t;

  door_t       door, door_next;
  engine_t     engine;
  logic [15:0] draft;
  logic [3:0]  funded;
  logic [1:0]  turn, choice;
  logic        weight_write, spend, pause_request;
  logic [6:0]  open_for;

  assign open         = door == OPEN;
  assign paused       = engine == PAUSED;
  assign weight_write = write && open && address[2] == 1'b0;

  always_comb begin
    for (int q = 0; q < 4; q++) funded[q] = pending[q] && (strict || credits[4*q+:4] != 4'd0);
    choice = turn;
    if (strict) begin
      for (int q = 3; q >= 0; q--) if (funded[q]) choice = 2'(q);
    end else begin
      for (int q = 3; q >= 0; q--) if (funded[2'(turn + 2'(q))]) choice = 2'(turn + 2'(q));
    end
  end

  always_comb begin
    door_next = door;
    case (door)
      SHUT: if (write && address == 3'd7 && data == KEY_ONE) door_next = AJAR;
      AJAR:
      if (write) begin
        if (address == 3'd7 && data == KEY_TWO) door_next = OPEN;
        else door_next = SHUT;
      end
      OPEN: if ((write && address == 3'd6) || open_for == 7'd99) door_next = SHUT;
    endcase
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      door          <= SHUT;
      draft         <= 16'h1111;
      weights       <= 16'h1111;
      strict        <= 1'b0;
      pause_request <= 1'b0;
      rejected      <= 1'b0;
      open_for      <= '0;
    end else begin
      door     <= door_next;
      rejected <= write && !open && address != 3'd7;
      open_for <= open ? open_for + 7'd1 : 7'd0;
      if (weight_write) draft[4*address[1:0]+:4] <= data[3:0];
      if (write && open && address == 3'd4) weights <= draft;
      if (write && open && address == 3'd5) begin
        strict        <= data[0];
        pause_request <= data[1];
      end
    end
  end

  assign spend = engine == SERVING && step && funded != 4'd0;

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      engine   <= IDLE;
      credits  <= 16'h1111;
      serve    <= '0;
      turn     <= '0;
      refilled <= 1'b0;
      served   <= '0;
    end else begin
      serve    <= '0;
      refilled <= 1'b0;
      case (engine)
        IDLE:
        if (pause_request) engine <= PAUSED;
        else if (pending != 4'd0) engine <= SERVING;
        SERVING:
        if (pause_request) engine <= PAUSED;
        else if (pending == 4'd0) engine <= IDLE;
        else if (funded == 4'd0) engine <= REFILL;
        REFILL: begin
          credits  <= weights;
          refilled <= 1'b1;
          // Queues without weight can wait for ever; then there is nothing to serve.
          engine   <= IDLE;
        end
        PAUSED: if (!pause_request) engine <= REFILL;
      endcase
      if (spend) begin
        serve[choice] <= 1'b1;
        served        <= served + 6'd1;
        if (!strict) credits[4*choice+:4] <= credits[4*choice+:4] - 4'd1;
        if (strict || credits[4*choice+:4] == 4'd1) turn <= choice + 2'd1;
        else turn <= choice;
      end
    end
  end
endmodule
