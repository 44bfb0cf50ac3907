`timescale 1ns/1ps
module tb;
  reg clk = 1'b1;
  reg rst_n = 1'b0;
  reg request = 1'b0;
  reg [1:0] operation = 0, address = 0;
  reg [15:0] write_data = 0;
  reg [21:0] flips = 0;
  wire [15:0] read_data;
  wire [4:0] position;
  wire [3:0] singles;
  wire busy, answer, single, multiple, armed, halted, scrubbed;
  integer i, k;
  hamming_ecc dut (.*);
  always begin #2 clk = 1'b0; #2 clk = 1'b1; end

  task run_operation(input [1:0] what, input [1:0] at, input [15:0] value);
    begin
      request = 1'b1; operation = what; address = at; write_data = value;
      #4 request = 1'b0;
      #20;
    end
  endtask
  task spoil(input [1:0] at, input [15:0] value, input [21:0] mask);
    begin
      flips = mask;
      run_operation(2, 2, 16'hB1E5);
      run_operation(1, at, value);
    end
  endtask
  task scrub;
    begin
      run_operation(3, 0, 0);
      #60;
    end
  endtask

  initial begin
    #9 rst_n = 1'b1;
    // clean words, all bits both ways, in all four places
    for (i = 0; i < 4; i = i + 1) begin
      run_operation(1, i, 16'hFFFF); run_operation(0, i, 0);
      run_operation(1, i, 16'h0000); run_operation(0, i, 0);
      for (k = 0; k < 16; k = k + 1) begin
        run_operation(1, i, 16'h0001 << k); run_operation(0, i, 0);
      end
    end
    // not armed: wrong place, wrong word, disarmed again
    flips = 22'h3FFFFF;
    run_operation(2, 1, 16'hB1E5); run_operation(1, 0, 16'h1111); run_operation(0, 0, 0);
    run_operation(2, 2, 16'hB1E4); run_operation(1, 0, 16'h2222); run_operation(0, 0, 0);
    run_operation(2, 2, 16'hB1E5); run_operation(2, 0, 16'h0000);
    run_operation(1, 0, 16'h3333); run_operation(0, 0, 0);
    // every single bit, read twice
    for (i = 0; i < 22; i = i + 1) begin
      spoil(i, 16'hA5C3, 22'd1 << i);
      run_operation(0, i, 0); run_operation(0, i, 0);
    end
    // two and three wrong bits
    spoil(0, 16'h0F0F, 22'h000003); run_operation(0, 0, 0);
    spoil(1, 16'hFFFF, 22'h200001); run_operation(0, 1, 0); run_operation(0, 2, 0);
    spoil(2, 16'h0000, 22'h108040); run_operation(0, 2, 0);
    spoil(2, 16'h7777, 22'h008082); run_operation(0, 2, 0); run_operation(1, 2, 0);
    // scrub: clean, all wrong by one, last one beyond repair
    run_operation(1, 0, 16'h0001); run_operation(1, 1, 16'h0002);
    run_operation(1, 2, 16'h0004); run_operation(1, 3, 16'h0008);
    scrub;
    for (i = 0; i < 4; i = i + 1) spoil(i, 16'h6789, 22'h000400 << i);
    scrub; scrub;
    spoil(3, 16'h1357, 22'h000011); scrub;
    // requests while busy are lost
    request = 1'b1; operation = 2'd0; address = 2'd0; #16 request = 1'b0; #20;
    // halt by reading, refused operations, rescue by a write
    run_operation(0, 3, 0); run_operation(0, 0, 0); run_operation(0, 3, 0); run_operation(0, 3, 0);
    run_operation(0, 3, 0);
    run_operation(0, 0, 0); run_operation(3, 0, 0); run_operation(2, 2, 16'hB1E5);
    run_operation(1, 3, 16'hFFFF); run_operation(0, 3, 0);
    // halt in the middle of a scrub
    for (i = 0; i < 3; i = i + 1) spoil(i, 16'h2468, 22'h003000);
    scrub;
    run_operation(1, 0, 16'h0000); scrub;
    rst_n = 1'b0;
    #20 $finish;
  end
endmodule
