`timescale 1ns/1ps
module tb;
  bit clk = 0;
  bit rst = 1;
  bit [2:0] command = 0;
  bit [15:0] operand = 0;
  wire ready, done, equal, misuse, overflow;
  wire [15:0] result;
  wire [7:0] amount;
  crc_stream dut (.clk, .rst, .command, .operand, .ready, .done, .equal, .misuse, .result, .amount,
                  .overflow);
  initial forever #3 clk = ~clk;

  task automatic give(input bit [2:0] code, input bit [15:0] value);
    @(negedge clk) command = code; operand = value;
    @(negedge clk) command = 0;
    wait (ready);
  endtask
  task automatic setup(input bit [15:0] poly, init, style);
    give(1, poly); give(2, init); give(3, style);
  endtask
  task automatic digits(input bit [15:0] expected);
    give(4, 0);
    for (int n = 1; n < 10; n++) give(5, 16'(48 + n));
    give(6, 0);
    wait (done);
    if (result != expected) $display("expected %h, got %h", expected, result);
    give(7, expected); give(7, ~expected); give(7, result);
  endtask
  // a command that comes while the engine is busy
  task automatic interrupt(input bit [2:0] first, second);
    @(negedge clk) command = first;
    @(negedge clk) command = second;
    @(negedge clk) command = 0;
    wait (ready);
    repeat (9) @(negedge clk);
  endtask

  initial begin
    #20 rst = 0;
    // out of order, incomplete, even polynomial
    for (int code = 4; code < 8; code++) give(3'(code), 16'h0001);
    give(2, 16'h0000); give(4, 0); give(5, 0);
    give(1, 16'h1020); give(4, 0); give(6, 0);
    give(1, 16'h1021); give(1, 16'hFFFE); give(4, 0); give(7, 0);
    setup(16'h1021, 16'h0000, 16'h0000);
    digits(16'h31C3);
    for (int code = 0; code < 8; code += 5) give(3'(code), 16'h0000);
    give(6, 0);
    setup(16'h8005, 16'h0000, 16'h0003); digits(16'hBB3D);
    give(2, 16'hFFFF);
    setup(16'h1021, 16'hFFFF, 16'h0007); digits(16'h906E);
    give(3, 16'h0000);
    setup(16'h1021, 16'hFFFF, 16'h0004); digits(16'hD64E);
    setup(16'h8BB7, 16'h0000, 16'h0001); digits(16'hDB0B);
    setup(16'hFFFF, 16'h0000, 16'h0002); digits(16'h5428);
    setup(16'h0001, 16'h0000, 16'h0003); digits(16'h3908);
    // wrong commands inside a message, while shifting, while mirroring
    give(4, 0);
    for (int code = 1; code < 5; code++) give(3'(code), 16'h5555);
    give(7, 0);
    interrupt(5, 5);
    for (int code = 0; code < 8; code++) if (code != 4) give(3'(code), 16'hFFFF);
    give(4, 0); interrupt(5, 4); give(4, 0);
    give(5, 16'h00FF);
    interrupt(6, 6);
    digits(16'h3908);
    // an empty message, then more than 255 bytes
    give(4, 0); give(6, 0); give(5, 16'h0000); give(6, 0); wait (done);
    give(7, 16'h0000);
    give(3, 16'h0000);
    give(2, 16'hFFFF);
    give(4, 0);
    for (int n = 0; n < 256; n++) give(5, 16'(n));
    give(6, 0);
    give(4, 0);
    rst = 1;
    repeat (2) @(negedge clk);
    $finish;
  end
endmodule
