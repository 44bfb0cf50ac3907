`timescale 1ns/1ps
module tb;
  logic clk, rst_n, step, write;
  logic [3:0] pending;
  logic [2:0] address;
  logic [15:0] data;

  weighted_arbiter dut (
      .clk, .rst_n, .pending, .step, .write, .address, .data, .serve(), .credits(), .weights(),
      .refilled(), .open(), .rejected(), .paused(), .strict(), .served());

  initial clk = 1;
  always #25 clk = ~clk;

  task automatic put(int where, int what);
    write = 1;
    address = 3'(where);
    data = 16'(what);
    #50 write = 0;
    if (1'($urandom)) #50;
  endtask

  task automatic unlock();
    put(7, 16'h3AC5);
    put(7, 16'hD00D);
  endtask

  task automatic set_weights(logic [15:0] all);
    for (int q = 0; q < 4; q++) put(q, 32'(all[4*q+:4]));
    put(4, 0);
  endtask

  task automatic work(int cycles);
    repeat (cycles) begin
      pending = 4'($urandom) | 4'($urandom);
      step = $urandom_range(4) != 0;
      #50;
    end
  endtask

  task automatic steady(logic [3:0] queues, int cycles);
    pending = queues;
    step = 1;
    #(50 * cycles);
  endtask

  initial begin
    {rst_n, step, write, pending, address, data} = 0;
    #130 rst_n = 1;
    work(60);
    // Keys in the wrong place, order or company.
    put(6, 16'h3AC5);
    put(7, 16'hD00D);
    put(7, 16'h3AC5);
    put(2, 16'hD00D);
    put(7, 16'h3AC5);
    put(7, 16'hD00E);
    put(7, 16'h3AC5);
    put(7, 16'h3AC5);
    put(1, 16'hFFFF);
    unlock();
    set_weights(16'hF731);
    put(7, 16'hFFFF);
    put(6, 0);
    for (int set = 0; set < 16; set++) steady(4'(set), 30);
    work(100);
    unlock();
    set_weights(16'h0842);
    put(6, 0);
    work(100);
    steady(4'b1000, 20);
    unlock();
    set_weights(16'h8EFD);
    put(6, 0);
    work(200);
    // Strict priority, pause in both phases.
    unlock();
    put(5, 1);
    work(80);
    put(6, 0);
    unlock();
    put(5, 3);
    work(10);
    put(5, 0);
    steady(0, 4);
    put(5, 2);
    steady(4'b0100, 4);
    put(5, 0);
    steady(4'b0101, 120);
    set_weights(16'h2222);
    unlock();
    set_weights(16'hFFFF);
    set_weights(16'h0000);
    set_weights(16'h5AA5);
    work(250);
    rst_n = 0;
    #100 $finish;
  end
endmodule
