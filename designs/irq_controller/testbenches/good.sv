`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, wr = 0, ack = 0, eoi = 0;
  logic [7:0] line = 0;
  logic [2:0] addr = 0, vector;
  logic [15:0] wdata = 0, rdata;
  logic [3:0] in_service;
  logic irq, spurious;
  irq_controller dut (.*);
  always #5 clk = ~clk;

  task automatic set(input logic [2:0] a, input logic [15:0] v);
    wr <= 1; addr <= a; wdata <= v; @(posedge clk);
    wr <= 0; @(posedge clk);
  endtask
  task automatic look();
    for (int a = 0; a < 8; a++) begin addr <= a[2:0]; @(posedge clk); end
  endtask
  task automatic take();
    for (int n = 0; n < 8 && !irq; n++) @(posedge clk);
    ack <= 1; @(posedge clk) ack <= 0;
    @(posedge clk);
  endtask
  task automatic done();
    eoi <= 1; @(posedge clk) eoi <= 0;
    @(posedge clk);
  endtask
  task automatic pulse(input logic [7:0] which);
    line <= which; @(posedge clk) line <= 0; @(posedge clk);
  endtask

  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    // locked: nothing of the set-up changes
    set(6, 16'h1D0D); set(0, 16'hFFFF); set(1, 16'hFFFF); set(2, 16'hFFFF);
    take(); done(); look();
    // all bits of the set-up
    set(6, 16'h1D0C);
    set(7, 16'hFFFF);
    set(0, 16'hFFFF); set(1, 16'hFFFF); set(2, 16'hFFFF); set(4, 16'h0003); look();
    set(0, 16'h0000); set(1, 16'h0000); set(2, 16'h0000); set(4, 16'h0000); look();
    // level lines, every line alone, and withdrawn offers
    set(0, 16'h00FF); set(2, 16'hE4E4);
    for (int i = 0; i < 8; i++) begin
      line <= 8'd1 << i; repeat (3) @(posedge clk);
      addr <= 5;
      take(); line <= 0; done();
      line <= 8'd1 << i; repeat (3) @(posedge clk);
      line <= 0; repeat (4) @(posedge clk);
    end
    line <= 8'h01; repeat (4) @(posedge clk);
    line <= 0; @(posedge clk); line <= 8'h01; repeat (4) @(posedge clk);
    line <= 0; @(posedge clk); ack <= 1; @(posedge clk); ack <= 0; repeat (3) @(posedge clk);
    // nesting: 0, 1, 2, 3, then back
    line <= 8'h01; repeat (3) @(posedge clk); take();
    line <= 8'h03; repeat (3) @(posedge clk); take();
    line <= 8'h07; repeat (3) @(posedge clk); take();
    line <= 8'hFF; repeat (3) @(posedge clk); take();
    set(0, 16'h0000); repeat (3) @(posedge clk);
    repeat (2) done();
    line <= 8'hFF; take(); take();
    line <= 0; repeat (6) done();
    // the same priority: lowest number first, and no nesting
    set(2, 16'h5555); line <= 8'hC0; repeat (3) @(posedge clk); take();
    repeat (5) @(posedge clk); done(); take(); line <= 0; done(); done();
    // threshold
    set(2, 16'hE4E4); set(4, 16'h0002);
    line <= 8'h33; repeat (6) @(posedge clk); look();
    line <= 8'h44; take(); line <= 0; done();
    set(4, 16'h0000);
    // edges: taken, cleared, triggered, and an edge that wins over clearing and taking
    set(1, 16'h00FF);
    pulse(8'hFF); repeat (2) @(posedge clk); look();
    for (int i = 0; i < 8; i++) begin take(); done(); end
    pulse(8'hA5); set(3, 16'h00FF); repeat (5) @(posedge clk); look();
    set(5, 16'h005A); set(3, 16'h0008); take(); done(); take(); done(); take(); done();
    set(5, 16'h00FF); set(3, 16'h00FF);
    wr <= 1; addr <= 3; wdata <= 16'h00FF; line <= 8'hFF; @(posedge clk);
    wr <= 0; line <= 0; repeat (2) @(posedge clk);
    ack <= 1; line <= 8'h08; @(posedge clk); ack <= 0; line <= 0; repeat (2) @(posedge clk);
    eoi <= 1; ack <= 1; repeat (4) @(posedge clk); eoi <= 0; ack <= 0;
    set(3, 16'h00FF); repeat (4) done();
    set(6, 16'h0000); set(0, 16'h0001); look();
    pulse(8'hFF); take(); rst <= 1; repeat (2) @(posedge clk);
    $finish;
  end
endmodule
