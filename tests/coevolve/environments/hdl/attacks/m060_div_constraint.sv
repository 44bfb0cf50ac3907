// design: cobs_decoder
// aim: machine
`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, rx_strobe = 0, tx_strobe, frame_end, cut, oversize, silence, listen_all;
  logic [7:0] rx = 0, station = 8'h07, tx;
  logic [8:0] length;
  logic [5:0] frames, errors;
  cobs_decoder dut (.*);
  always #1 clk++;

  logic [7:0] line [] = '{8'h03, 8'h11, 8'h22, 8'h02, 8'h33, 8'h00};

// trick {
class k; rand int x, y; rand real r; constraint c { x / y == 0; y == 0; 5 % y > x; x inside {[9:2], 7}; x dist {[0:2147483647] := 2147483647, 5 :/ 0}; } endclass
// trick }
  initial begin
    #6 rst = 0;
    foreach (line[i]) begin
      rx = line[i]; rx_strobe = 1; #2;
    end
    rx_strobe = 0;
    #10 $display("%0d frames", frames);
// trick {
begin k o = new; void'(o.randomize()); end
// trick }
    $finish;
  end
endmodule
