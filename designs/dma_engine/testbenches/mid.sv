`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, cfg_write = 0, mem_grant = 1, mem_error = 0;
  logic [2:0] cfg_addr = 0, status;
  logic [11:0] cfg_data = 0, mem_addr, moved;
  logic [7:0] mem_rdata = 8'h55, mem_wdata;
  logic mem_req, mem_write, running, irq;
  dma_engine dut (.*);
  always #5 clk = ~clk;
  always @(posedge clk) mem_rdata <= mem_addr[7:0] ^ 8'h3C;

  task automatic cfg(input logic [2:0] a, input logic [11:0] d);
    cfg_write <= 1; cfg_addr <= a; cfg_data <= d; @(posedge clk);
    cfg_write <= 0; @(posedge clk);
  endtask

  initial begin
    @(posedge clk) rst_n <= 1;
    cfg(0, 12'h010); cfg(1, 12'h020); cfg(2, 12'd9); cfg(6, 12'hD3A);
    repeat (50) @(posedge clk);
    cfg(5, 0);
    cfg(1, 12'h800); cfg(2, 12'd4); cfg(6, 12'hD3A);
    repeat (10) @(posedge clk);
    $finish;
  end
endmodule
