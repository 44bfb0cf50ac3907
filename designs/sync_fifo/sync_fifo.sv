// Synchronous FIFO, 8 words of 16 bits, with programmable levels and congestion control.
module sync_fifo (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        flush,
    input  logic        push,
    input  logic        pop,
    input  logic [15:0] wdata,
    input  logic        level_we,
    input  logic [3:0]  level_high,
    input  logic [3:0]  level_low,
    input  logic        clear_flags,
    output logic [15:0] rdata,
    output logic        full,
    output logic        empty,
    output logic        almost_full,
    output logic        almost_empty,
    output logic        overflow,
    output logic        underflow,
    output logic        stalled,
    output logic [3:0]  count,
    output logic [3:0]  peak,
    output logic [5:0]  lost
);
  typedef enum logic [1:0] {OPEN, PRESSED, CLOSED} flow_t;

  flow_t       flow;
  logic [15:0] mem [8];
  logic [2:0]  wptr, rptr;
  logic [3:0]  high, low;
  logic [4:0]  pressed_for;
  logic        do_push, do_pop;

  assign full         = count == 4'd8;
  assign empty        = count == 4'd0;
  assign almost_full  = count >= high;
  assign almost_empty = count <= low;
  assign stalled      = flow == CLOSED;
  assign do_push      = push && !full && !stalled;
  assign do_pop       = pop && !empty;
  assign rdata        = mem[rptr];

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      wptr  <= '0;
      rptr  <= '0;
      count <= '0;
      peak  <= '0;
      for (int i = 0; i < 8; i++) mem[i] <= '0;
    end else if (flush) begin
      wptr  <= '0;
      rptr  <= '0;
      count <= '0;
    end else begin
      if (do_push) begin
        mem[wptr] <= wdata;
        wptr      <= wptr + 3'd1;
      end
      if (do_pop) rptr <= rptr + 3'd1;
      if (do_push && !do_pop) begin
        count <= count + 4'd1;
        if (count >= peak) peak <= count + 4'd1;
      end else if (do_pop && !do_push) begin
        count <= count - 4'd1;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      overflow  <= 1'b0;
      underflow <= 1'b0;
      lost      <= '0;
    end else if (clear_flags) begin
      overflow  <= 1'b0;
      underflow <= 1'b0;
      lost      <= '0;
    end else if (!flush) begin
      if (push && !do_push) begin
        overflow <= 1'b1;
        if (lost != 6'd63) lost <= lost + 6'd1;
      end
      if (pop && empty) underflow <= 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      high <= 4'd7;
      low  <= 4'd1;
    end else if (level_we && level_high > level_low) begin
      high <= level_high;
      low  <= level_low;
    end
  end

  // Twenty cycles in a row at or above the high level close the input until the low level.
  always_ff @(posedge clk) begin
    if (!rst_n) begin
      flow        <= OPEN;
      pressed_for <= '0;
    end else begin
      case (flow)
        OPEN: begin
          pressed_for <= '0;
          if (almost_full) flow <= PRESSED;
        end
        PRESSED: begin
          pressed_for <= pressed_for + 5'd1;
          if (!almost_full) flow <= OPEN;
          else if (pressed_for == 5'd19) flow <= CLOSED;
        end
        CLOSED: if (almost_empty || flush) flow <= OPEN;
      endcase
    end
  end
endmodule
