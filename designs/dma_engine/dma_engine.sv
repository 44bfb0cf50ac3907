// Copies blocks of memory: descriptors of source, target and length, moved in bursts of four.
module dma_engine (
  input  logic        clk,
  input  logic        rst_n,
  // configuration
  input  logic        cfg_write,
  input  logic [2:0]  cfg_addr,
  input  logic [11:0] cfg_data,
  // memory
  output logic        mem_req,
  output logic        mem_write,
  output logic [11:0] mem_addr,
  output logic [7:0]  mem_wdata,
  input  logic        mem_grant,
  input  logic [7:0]  mem_rdata,
  input  logic        mem_error,
  // state
  output logic        running,
  output logic        irq,
  output logic [2:0]  status,       // aborted, bus error, bad descriptor
  output logic [11:0] moved
);
  typedef enum logic [2:0] {
    DMA_IDLE, DMA_CHECK, DMA_LOAD, DMA_STORE, DMA_PAUSE, DMA_RETRY, DMA_FAILED
  } dma_t;
  dma_t dma;

  localparam logic [11:0] GO_WORD = 12'hD3A;

  logic [11:0] source, target, remaining, from, to;
  logic [7:0]  limit_high;
  logic        fixed_target, chain, abort_wanted;
  logic [7:0]  burst [0:3];
  logic [1:0]  index, top, retries;
  logic [3:0]  rest;

  wire idle     = dma == DMA_IDLE || dma == DMA_FAILED;
  wire go       = cfg_write && cfg_addr == 3'd6 && cfg_data == GO_WORD;
  wire [12:0] target_end = {1'b0, target} + (fixed_target ? 13'd0 : {1'b0, remaining} - 13'd1);
  wire forbidden = target_end > {1'b0, limit_high, 4'hF};

  assign running   = !idle;
  assign mem_req   = dma == DMA_LOAD || dma == DMA_STORE;
  assign mem_write = dma == DMA_STORE;
  assign mem_addr  = dma == DMA_STORE ? to : from;
  assign mem_wdata = burst[index];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      source <= 12'd0;
      target <= 12'd0;
      limit_high <= 8'h0F;
      {fixed_target, chain} <= 2'b00;
    end else if (cfg_write && idle) begin
      if (cfg_addr == 3'd0) source <= cfg_data;
      if (cfg_addr == 3'd1) target <= cfg_data;
      if (cfg_addr == 3'd3) {fixed_target, chain} <= cfg_data[1:0];
      if (cfg_addr == 3'd4) limit_high <= cfg_data[11:4];
    end else if (dma == DMA_STORE && mem_grant && remaining == 12'd1 && chain) begin
      // The next block goes on where this one ended.
      source <= from;
      target <= fixed_target ? to : to + 12'd1;
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      dma <= DMA_IDLE;
      {from, to, remaining, moved} <= 48'd0;
      {index, top, retries} <= 6'd0;
      rest <= 4'd0;
      irq <= 1'b0;
      status <= 3'd0;
      abort_wanted <= 1'b0;
      for (int i = 0; i < 4; i++) burst[i] <= 8'd0;
    end else begin
      if (cfg_write && cfg_addr == 3'd5) irq <= 1'b0;
      if (cfg_write && cfg_addr == 3'd7 && running) abort_wanted <= 1'b1;
      if (cfg_write && cfg_addr == 3'd2 && idle) remaining <= cfg_data;

      case (dma)
        DMA_IDLE, DMA_FAILED: if (go) begin
          dma <= DMA_CHECK;
          status <= 3'd0;
          moved <= 12'd0;
          abort_wanted <= 1'b0;
        end
        DMA_CHECK: begin
          from <= source;
          to <= target;
          index <= 2'd0;
          retries <= 2'd0;
          top <= remaining < 12'd4 ? remaining[1:0] - 2'd1 : 2'd3;
          if (remaining == 12'd0 || forbidden) begin
            dma <= DMA_FAILED;
            status <= 3'b001;
            irq <= 1'b1;
          end else dma <= DMA_LOAD;
        end
        DMA_LOAD: begin
          if (mem_error) begin
            dma <= retries == 2'd3 ? DMA_FAILED : DMA_RETRY;
            if (retries == 2'd3) {irq, status} <= 4'b1010;
            retries <= retries + 2'd1;
            rest <= 4'd15;
          end else if (mem_grant) begin
            burst[index] <= mem_rdata;
            from <= from + 12'd1;
            index <= index == top ? 2'd0 : index + 2'd1;
            if (index == top) dma <= DMA_STORE;
          end
        end
        DMA_RETRY: begin
          rest <= rest - 4'd1;
          if (rest == 4'd0) dma <= DMA_LOAD;
        end
        DMA_STORE: if (mem_grant) begin
          remaining <= remaining - 12'd1;
          moved <= moved + 12'd1;
          if (!fixed_target) to <= to + 12'd1;
          index <= index == top ? 2'd0 : index + 2'd1;
          if (index == top) begin
            rest <= 4'd2;
            dma <= DMA_PAUSE;
          end
        end
        DMA_PAUSE: begin
          rest <= rest - 4'd1;
          top <= remaining < 12'd4 ? remaining[1:0] - 2'd1 : 2'd3;
          if (remaining == 12'd0 || abort_wanted) begin
            dma <= DMA_IDLE;
            irq <= 1'b1;
            status <= {remaining != 12'd0, 2'b00};
          end else if (rest == 4'd0) begin
            retries <= 2'd0;
            dma <= DMA_LOAD;
          end
        end
      endcase
    end
  end
endmodule
