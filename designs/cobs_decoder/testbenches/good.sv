`timescale 1ns/1ps
module tb;
  logic clk = 0, rst = 1, rx_strobe = 0, tx_strobe, frame_end, cut, oversize, silence, listen_all;
  logic [7:0] rx = 0, station = 8'h07, tx;
  logic [8:0] length;
  logic [5:0] frames, errors;
  cobs_decoder dut (.*);
  always #1 clk++;

  task automatic say(input logic [7:0] one);
    rx = one; rx_strobe = 1; #2 rx_strobe = 0;
  endtask
  task automatic line(input logic [7:0] bytes []);
    foreach (bytes[i]) say(bytes[i]);
    #4;
  endtask
  // one block of nonzero bytes, the first one to us
  task automatic block(input logic [7:0] code, input logic [7:0] first);
    say(code);
    if (code > 1) say(first);
    for (int n = 2; n < code; n++) say(8'(n));
  endtask

  initial begin
    #6 rst = 0;
    // deaf until the first zero
    line('{8'h03, 8'h07, 8'h22, 8'h00, 8'h00});
    line('{8'h03, 8'h07, 8'h22, 8'h02, 8'h33, 8'h00});
    line('{8'h02, 8'h07, 8'h01, 8'h01, 8'h05, 8'hFF, 8'hAA, 8'h55, 8'h01, 8'h00});
    line('{8'h01, 8'h00});
    // for others: by a copied byte, by a stuffed zero; then for station zero
    line('{8'h03, 8'h08, 8'h22, 8'h02, 8'h33, 8'h00});
    line('{8'h01, 8'h02, 8'h33, 8'h00});
    station = 8'h00;
    line('{8'h01, 8'h02, 8'h33, 8'h01, 8'h00});
    line('{8'h01, 8'h01, 8'h00});
    station = 8'hFF;
    line('{8'h02, 8'hFF, 8'h00});
    station = 8'h07;
    // cut in the block, cut at once
    line('{8'h04, 8'h07, 8'h22, 8'h00, 8'h02, 8'h07, 8'h00, 8'h02, 8'h00});
    // whole block: no zero after it; then a frame of 300 and of more bytes
    block(8'hFF, 8'h07); line('{8'h02, 8'h66, 8'h00});
    block(8'hFF, 8'h07); line('{8'h00});
    block(8'hFF, 8'h07); block(8'd47, 8'h99); line('{8'h00});
    block(8'hFF, 8'h07); block(8'd60, 8'h99); line('{8'h02, 8'h07, 8'h00});
    block(8'hFF, 8'h07); block(8'd47, 8'h99); line('{8'h02, 8'h33, 8'h00});
    block(8'hFF, 8'h07); block(8'hFF, 8'h99); line('{8'h01, 8'h00});
    block(8'd200, 8'h07); block(8'd100, 8'h99); line('{8'h01, 8'h01, 8'h00});
    block(8'd200, 8'h07); block(8'd101, 8'h99); line('{8'h00});
    // silence in a block, between blocks, before a frame; just not silent
    line('{8'h04, 8'h07}); #140;
    line('{8'h22, 8'h33, 8'h00});
    line('{8'h02, 8'h07}); #140; line('{8'h02, 8'h07, 8'h00});
    line('{8'h03, 8'h07}); #122; line('{8'h22, 8'h00}); #200;
    line('{8'h03, 8'h08}); #200; line('{8'h22, 8'h00});
    // listening to all: nearly, then on, then off
    line('{8'h04, 8'hFF, 8'hC0, 8'hB4, 8'h00});
    line('{8'h05, 8'hFF, 8'hC0, 8'hB5, 8'h01, 8'h00});
    line('{8'h05, 8'hFF, 8'hFF, 8'hC0, 8'hB5, 8'h00});
    line('{8'h04, 8'h07, 8'hC0, 8'hB5, 8'h00});
    line('{8'h03, 8'hFF, 8'hC0, 8'h00});
    line('{8'h04, 8'hFF, 8'hC0, 8'hB5, 8'h00});
    line('{8'h03, 8'h12, 8'h34, 8'h00});
    line('{8'h01, 8'h04, 8'hC0, 8'hB5, 8'h11, 8'h00});
    line('{8'h04, 8'hFF, 8'hC0, 8'hB5, 8'h00});
    line('{8'h03, 8'h12, 8'h34, 8'h00});
    // counters round
    repeat (70) line('{8'h02, 8'h07, 8'h00, 8'h03, 8'h07, 8'h00});
    rst = 1;
    #6 $finish;
  end
endmodule
