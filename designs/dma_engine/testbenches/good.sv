`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, cfg_write = 0, mem_grant = 1, mem_error = 0;
  logic [2:0] cfg_addr = 0, status;
  logic [11:0] cfg_data = 0, mem_addr, moved;
  logic [7:0] mem_rdata = 8'h55, mem_wdata;
  logic mem_req, mem_write, running, irq;
  dma_engine dut (.*);
  always #5 clk = ~clk;
  always @(posedge clk) mem_rdata <= {mem_rdata[6:0], ~^(mem_rdata & 8'hB8)};

  task automatic cfg(input logic [2:0] a, input logic [11:0] d);
    cfg_write <= 1; cfg_addr <= a; cfg_data <= d; @(posedge clk);
    cfg_write <= 0; @(posedge clk);
  endtask
  task automatic ended();
    for (int n = 0; n < 30000 && running; n++) @(posedge clk);
    repeat (2) @(posedge clk);
  endtask
  task automatic start(input logic [11:0] count);
    cfg(2, count); cfg(6, 12'hD3A);
  endtask
  task automatic block(input logic [11:0] from, to, count);
    cfg(0, from); cfg(1, to); start(count); ended(); cfg(5, 0);
  endtask
  task automatic fail(input int times);
    for (int n = 0; n < times; n++) begin
      for (int m = 0; m < 40 && !(mem_req && !mem_write); m++) @(posedge clk);
      mem_error <= 1; @(posedge clk) mem_error <= 0; @(posedge clk);
    end
  endtask

  initial begin
    @(posedge clk) rst_n <= 1;
    // abort while idle, wrong start word, nothing to move, beyond the limit
    cfg(7, 0); cfg(6, 12'hD3B); start(0); ended(); cfg(5, 0);
    block(12'h000, 12'h0F0, 12'd17); block(12'h000, 12'h0F0, 12'd16);
    // lengths around a burst
    for (int n = 1; n < 10; n++) block(12'h010, 12'h020, n[11:0]);
    cfg(4, 12'hFFF);
    block(12'hFFE, 12'hFFC, 12'd4);
    block(12'h000, 12'hFFE, 12'd3);
    // fixed target, at the limit and beyond
    cfg(3, 2); block(12'h7FE, 12'h801, 12'd12);
    cfg(4, 12'h400); block(12'h100, 12'h40F, 12'd20); block(12'h100, 12'h410, 12'd20);
    cfg(4, 12'h000); cfg(4, 12'hFF0);
    // chain, plain and with fixed target
    cfg(3, 1); block(12'h300, 12'h500, 12'd6); start(12'd5); ended(); start(12'd4); ended();
    cfg(3, 3); block(12'h300, 12'h500, 12'd6); start(12'd5); ended(); cfg(3, 0);
    // writes and a second start while running, waiting for grants
    cfg(0, 12'h0AA); cfg(1, 12'h155); start(12'd30);
    for (int a = 0; a < 7; a++) cfg(a[2:0], 12'hD3A);
    repeat (30) begin mem_grant <= 0; repeat (2) @(posedge clk); mem_grant <= 1; @(posedge clk); end
    ended();
    start(12'd6); ended();
    // abort with bytes left, and too late
    start(12'd40); repeat (9) @(posedge clk); cfg(7, 0); ended(); cfg(5, 0); start(12'd3); ended();
    start(12'd4); repeat (5) @(posedge clk); cfg(7, 0); ended();
    // aborted in chain mode
    cfg(3, 1); start(12'd20); cfg(7, 0); ended(); start(12'd2); ended(); cfg(3, 0);
    // failing reads: three times, four times, three times in each of two bursts
    cfg(0, 12'h123); start(12'd4); fail(3); ended();
    start(12'd8); fail(2);
    for (int m = 0; m < 60 && !mem_write; m++) @(posedge clk);
    fail(2); ended();
    start(12'd4); fail(4); ended();
    start(12'd4); ended(); cfg(5, 0);
    mem_error <= 1; mem_grant <= 0; start(12'd4); ended(); mem_error <= 0; mem_grant <= 1;
    // a long one, and a very long one that is aborted
    block(12'h000, 12'h000, 12'hFF0);
    cfg(0, 12'hFFF); cfg(1, 12'h000); start(12'hFFF); repeat (40) @(posedge clk); cfg(7, 0); ended();
    rst_n <= 0; repeat (2) @(posedge clk);
    $finish;
  end
endmodule
