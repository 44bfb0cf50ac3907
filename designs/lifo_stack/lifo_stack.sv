// Operand stack of 16 twelve-bit words with frames, as a small stack machine needs it.
module lifo_stack (
    input  logic        clk,
    input  logic        rst,
    input  logic        valid,
    input  logic [2:0]  command,
    input  logic [11:0] operand,
    output logic        ready,
    output logic [11:0] top,
    output logic [11:0] result,
    output logic        done,
    output logic [1:0]  fault,
    output logic [4:0]  depth,
    output logic [4:0]  frame_base
);
  localparam logic [2:0] PUSH = 3'd1, POP = 3'd2, PEEK = 3'd3, SWAP = 3'd4, DROP = 3'd5,
      ENTER = 3'd6, LEAVE = 3'd7;
  localparam logic [1:0] NONE = 2'd0, FULL = 2'd1, SHORT = 2'd2, FRAME = 2'd3;

  typedef enum logic [1:0] {READY, SWAPPING, ERASING, HALTED} phase_t;

  phase_t      phase;
  logic [11:0] cells [16];
  logic [4:0]  live;
  logic [2:0]  strikes;

  assign live  = depth - frame_base;
  assign ready = phase == READY;
  assign top   = (depth == 5'd0) ? 12'h000 : cells[4'(depth - 5'd1)];

  always_ff @(posedge clk) begin
    if (rst) begin
      phase      <= READY;
      depth      <= '0;
      frame_base <= '0;
      result     <= '0;
      done       <= 1'b0;
      fault      <= NONE;
      strikes    <= '0;
      for (int i = 0; i < 16; i++) cells[i] <= '0;
    end else begin
      done <= 1'b0;
      case (phase)
        READY: begin
          if (strikes == 3'd6) begin
            phase <= HALTED;
          end else if (valid && command != 3'd0) begin
            done  <= 1'b1;
            fault <= NONE;
            case (command)
              PUSH:
              if (depth == 5'd16) begin
                fault   <= FULL;
                strikes <= strikes + 3'd1;
              end else begin
                cells[4'(depth)] <= operand;
                depth            <= depth + 5'd1;
              end
              POP:
              if (live == 5'd0) begin
                fault   <= SHORT;
                strikes <= strikes + 3'd1;
              end else begin
                result <= top;
                depth  <= depth - 5'd1;
              end
              PEEK:
              if (operand >= 12'(live)) fault <= SHORT;
              else result <= cells[4'(depth - 5'd1 - 5'(operand))];
              SWAP:
              if (live < 5'd2) fault <= SHORT;
              else begin
                done                     <= 1'b0;
                result                   <= top;
                cells[4'(depth - 5'd1)]  <= cells[4'(depth - 5'd2)];
                phase                    <= SWAPPING;
              end
              DROP:
              if (operand > 12'(live)) fault <= SHORT;
              else if (operand != 12'd0) begin
                done   <= 1'b0;
                result <= operand;
                phase  <= ERASING;
              end
              ENTER:
              if (frame_base != 5'd0 || depth == 5'd0) fault <= FRAME;
              else frame_base <= depth;
              LEAVE: begin
                strikes <= '0;
                if (frame_base == 5'd0) fault <= FRAME;
                else begin
                  result     <= 12'(live);
                  depth      <= frame_base;
                  frame_base <= '0;
                end
              end
            endcase
          end
        end
        SWAPPING: begin
          cells[4'(depth - 5'd2)] <= result;
          done                    <= 1'b1;
          phase                   <= READY;
        end
        ERASING: begin
          cells[4'(depth - 5'd1)] <= '0;
          depth                   <= depth - 5'd1;
          result                  <= result - 12'd1;
          if (result == 12'd1) begin
            done  <= 1'b1;
            phase <= READY;
          end
        end
        HALTED:
        // Only the rescue word 0x5AF with command 7 brings the stack back.
        if (valid && command == LEAVE && operand == 12'h5AF) begin
          depth      <= '0;
          frame_base <= '0;
          strikes    <= '0;
          fault      <= NONE;
          phase      <= READY;
        end
      endcase
    end
  end
endmodule
