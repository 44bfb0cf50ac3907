// Four words of protected memory: single errors are corrected and written back, double ones found.
module hamming_ecc (
  input  logic        clk,
  input  logic        rst_n,
  input  logic        request,
  input  logic [1:0]  operation,
  input  logic [1:0]  address,
  input  logic [15:0] write_data,
  input  logic [21:0] flips,
  output logic        busy,
  output logic        answer,
  output logic [15:0] read_data,
  output logic        single,
  output logic        multiple,
  output logic [4:0]  position,
  output logic [3:0]  singles,
  output logic        armed,
  output logic        halted,
  output logic        scrubbed
);
  localparam logic [1:0] READ = 2'd0, WRITE = 2'd1, SCRUB = 2'd3;
  localparam logic [15:0] ARM_WORD = 16'hB1E5;

  typedef enum logic [2:0] {REST, FETCH, JUDGE, REPAIR, STORE, HALT} step_t;
  step_t step;

  logic [21:0] memory [0:3];
  logic [21:0] word;
  logic [15:0] held;
  logic [1:0]  where;
  logic        scrubbing;
  logic [1:0]  in_a_row;

  // Bits 20..0 are positions 21..1 of the Hamming code; parity bits sit at the powers of two.
  function automatic logic [4:0] checks(input logic [20:0] bits);
    checks = 5'd0;
    for (int i = 1; i < 22; i++) checks = checks ^ (bits[i - 1] ? i[4:0] : 5'd0);
  endfunction

  function automatic logic [21:0] protect(input logic [15:0] d);
    logic [20:0] bits;
    logic [4:0] c;
    bits = {d[15:11], 1'b0, d[10:4], 1'b0, d[3:1], 1'b0, d[0], 2'b00};
    c = checks(bits);
    {bits[15], bits[7], bits[3], bits[1], bits[0]} = c;
    return {^bits, bits};
  endfunction

  wire [4:0] syndrome = checks(word[20:0]);
  wire odd  = ^word;
  wire one  = odd && syndrome <= 5'd21;
  wire many = odd ? syndrome > 5'd21 : syndrome != 5'd0;
  wire [21:0] fixed = word ^ (syndrome == 5'd0 ? 22'h200000 : 22'd1 << (syndrome - 5'd1));
  wire [21:0] final_word = one ? fixed : word;
  wire finished = !scrubbing || where == 2'd3;

  assign busy = step != REST && step != HALT;
  assign halted = step == HALT;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      step <= REST;
      for (int i = 0; i < 4; i++) memory[i] <= 22'd0;
      word <= 22'd0;
      held <= 16'd0;
      where <= 2'd0;
      read_data <= 16'd0;
      position <= 5'd0;
      singles <= 4'd0;
      in_a_row <= 2'd0;
      {scrubbing, armed, answer, single, multiple, scrubbed} <= 6'd0;
    end else begin
      answer <= 1'b0;
      scrubbed <= 1'b0;
      case (step)
        REST: if (request) begin
          held  <= write_data;
          where <= operation == SCRUB ? 2'd0 : address;
          scrubbing <= operation == SCRUB;
          if (operation == READ || operation == SCRUB) step <= FETCH;
          else if (operation == WRITE) step <= STORE;
          else armed <= write_data == ARM_WORD && address == 2'd2;
        end
        FETCH: begin
          word <= memory[where];
          step <= JUDGE;
        end
        JUDGE: begin
          read_data <= {final_word[20:16], final_word[14:8], final_word[6:4], final_word[2]};
          {single, multiple} <= {one, many};
          position <= syndrome;
          answer   <= !scrubbing;
          in_a_row <= many ? in_a_row + 2'd1 : 2'd0;
          if (one) begin
            if (singles != 4'd15) singles <= singles + 4'd1;
            step <= REPAIR;
          end else if (many && in_a_row == 2'd2) step <= HALT;
          else begin
            where <= where + 2'd1;
            scrubbed <= scrubbing && finished;
            step <= finished ? REST : FETCH;
          end
        end
        REPAIR: begin
          memory[where] <= fixed;
          where <= where + 2'd1;
          scrubbed <= scrubbing && finished;
          step <= finished ? REST : FETCH;
        end
        STORE: begin
          memory[where] <= protect(held) ^ (armed ? flips : 22'd0);
          armed <= 1'b0;
          step <= REST;
        end
        HALT: if (request && operation == WRITE) begin
          held  <= write_data;
          where <= address;
          in_a_row <= 2'd0;
          step  <= STORE;
        end
      endcase
    end
  end
endmodule
