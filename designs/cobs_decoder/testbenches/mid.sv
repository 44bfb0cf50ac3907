`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, rx_strobe = 0, tx_strobe, frame_end, cut, oversize, silence, listen_all;
  logic [7:0] rx = 0, station = 8'h07, tx;
  logic [8:0] length;
  logic [5:0] frames, errors;
  cobs_decoder dut (.*);
  always #1 clk++;

  task automatic line(input logic [7:0] bytes []);
    foreach (bytes[i]) begin
      rx = bytes[i]; rx_strobe = 1; #2;
    end
    rx_strobe = 0; #4;
  endtask

  initial begin
    #6 rst = 0;
    line('{8'h00, 8'h03, 8'h07, 8'h22, 8'h02, 8'h33, 8'h00});
    line('{8'h03, 8'h11, 8'h22, 8'h00});
    line('{8'h04, 8'h07, 8'h22, 8'h00});
    line('{8'h01, 8'h00});
    #10 $display("%0d frames", frames);
    $finish;
  end
endmodule
