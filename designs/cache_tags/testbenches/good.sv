`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, req = 0, mem_ack = 0;
  logic [1:0] op = 0;
  logic [7:0] addr = 0, mem_addr;
  logic ready, done, hit, way, denied, mem_fetch, mem_evict;
  logic [5:0] hits, misses;
  cache_tags dut (.*);
  always #5 clk = ~clk;
  // memory answers every third cycle
  int beat = 0;
  always @(negedge clk) begin
    beat = beat == 2 ? 0 : beat + 1;
    mem_ack = beat == 2 && (mem_fetch || mem_evict);
  end

  task automatic ask(input logic [1:0] o, input logic [7:0] a);
    for (int n = 0; n < 99 && !ready; n++) @(negedge clk);
    req = 1; op = o; addr = a;
    @(negedge clk) req = 0;
    @(negedge clk);
  endtask
  task automatic serve(input logic [7:0] command);
    ask(2, 8'hA5); ask(2, 8'h3C); ask(3, command);
    for (int n = 0; n < 99 && !ready; n++) @(negedge clk);
  endtask

  initial begin
    @(negedge clk) rst_n = 1;
    req = 1; addr = 8'h77; repeat (3) @(negedge clk);
    req = 0; repeat (4) @(negedge clk);
    // key: missing, half, wrong order, given back, used twice
    ask(3, 8'h40); ask(2, 8'hA5); ask(3, 8'h40); ask(0, 8'h10); ask(2, 8'h3C); ask(3, 8'hC0);
    ask(3, 8'hC0); ask(2, 8'h3C); ask(2, 8'hA5); ask(2, 8'hA5); ask(3, 8'hC0);
    ask(2, 8'hA5); ask(2, 8'h3C); ask(2, 8'h3C); ask(3, 8'hC0);
    serve(8'hC0);
    // flush of an empty store; pin of an invalid line
    serve(8'h00); serve(8'h43);
    // fill both ways of all sets, hit both, all tag bits both ways
    for (int s = 0; s < 4; s++) begin
      for (int t = 0; t < 3; t++) begin
        ask(0, {6'h3F, s[1:0]}); ask(0, {6'h00, s[1:0]}); ask(0, {6'h3F, s[1:0]});
        ask(0, {6'h2A, s[1:0]}); ask(0, {6'h15, s[1:0]}); ask(0, {6'h00, s[1:0]});
        ask(0, {6'h3F, s[1:0]}); ask(0, {6'h20, s[1:0]}); ask(0, {6'h1F, s[1:0]});
      end
    end
    serve(8'hC0);
    // dirty lines: write hits on both ways, write misses, write backs
    for (int s = 0; s < 4; s++) begin
      ask(1, {6'h20, s[1:0]}); ask(1, {6'h1F, s[1:0]});
      ask(0, {6'h01, s[1:0]}); ask(1, {6'h02, s[1:0]}); ask(0, {6'h03, s[1:0]});
      ask(0, {6'h04, s[1:0]}); ask(1, {6'h05, s[1:0]}); ask(1, {6'h06, s[1:0]});
    end
    serve(8'h00); serve(8'h00);
    // flush with single dirty ways, then nothing to write back for clean lines
    ask(1, 8'h14); ask(1, 8'h19); serve(8'h3F);
    ask(0, 8'hF0); ask(0, 8'hF1); ask(0, 8'hE0); ask(0, 8'hE1);
    // pinned lines stay: way 1 alone is replaced
    for (int s = 0; s < 4; s++) begin
      serve({6'h10, s[1:0]});
      for (int t = 8; t < 13; t++) ask(t[0], {t[5:0], s[1:0]});
    end
    serve(8'h80);
    for (int s = 0; s < 4; s++) for (int t = 13; t < 17; t++) ask(t[1], {t[5:0], s[1:0]});
    // counters round
    for (int n = 0; n < 70; n++) ask(0, 8'h50);
    for (int n = 0; n < 70; n++) ask(0, {n[5:0], 2'd2});
    // reset with everything set
    rst_n = 0; repeat (2) @(negedge clk);
    rst_n = 1; repeat (6) @(negedge clk);
    ask(0, 8'h50); ask(0, 8'h50);
    $finish;
  end
endmodule
