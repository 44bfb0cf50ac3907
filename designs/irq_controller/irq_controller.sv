// Interrupt controller: eight lines, four priorities, nesting by priority.
module irq_controller (
  input  logic        clk,
  input  logic        rst,
  input  logic [7:0]  line,
  input  logic        wr,
  input  logic [2:0]  addr,
  input  logic [15:0] wdata,
  output logic [15:0] rdata,
  input  logic        ack,
  input  logic        eoi,
  output logic        irq,
  output logic [2:0]  vector,
  output logic [3:0]  in_service,
  output logic        spurious
);
  typedef enum logic [1:0] {QUIET, RAISED, HANDOVER, WITHDRAWN} request_t;
  request_t request;

  logic [7:0] enable, edge_mode, pending, line_before;
  logic [15:0] priorities;
  logic [1:0] threshold;
  logic unlocked;

  logic [7:0] eligible;
  logic [2:0] best;
  logic [1:0] best_level;
  logic found;

  function automatic logic [1:0] level_of(input logic [15:0] levels, input logic [2:0] which);
    return levels[{which, 1'b0} +: 2];
  endfunction

  // A line must beat the threshold and every priority that is in service.
  always_comb begin
    for (int i = 0; i < 8; i++) begin
      eligible[i] = pending[i] && enable[i] && level_of(priorities, i[2:0]) >= threshold
                    && (in_service >> level_of(priorities, i[2:0])) == 4'd0;
    end
    found = |eligible;
    best = 3'd0;
    best_level = 2'd0;
    for (int i = 7; i >= 0; i--) begin
      if (eligible[i] && level_of(priorities, i[2:0]) >= best_level) begin
        best = i[2:0];
        best_level = level_of(priorities, i[2:0]);
      end
    end
  end

  wire setup = wr && unlocked && in_service == 4'd0;
  wire taken = request == RAISED && ack && found;

  always_ff @(posedge clk) begin
    if (rst) begin
      enable     <= 8'd0;
      edge_mode  <= 8'd0;
      priorities <= 16'd0;
      threshold  <= 2'd0;
      unlocked   <= 1'b0;
    end else begin
      if (setup && addr == 3'd0) enable <= wdata[7:0];
      if (setup && addr == 3'd1) edge_mode <= wdata[7:0];
      if (setup && addr == 3'd2) priorities <= wdata;
      if (wr && addr == 3'd4) threshold <= wdata[1:0];
      if (wr && addr == 3'd6) unlocked <= wdata == 16'h1D0C;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      pending     <= 8'd0;
      line_before <= 8'd0;
    end else begin
      line_before <= line;
      for (int i = 0; i < 8; i++) begin
        if (!edge_mode[i]) pending[i] <= line[i];
        else if (line[i] && !line_before[i]) pending[i] <= 1'b1;
        else if (wr && addr == 3'd5 && wdata[i]) pending[i] <= 1'b1;
        else if (wr && addr == 3'd3 && wdata[i]) pending[i] <= 1'b0;
        else if (taken && best == i[2:0]) pending[i] <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      request    <= QUIET;
      in_service <= 4'd0;
      vector     <= 3'd0;
      spurious   <= 1'b0;
    end else begin
      spurious <= (ack && !taken) || (eoi && in_service == 4'd0);
      if (eoi) begin
        if (in_service[3]) in_service[3] <= 1'b0;
        else if (in_service[2]) in_service[2] <= 1'b0;
        else if (in_service[1]) in_service[1] <= 1'b0;
        else in_service[0] <= 1'b0;
      end
      case (request)
        QUIET: if (found) request <= RAISED;
        RAISED: begin
          if (taken) begin
            vector <= best;
            in_service[best_level] <= 1'b1;
            request <= HANDOVER;
          end else if (!found) request <= WITHDRAWN;
        end
        HANDOVER: request <= QUIET;
        WITHDRAWN: request <= found ? RAISED : QUIET;
      endcase
    end
  end

  always_comb begin
    case (addr)
      3'd0: rdata = {8'd0, enable};
      3'd1: rdata = {8'd0, edge_mode};
      3'd2: rdata = priorities;
      3'd3: rdata = {8'd0, pending};
      3'd4: rdata = {14'd0, threshold};
      3'd5: rdata = {8'd0, eligible};
      3'd6: rdata = {15'd0, unlocked};
      3'd7: rdata = 16'h0000;
    endcase
  end

  assign irq = request == RAISED;
endmodule
