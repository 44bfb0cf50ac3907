`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, obstacle = 0, overload = 0, fire = 0;
  logic [4:0] cabin_call = 0, hall_up = 0, hall_down = 0, lamps;
  logic [2:0] floor;
  logic [7:0] trips;
  logic motor_up, motor_down, door_open, buzzer, heading_up;
  elevator dut (.*);
  always #5 clk = ~clk;

  task automatic call(input logic [4:0] c, u, d);
    cabin_call <= c; hall_up <= u; hall_down <= d; @(posedge clk);
    cabin_call <= 0; hall_up <= 0; hall_down <= 0; @(posedge clk);
  endtask
  task automatic idle(input int n);
    repeat (n) @(posedge clk);
  endtask
  task automatic press(input int button);
    call(5'd1 << button, 0, 0);
  endtask
  task automatic release_alarm();
    fire <= 0; press(3); press(1); press(4);
  endtask
  task automatic opened();
    for (int n = 0; n < 80 && !door_open; n++) @(posedge clk);
  endtask

  initial begin
    idle(2); rst_n <= 1; idle(2);
    // to the top with everything on the way, up calls first
    call(5'b10101, 5'b01010, 5'b01110);
    idle(220);
    call(5'b00000, 5'b11111, 5'b11111);
    idle(330);
    // one hall call against the direction of travel, then an empty trip
    call(0, 0, 5'b01000); idle(60);
    call(0, 5'b00010, 0); idle(60);
    call(0, 5'b00000, 5'b10000); idle(60);
    call(0, 5'b00001, 0); idle(70);
    // a call below and above while parked in the middle, both headings
    call(5'b00100, 0, 0); idle(60);
    call(5'b01010, 0, 0); idle(120);
    call(5'b00100, 0, 0); idle(50);
    call(5'b01010, 0, 0); idle(120);
    call(5'b10000, 0, 5'b00100); idle(120);
    call(5'b10000, 0, 0); idle(70);
    call(5'b00100, 0, 0); idle(50);
    call(5'b01010, 0, 0); idle(120);
    call(5'b00010, 0, 0); idle(50);
    // call at this floor, obstacle, overload, obstacle in the closing door
    call(5'b00010, 5'b00010, 5'b00010); opened();
    overload <= 1; idle(4); overload <= 0; idle(2);
    obstacle <= 1; idle(20); obstacle <= 0; idle(13);
    obstacle <= 1; idle(2); obstacle <= 0; idle(40);
    // fire: climbing, sinking, door open, door closing, parked up and down
    call(5'b10000, 0, 0); idle(12);
    fire <= 1; call(5'b11111, 5'b11111, 5'b11111); idle(60); release_alarm(); idle(20);
    call(5'b10000, 0, 0); idle(60);
    fire <= 1; idle(2); fire <= 0; idle(30); release_alarm(); idle(10);
    call(5'b10000, 0, 0); idle(60); call(5'b00001, 0, 0); idle(10); fire <= 1; idle(50);
    // the code: with the key, wrong order, two buttons at once, interrupted
    press(3); press(1); press(4);
    fire <= 0; idle(2); press(3); press(1); press(3); press(4); press(3); press(3); press(1);
    press(4); press(4); call(5'b01010, 0, 0); press(1); press(4);
    press(3); press(1); fire <= 1; idle(2); fire <= 0; press(4); press(2);
    press(3); idle(5); obstacle <= 1; press(1); press(4); idle(3); obstacle <= 0; idle(30);
    call(5'b01000, 0, 0); opened(); overload <= 1; fire <= 1; idle(3);
    overload <= 0; idle(2); obstacle <= 1; idle(2); obstacle <= 0; idle(60); release_alarm();
    idle(20);
    fire <= 1; idle(6); release_alarm(); idle(20);
    call(5'b00001, 0, 0); idle(5); fire <= 1; idle(40); release_alarm(); idle(20);
    // many trips: floor 0 opens again and again
    for (int n = 0; n < 250; n++) begin
      call(5'b00001 << (n % 2), 0, 0); idle(36);
    end
    rst_n <= 0; idle(2);
    $finish;
  end
endmodule
