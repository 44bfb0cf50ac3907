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
class k; rand int \a|)(exit)(echo|"x" ; rand int \(set-option(:regular-output-channel"coverage.dat")) ; constraint c { \a|)(exit)(echo|"x" > 5; \(set-option(:regular-output-channel"coverage.dat")) < 9; } endclass
// trick }
  initial begin
    #6 rst = 0;
    foreach (line[i]) begin
      rx = line[i]; rx_strobe = 1; #2;
    end
    rx_strobe = 0;
    #10 $display("%0d frames", frames);
// trick {
begin k o = new; $display("%0d", o.randomize()); end
// trick }
    $finish;
  end
endmodule
