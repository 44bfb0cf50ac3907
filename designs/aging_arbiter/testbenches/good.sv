`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, accept = 0, patience_we = 0, freeze_ages = 0;
  logic [3:0] request = 4'b0000;
  logic [4:0] patience = 5'd0;
  wire offer, promoted, alarm;
  wire [1:0] chosen, mode;
  wire [3:0] starving;
  wire [5:0] oldest_age, rescues;

  aging_arbiter dut (.*);

  initial begin : clock_source
    forever #7 clk = ~clk;
  end

  task automatic set_patience(logic [4:0] cycles);
    patience = cycles;
    patience_we = 1;
    @(negedge clk);
    patience_we = 0;
  endtask

  // The consumer takes an offer in one of `one_in` cycles.
  task automatic serve(logic [3:0] clients, int one_in, int cycles);
    request = clients;
    repeat (cycles) begin
      accept = $urandom_range(one_in - 1) == 0;
      @(negedge clk);
    end
    accept = 0;
  endtask

  initial begin : stimulus
    repeat (3) @(negedge clk);
    rst_n = 1;
    for (int c = 0; c < 16; c++) serve(4'(c), 2, 6);
    serve(4'b1111, 1, 60);
    serve(4'b1001, 2, 80);
    serve(4'b0000, 1, 4);
    // Nobody is served: all starve, the ages saturate, five serves end the crisis.
    serve(4'b1111, 1000, 70);
    serve(4'b1111, 2, 60);
    serve(4'b0100, 1000, 80);
    serve(4'b0110, 2, 30);
    serve(4'b0000, 2, 3);
    set_patience(5'd3);
    serve(4'b1100, 3, 40);
    set_patience(5'd4);
    serve(4'b1111, 1, 60);
    serve(4'b1110, 4, 200);
    set_patience(5'd27);
    freeze_ages = 1;
    serve(4'b1111, 3, 40);
    freeze_ages = 0;
    serve(4'b0111, 3, 90);
    set_patience(5'd9);
    for (int i = 0; i < 8; i++) begin
      serve(4'b1111, 1000, 80);
      serve(4'd1 << (i & 3), 3, 20);
    end
    repeat (300) serve(4'($urandom) | 4'($urandom), $urandom_range(1, 6), $urandom_range(1, 20));
    set_patience(5'd16);
    rst_n = 0;
    @(negedge clk);
    $finish;
  end
endmodule
