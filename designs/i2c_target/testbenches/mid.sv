`timescale 1ns/1ps
// One byte written to register 2, and a transfer to somebody else.
module tb;
  bit clk, rst_n, scl = 1, sda = 1;
  wire sda_low, selected, reading, written, guarded, refused;
  wire [2:0] pointer;
  wire [7:0] value;
  wire [4:0] starts;

  i2c_target dut (.*);

  always #1 clk = ~clk;

  task automatic send(bit [7:0] octet);
    for (int i = 8; i >= 0; i--) begin
      scl = 0;
      #10 sda = i == 0 ? 1'b1 : octet[i-1];
      #10 scl = 1;
      #20;
    end
  endtask

  task automatic begin_transfer();
    sda = 1;
    #20 scl = 1;
    #20 sda = 0;
    #20;
  endtask

  task automatic end_transfer();
    scl = 0;
    #20 sda = 0;
    #20 scl = 1;
    #20 sda = 1;
    #20;
  endtask

  initial begin
    #10 rst_n = 1;
    #20 begin_transfer();
    send(8'hA4);
    send(8'h02);
    send(8'h5C);
    end_transfer();
    begin_transfer();
    send(8'h30);
    end_transfer();
    $finish;
  end
endmodule
