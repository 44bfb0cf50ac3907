// Fixed-priority arbiter that promotes clients which have waited too long.
module aging_arbiter (
    input  logic        clk,
    input  logic        rst_n,
    input  logic [3:0]  request,
    input  logic        accept,
    input  logic [4:0]  patience,
    input  logic        patience_we,
    input  logic        freeze_ages,
    output logic        offer,
    output logic [1:0]  chosen,
    output logic        promoted,
    output logic [3:0]  starving,
    output logic [5:0]  oldest_age,
    output logic        alarm,
    output logic [5:0]  rescues,
    output logic [1:0]  mode
);
  typedef enum logic [1:0] {CALM, URGENT, CRISIS} mood_t;

  mood_t      mood, mood_next;
  logic [5:0] age [4];
  logic [4:0] limit;
  logic [1:0] by_rank, by_age, pick;
  logic       settled;
  logic [2:0] crisis_serves;

  assign mode       = mood;
  assign alarm      = mood == CRISIS;
  assign oldest_age = age[by_age];

  always_comb begin
    by_rank = 2'd3;
    for (int c = 3; c >= 0; c--) if (request[c]) by_rank = 2'(c);
    by_age = 2'd0;
    for (int c = 1; c < 4; c++) if (age[c] > age[by_age]) by_age = 2'(c);
    for (int c = 0; c < 4; c++) starving[c] = age[c] >= {1'b0, limit};
    pick = (mood == CALM) ? by_rank : by_age;
  end

  always_comb begin
    mood_next = mood;
    unique case (mood)
      CALM:   if (starving != 4'd0) mood_next = URGENT;
      URGENT: begin
        if (starving == 4'd0) mood_next = CALM;
        else if (starving == 4'b1111 || oldest_age == 6'd63) mood_next = CRISIS;
      end
      // Five offers have to be accepted before the crisis counts as over.
      CRISIS: if (crisis_serves == 3'd5) mood_next = CALM;
    endcase
  end

  // An offer stands, unchanged, until it is accepted or its client gives up.
  always_ff @(posedge clk) begin
    if (!rst_n) begin
      offer    <= 1'b0;
      chosen   <= '0;
      promoted <= 1'b0;
      settled  <= 1'b0;
    end else if (offer && !accept && request[chosen]) begin
      settled <= 1'b1;
    end else begin
      settled  <= 1'b0;
      offer    <= request != 4'd0 && !(offer && accept);
      chosen   <= request[pick] ? pick : by_rank;
      promoted <= mood != CALM && request[pick] && pick != by_rank;
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      mood          <= CALM;
      limit         <= 5'd20;
      rescues       <= '0;
      crisis_serves <= '0;
      for (int c = 0; c < 4; c++) age[c] <= '0;
    end else begin
      mood <= mood_next;
      if (patience_we && patience >= 5'd4) limit <= patience;
      for (int c = 0; c < 4; c++) begin
        if (!request[c] || (offer && accept && chosen == 2'(c))) age[c] <= '0;
        else if (!freeze_ages && age[c] != 6'd63) age[c] <= age[c] + 6'd1;
      end
      if (offer && accept && promoted) begin
        rescues <= rescues + (settled ? 6'd2 : 6'd1);
      end
      if (mood != CRISIS) crisis_serves <= '0;
      else if (offer && accept) crisis_serves <= crisis_serves + 3'd1;
    end
  end
endmodule
