`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, cfg_write = 0, mem_grant = 1, mem_error = 0;
  logic [2:0] cfg_addr = 0, status;
  logic [11:0] cfg_data = 0, mem_addr, moved;
  logic [7:0] mem_rdata = 8'h55, mem_wdata;
  logic mem_req, mem_write, running, irq;
  dma_engine dut (.*);
  always #5 clk = ~clk;

  initial begin
    @(posedge clk) rst_n <= 1;
    cfg_write <= 1; cfg_addr <= 0; cfg_data <= 12'h010; @(posedge clk);
    cfg_addr <= 1; cfg_data <= 12'h020; @(posedge clk);
    cfg_addr <= 2; cfg_data <= 12'h004; @(posedge clk);
    cfg_addr <= 6; cfg_data <= 12'h001; @(posedge clk);
    cfg_write <= 0;
    repeat (20) @(posedge clk);
    $finish;
  end
endmodule
