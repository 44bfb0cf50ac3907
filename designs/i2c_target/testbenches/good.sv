`timescale 1ns/1ps
module tb;
  bit clk, rst_n, scl = 1, sda = 1;
  wire sda_low, selected, reading, written, guarded, refused;
  wire [2:0] pointer;
  wire [7:0] value;
  wire [4:0] starts;

  i2c_target dut (.*);

  always #1 clk = ~clk;

  task automatic clock_bit(bit out);
    scl = 0;
    #4 sda = out;
    #4 scl = 1;
    #8;
  endtask

  task automatic send(bit [7:0] octet);
    for (int i = 7; i >= 0; i--) clock_bit(octet[i]);
    clock_bit(1);
  endtask

  // Clock a byte out of the target and acknowledge it, or not.
  task automatic receive(bit acknowledge);
    repeat (8) clock_bit(1);
    clock_bit(!acknowledge);
  endtask

  task automatic begin_transfer();
    scl = 0;
    #4 sda = 1;
    #4 scl = 1;
    #8 sda = 0;
    #8;
  endtask

  task automatic end_transfer();
    scl = 0;
    #4 sda = 0;
    #4 scl = 1;
    #8 sda = 1;
    #8;
  endtask

  task automatic put(bit [7:0] where, bit [7:0] what);
    begin_transfer();
    send(8'hA4);
    send(where);
    send(what);
    end_transfer();
  endtask

  task automatic fetch(bit [7:0] from, int count);
    begin_transfer();
    send(8'hA4);
    send(from);
    begin_transfer();
    send(8'hA5);
    for (int i = 1; i <= count; i++) receive(i != count);
    end_transfer();
  endtask

  initial begin
    #10 rst_n = 1;
    #20;
    // Register 7 is guarded, then open.
    put(7, 8'h11);
    put(6, 8'hB7);
    put(7, 8'h42);
    // All registers in one burst, with patterns and their complements, and read back.
    for (int round = 0; round < 4; round++) begin
      begin_transfer();
      send(8'hA4);
      send(0);
      for (int r = 0; r < 8; r++)
        send(r == 6 && round != 1 ? 8'hB7 : (round[0] ? 8'hFF : 8'h00));
      send(8'h3C);
      end_transfer();
      fetch(0, 9);
      put(6, 8'hB7);
    end
    fetch(3, 1);
    put(7, 8'hFF);
    put(7, 8'h00);
    put(6, 8'hB6);
    put(7, 8'hFF);
    // Wrong pointer, other addresses, general calls.
    put(8'h08, 8'h99);
    put(8'h87, 8'h99);
    begin_transfer();
    send(8'hA6);
    send(8'h01);
    end_transfer();
    put(5, 8'h5A);
    begin_transfer();
    send(8'h00);
    send(8'h07);
    end_transfer();
    begin_transfer();
    send(8'h00);
    send(8'h06);
    end_transfer();
    begin_transfer();
    send(8'h01);
    end_transfer();
    fetch(4, 3);
    // Stops and repeated starts in the middle of things.
    begin_transfer();
    send(8'hA4);
    end_transfer();
    begin_transfer();
    send(8'hA4);
    repeat (3) clock_bit(1);
    end_transfer();
    begin_transfer();
    send(8'hA5);
    receive(1);
    receive(0);
    begin_transfer();
    repeat (4) clock_bit(0);
    begin_transfer();
    end_transfer();
    repeat (20) begin
      begin_transfer();
      end_transfer();
    end
    rst_n = 0;
    #10 $finish;
  end
endmodule
