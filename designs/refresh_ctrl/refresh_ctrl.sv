// Commands for a small dynamic memory: start-up, open rows, refresh on time, self refresh.
module refresh_ctrl (
  input  logic       clk,
  input  logic       rst,
  input  logic       host_req,
  input  logic       host_write,
  input  logic [9:0] host_addr,      // row above, 3 bits of column below
  input  logic       mode_load,
  input  logic [9:0] mode_word,
  input  logic       sleep,
  output logic       host_ack,
  output logic       usable,
  output logic [2:0] command,
  output logic [6:0] bus_addr,
  output logic       urgent,
  output logic       asleep,
  output logic       stuck,
  output logic [6:0] open_row,
  output logic [5:0] refreshes
);
  localparam logic [2:0] C_NONE = 3'd0, C_ACT = 3'd1, C_READ = 3'd2, C_WRITE = 3'd3,
                         C_PRE = 3'd4, C_REF = 3'd5, C_MODE = 3'd6, C_SELF = 3'd7;
  localparam logic [9:0] DRIVE_WORD = 10'h1E7;
  typedef enum logic [3:0] {
    SETTLE, CLOSE_ALL, WARM_ONE, WARM_TWO, WANT_DRIVE, WANT_MODE, QUIET, OPENING, ROW_OPEN,
    ACCESS, CLOSING, REFRESH, SLEEPING, WAKING, STUCK
  } dram_t;
  dram_t st;

  logic [6:0] wait_left;
  logic [7:0] since;
  logic [2:0] owed;
  logic [2:0] speed;
  logic closed_page;
  logic [4:0] unused_for;

  wire waited = wait_left == 7'd0;
  wire [6:0] row = host_addr[9:3];
  wire row_hit = host_req && row == open_row;
  wire must_refresh = owed >= 3'd4;
  wire may_refresh  = owed != 3'd0;
  // Mode words carry a signature above the settings.
  wire mode_good = mode_word[9:4] == 6'b101101;
  wire tick = since == 8'd199;

  assign urgent = must_refresh;
  assign stuck = st == STUCK;
  assign asleep = st == SLEEPING;

  always_ff @(posedge clk) begin
    if (rst) begin
      since <= 8'd0;
      owed <= 3'd0;
    end else if (usable && !asleep) begin
      since <= tick ? 8'd0 : since + 8'd1;
      owed <= owed + {2'd0, tick} - {2'd0, command == C_REF && may_refresh};
    end else begin
      since <= 8'd0;
      owed <= 3'd0;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      st <= SETTLE;
      usable <= 1'b0;
      wait_left <= 7'd99;
      command <= C_NONE;
      bus_addr <= 7'd0;
      host_ack <= 1'b0;
      open_row <= 7'd0;
      refreshes <= 6'd0;
      speed <= 3'd2;
      closed_page <= 1'b0;
      unused_for <= 5'd0;
    end else begin
      command <= C_NONE;
      host_ack <= 1'b0;
      if (!waited) wait_left <= wait_left - 7'd1;
      case (st)
        SETTLE: if (waited) begin
          st <= CLOSE_ALL;
          command <= C_PRE;
          bus_addr <= 7'h40;
          wait_left <= 7'd3;
        end
        CLOSE_ALL: if (waited) begin
          st <= WARM_ONE;
          command <= C_REF;
          wait_left <= 7'd9;
        end
        WARM_ONE: if (waited) begin
          st <= WARM_TWO;
          command <= C_REF;
          wait_left <= 7'd9;
        end
        WARM_TWO: if (waited) st <= WANT_DRIVE;
        WANT_DRIVE: if (mode_load) st <= mode_word == DRIVE_WORD ? WANT_MODE : STUCK;
        WANT_MODE: if (mode_load) begin
          st <= mode_good ? QUIET : STUCK;
          usable <= mode_good;
          command <= C_MODE;
          bus_addr <= {3'd0, mode_word[3:0]};
          {closed_page, speed} <= mode_word[3:0];
        end
        QUIET: begin
          if (sleep && !may_refresh) begin
            st <= SLEEPING;
            command <= C_SELF;
          end else if (must_refresh || (may_refresh && !host_req)) begin
            st <= REFRESH;
            command <= C_REF;
            refreshes <= refreshes + 6'd1;
            wait_left <= 7'd9;
          end else if (host_req) begin
            st <= OPENING;
            command <= C_ACT;
            bus_addr <= row;
            open_row <= row;
            wait_left <= {4'd0, speed};
          end
        end
        OPENING: if (waited) begin
          st <= ROW_OPEN;
          unused_for <= 5'd0;
        end
        ROW_OPEN: begin
          unused_for <= unused_for + 5'd1;
          if (must_refresh || sleep || (host_req && !row_hit) || unused_for == 5'd31) begin
            st <= CLOSING;
            command <= C_PRE;
            bus_addr <= open_row;
            wait_left <= {4'd0, speed};
          end else if (row_hit) begin
            st <= ACCESS;
            command <= host_write ? C_WRITE : C_READ;
            bus_addr <= {4'd0, host_addr[2:0]};
            wait_left <= host_write ? 7'd1 : {4'd0, speed};
          end
        end
        ACCESS: if (waited) begin
          host_ack <= 1'b1;
          unused_for <= 5'd0;
          if (closed_page) begin
            st <= CLOSING;
            command <= C_PRE;
            bus_addr <= open_row;
            wait_left <= {4'd0, speed};
          end else st <= ROW_OPEN;
        end
        CLOSING: if (waited) st <= QUIET;
        REFRESH: if (waited) st <= QUIET;
        STUCK: st <= STUCK;
        SLEEPING: if (!sleep) begin
          st <= WAKING;
          wait_left <= 7'd20;
        end
        WAKING: if (waited) begin
          st <= REFRESH;
          command <= C_REF;
          refreshes <= refreshes + 6'd1;
          wait_left <= 7'd9;
        end
      endcase
    end
  end
endmodule
