// Bus timer: prescaler, reload, compare output; its registers are guarded by a two-word key.
module apb_timer (
  input  logic        clk,
  input  logic        rst_n,
  input  logic        psel,
  input  logic        penable,
  input  logic        pwrite,
  input  logic [4:0]  paddr,
  input  logic [15:0] pwdata,
  output logic [15:0] prdata,
  output logic        pslverr,
  output logic        irq,
  output logic        level_out
);
  localparam logic [15:0] FIRST_KEY  = 16'hA55A;
  localparam logic [15:0] SECOND_KEY = 16'h3C7E;
  typedef enum logic [1:0] {LOCKED, HALF, OPEN, JAMMED} lock_t;
  typedef enum logic [1:0] {STOPPED, RUN, EXPIRED} timer_t;

  lock_t lock;
  timer_t state;
  logic [1:0] wrong;
  logic enable, periodic, irq_enable;
  logic [3:0] prescale, tick_count;
  logic [15:0] reload, compare, count;
  logic matched, overrun;

  wire [2:0] word = paddr[4:2];
  wire access = psel && penable;
  wire write = access && pwrite;
  wire guarded = word == 3'd1 || word == 3'd2 || word == 3'd3 || word == 3'd4;
  wire config_write = write && guarded && lock == OPEN;
  wire tick = tick_count == prescale;

  always_comb begin
    case (word)
      3'd0: prdata = {14'd0, lock};
      3'd1: prdata = {13'd0, irq_enable, periodic, enable};
      3'd2: prdata = {12'd0, prescale};
      3'd3: prdata = reload;
      3'd4: prdata = compare;
      3'd5: prdata = count;
      3'd6: prdata = {14'd0, overrun, matched};
      3'd7: prdata = 16'h0000;
    endcase
  end

  assign pslverr = access && (word == 3'd7 || (pwrite && word == 3'd5)
                              || (pwrite && guarded && lock != OPEN) || paddr[1:0] != 2'd0);
  assign irq = irq_enable && matched;
  assign level_out = state == RUN && count < compare;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      lock  <= LOCKED;
      wrong <= 2'd0;
    end else if (write && word == 3'd0) begin
      case (lock)
        LOCKED: begin
          if (pwdata == FIRST_KEY) lock <= HALF;
          else if (wrong == 2'd3) lock <= JAMMED;
          else wrong <= wrong + 2'd1;
        end
        HALF: begin
          if (pwdata == SECOND_KEY) begin
            lock  <= OPEN;
            wrong <= 2'd0;
          end else lock <= LOCKED;
        end
        OPEN: lock <= LOCKED;
        JAMMED: lock <= JAMMED;
      endcase
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      {irq_enable, periodic, enable} <= 3'b000;
      prescale <= 4'd0;
      reload   <= 16'd0;
      compare  <= 16'd0;
    end else if (config_write) begin
      if (word == 3'd1) {irq_enable, periodic, enable} <= pwdata[2:0];
      if (word == 3'd2) prescale <= pwdata[3:0];
      if (word == 3'd3) reload <= pwdata;
      if (word == 3'd4) compare <= pwdata;
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      state <= STOPPED;
      count <= 16'd0;
      tick_count <= 4'd0;
      matched <= 1'b0;
      overrun <= 1'b0;
    end else begin
      if (write && word == 3'd6 && pwdata[0]) matched <= 1'b0;
      if (write && word == 3'd6 && pwdata[1]) overrun <= 1'b0;
      case (state)
        STOPPED: if (enable) begin
          state <= RUN;
          count <= reload;
          tick_count <= 4'd0;
        end
        RUN: begin
          tick_count <= tick ? 4'd0 : tick_count + 4'd1;
          if (!enable) state <= STOPPED;
          else if (tick && count == 16'd0) begin
            matched <= 1'b1;
            if (matched) overrun <= 1'b1;
            if (periodic) count <= reload;
            else state <= EXPIRED;
          end else if (tick) count <= count - 16'd1;
        end
        EXPIRED: if (!enable) state <= STOPPED;
      endcase
    end
  end
endmodule
