`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, coin_in = 0, key_in = 0, door_open = 0, drop = 0;
  logic [1:0] coin = 0, pay_coin;
  logic [2:0] key = 0, slot;
  logic coin_return, motor, pay, short_paid, sold_out;
  logic [7:0] credit;
  vend_fsm dut (.*);
  always #5 clk = ~clk;

  task automatic insert(input logic [1:0] c, input int times = 1);
    repeat (times) begin
      coin_in <= 1; coin <= c; @(posedge clk) coin_in <= 0; @(posedge clk);
    end
  endtask
  task automatic press(input logic [2:0] k);
    key_in <= 1; key <= k; @(posedge clk) key_in <= 0; @(posedge clk);
  endtask
  task automatic settle();
    repeat (45) @(posedge clk);
  endtask
  task automatic fall(input int after);
    repeat (after) @(posedge clk);
    drop <= 1; @(posedge clk) drop <= 0;
    settle();
  endtask
  task automatic service();
    door_open <= 1; press(7); press(4); press(4); press(1);
  endtask
  task automatic close();
    door_open <= 0; repeat (2) @(posedge clk);
  endtask

  initial begin
    repeat (2) @(posedge clk);
    rst_n <= 1; @(posedge clk);
    // keys without credit, half a service code, door open
    press(2); press(6); press(7);
    door_open <= 1; insert(1); press(7); press(4); press(1); press(4); press(7); close();
    // sell with change, then the slot is empty
    insert(2); press(0); insert(2); press(0); insert(1); fall(3);
    insert(3); press(0); press(7); press(1); fall(14);
    // cannot give change
    insert(3); press(2); fall(0);
    insert(3); press(6); settle();
    insert(0, 3); press(6); settle();
    // nothing falls: full refund, slot counts as empty
    insert(2, 2); press(3); insert(0); repeat (12) @(posedge clk); insert(1); settle();
    insert(2, 3); press(3); press(6); insert(1); settle();
    // door and service code while credit is there
    insert(1); service(); insert(0); press(2); close(); press(6); settle();
    // too much credit
    insert(3, 5); press(6); settle();
    insert(2, 10); insert(0); press(6); settle();
    // fill the tubes to the brim, then drain them
    insert(0, 20); press(6); settle();
    insert(1, 18); press(6); settle();
    repeat (2) begin insert(2, 10); press(6); settle(); end
    for (int n = 0; n < 5; n++) begin
      insert(0, 3); insert(3); press(6); settle();
      insert(1, 3); insert(3); press(6); settle();
      insert(2, 3); insert(3); press(6); settle();
    end
    rst_n <= 0; @(posedge clk) rst_n <= 1;
    // service: refill everything, all prices
    service();
    press(6);
    for (int c = 0; c < 4; c++) begin
      for (int k = 0; k < 6; k++) begin press(k[2:0]); insert(c[1:0]); end
    end
    press(7); close();
    // buy everything there is at 50, then at 5
    for (int k = 0; k < 6; k++) begin
      repeat (4) begin insert(3); press(k[2:0]); fall(2); end
      if (credit != 0) begin press(6); settle(); end
    end
    service();
    for (int k = 0; k < 6; k++) begin press(k[2:0]); insert(0); end
    close();
    for (int k = 0; k < 6; k++) begin insert(1); press(k[2:0]); fall(1); end
    // more coins than the tubes hold: use 95 cents at a time with purchases at 5
    service();
    for (int k = 0; k < 6; k++) begin press(k[2:0]); insert(3); end
    close();
    for (int k = 0; k < 6; k++) begin insert(0, 10); press(k[2:0]); fall(1); end
    service(); for (int k = 0; k < 6; k++) press(k[2:0]); close();
    for (int k = 0; k < 6; k++) begin insert(1, 5); press(k[2:0]); fall(1); end
    service(); press(0); insert(2); insert(1); press(1); insert(2); press(2); insert(2);
    press(3); insert(2); press(4); insert(2); press(5); insert(2); close();
    insert(2); press(0); press(1); fall(2);
    for (int n = 0; n < 18; n++) begin insert(2); press(n[2:0] % 6); fall(1); end
    service(); for (int k = 0; k < 6; k++) press(k[2:0]); close();
    insert(2, 10); press(6); settle();
    rst_n <= 0; repeat (2) @(posedge clk);
    $finish;
  end
endmodule
