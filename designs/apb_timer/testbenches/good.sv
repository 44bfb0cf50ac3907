`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, psel = 0, penable = 0, pwrite = 0;
  logic [4:0] paddr = 0;
  logic [15:0] pwdata = 0, prdata;
  logic pslverr, irq, level_out;
  apb_timer dut (.*);
  always #5 clk = ~clk;

  task automatic transfer(input logic w, input logic [4:0] address, input logic [15:0] value);
    paddr <= address; pwdata <= value; pwrite <= w; psel <= 1;
    @(posedge clk) penable <= 1;
    @(posedge clk) penable <= 0; psel <= 0; pwrite <= 0;
    @(posedge clk);
  endtask
  task automatic write(input logic [4:0] address, input logic [15:0] value);
    transfer(1, address, value);
  endtask
  task automatic read_all();
    for (int a = 0; a < 32; a += 4) transfer(0, a[4:0], 0);
  endtask
  task automatic unlock();
    write(5'h00, 16'hA55A);
    write(5'h00, 16'h3C7E);
  endtask

  initial begin
    repeat (3) @(posedge clk);
    rst_n <= 1;
    // refused accesses: guarded while locked, read-only, unmapped, unaligned
    for (int a = 4; a < 32; a += 4) write(a[4:0], 16'hFFFF);
    transfer(0, 5'h05, 0);
    transfer(0, 5'h06, 0);
    penable <= 1; @(posedge clk) penable <= 0;
    psel <= 1; @(posedge clk) psel <= 0;
    // wrong second word, then the right key, then lock again
    write(5'h00, 16'hA55A);
    write(5'h08, 16'h0003);
    write(5'h00, 16'h1234);
    write(5'h00, 16'h0000);
    write(5'h00, 16'hFFFF);
    read_all();
    unlock();
    write(5'h00, 16'h0000);
    unlock();
    // every bit of the settings
    write(5'h0C, 16'hFFFF); write(5'h10, 16'hFFFF); write(5'h08, 16'hFFFF);
    write(5'h04, 16'h0001);
    repeat (40) @(posedge clk);
    read_all();
    write(5'h04, 16'h0000);
    write(5'h0C, 16'h0006); write(5'h10, 16'h0003); write(5'h08, 16'h0002);
    // one shot with interrupt
    write(5'h04, 16'h0005);
    repeat (40) @(posedge clk);
    read_all();
    write(5'h18, 16'h0001);
    write(5'h04, 16'h0000);
    // periodic until it overruns
    write(5'h04, 16'h0007);
    repeat (60) @(posedge clk);
    read_all();
    write(5'h18, 16'h0002);
    write(5'h18, 16'h0001);
    write(5'h18, 16'h0000);
    write(5'h04, 16'h0000);
    // reload zero and no prescaler
    write(5'h08, 16'h0000); write(5'h0C, 16'h0000); write(5'h10, 16'h0000);
    write(5'h04, 16'h0003);
    repeat (6) @(posedge clk);
    write(5'h04, 16'h0000);
    write(5'h0C, 16'h8000); write(5'h04, 16'h0003);
    repeat (6) @(posedge clk);
    write(5'h04, 16'h0000);
    // jam the lock
    rst_n <= 0; @(posedge clk) rst_n <= 1;
    repeat (5) write(5'h00, 16'h5AA5);
    unlock();
    read_all();
    rst_n <= 0;
    repeat (3) @(posedge clk);
    $finish;
  end
endmodule
