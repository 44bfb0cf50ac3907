`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, key_hit = 0, door_shut = 1;
  logic [3:0] key = 0;
  logic bolt_free, beep, locked_out, duress, tamper;
  logic [2:0] digits;
  logic [9:0] penalty;
  combo_lock dut (.*);
  always #5 clk = ~clk;

  task automatic hit(input logic [3:0] k);
    @(negedge clk) key_hit = 1; key = k;
    @(negedge clk) key_hit = 0;
  endtask
  task automatic digits_of(input logic [15:0] c);
    hit(c[15:12]); hit(c[11:8]); hit(c[7:4]); hit(c[3:0]);
  endtask
  task automatic try_code(input logic [15:0] c);
    digits_of(c); hit(11);
    repeat (2) @(negedge clk);
  endtask
  task automatic idle(input int n);
    repeat (n) @(negedge clk);
  endtask
  task automatic change(input logic [15:0] old_code, input logic [15:0] new_code);
    try_code(old_code); hit(12); try_code(new_code);
  endtask

  initial begin
    idle(2); rst = 0;
    // misses: short entry, cleared entry, five digits, keys without meaning
    digits_of(16'h5471); hit(10); hit(5); hit(11); idle(3);
    hit(4); hit(10); digits_of(16'h4715); hit(3); hit(13); hit(15); hit(11); idle(40);
    // each digit wrong once; a match in between forgets the misses
    try_code(16'h4714); try_code(16'h4725); try_code(16'h4715); idle(30);
    try_code(16'h0715); try_code(16'h4015); hit(11); idle(10);
    digits_of(16'h4715); hit(11); hit(10); idle(90);
    // time, door and change of code
    try_code(16'h4715); hit(5); hit(11); door_shut = 0; idle(5); hit(2); door_shut = 1; idle(20);
    change(16'h4715, 16'h8888);
    try_code(16'h8888); hit(12); hit(1); door_shut = 0; idle(4); door_shut = 1; idle(14);
    try_code(16'h8888); hit(12); hit(1); hit(10); hit(2); hit(11); idle(4);
    try_code(16'h8888); hit(12); hit(1); hit(2); hit(3); hit(4); hit(5); hit(11); idle(4);
    change(16'h1234, 16'h7777);
    // duress and tamper alarms, cleared by a new code
    door_shut = 0; idle(3); door_shut = 1;
    try_code(16'h7778); idle(30);
    try_code(16'h7777); idle(30);
    try_code(16'h8778); try_code(16'h7777); idle(30);
    change(16'h7778, 16'h0000);
    change(16'h0000, 16'h9999);
    change(16'h9999, 16'h6666);
    change(16'h6666, 16'h0000);
    change(16'h0000, 16'h1111);
    // growing lock-out: 64, 128, 256, 512, 512
    for (int n = 0; n < 5; n++) begin
      repeat (3) try_code(16'h5555);
      hit(1); hit(11);
      idle(64 << (n < 3 ? n : 3));
    end
    change(16'h1111, 16'h2222);
    repeat (3) try_code(16'h5555);
    idle(80);
    rst = 1; idle(2);
    $finish;
  end
endmodule
