`timescale 1ns/1ps
// Every kind, every refusal, back-pressure, and enough packets to turn the counters over.
module tb;
  bit clk, rst_n, in_valid, out_ready;
  bit [7:0] in_byte, total;
  wire in_ready, out_valid, out_last, good, streaming;
  wire [7:0] out_byte, node, accepted, refused;
  wire [3:0] problem;

  packet_parser dut (
    .clk(clk), .rst_n(rst_n), .in_valid(in_valid), .in_byte(in_byte), .out_ready(out_ready),
    .in_ready(in_ready), .out_valid(out_valid), .out_byte(out_byte), .out_last(out_last),
    .good(good), .problem(problem), .node(node), .streaming(streaming),
    .accepted(accepted), .refused(refused)
  );
  always #4 clk = !clk;

  task automatic send(input bit [7:0] what);
    @(negedge clk);
    in_valid = 1;
    in_byte = what;
    total += what;
    #1;
    for (int n = 0; n < 20 && !in_ready; n++) @(negedge clk);
  endtask
  task automatic pause();
    @(negedge clk) in_valid = 0;
    repeat (3) @(negedge clk);
  endtask
  task automatic head(input bit [7:0] kind, size);
    send('hD3); send('h5E);
    total = 0;
    send(kind); send(size);
  endtask
  task automatic tail(input bit [7:0] error = 0);
    send(total + error);
    pause();
  endtask
  task automatic command(input bit [7:0] kind, to, argument, error = 0);
    head(kind, 2); send(to); send(argument); tail(error);
  endtask
  task automatic data(input int size, input bit [7:0] start);
    head('h01, 8'(size));
    for (int n = 0; n < size; n++) send(start + 8'(n * 37));
    tail();
  endtask

  initial begin
    #10 rst_n = 1;
    out_ready = 1;
    // search: noise, repeated first magic byte, wrong second one
    send('h00); send('hFF); send('hD3); send('hD3); send('h00); send('h5E); pause();
    send('hD3); head('h02, 0); tail();
    head('h02, 0); tail(1);
    // unknown kinds, wrong lengths
    send('hD3); send('h5E); send('h03); send('hFF); pause();
    send('hD3); send('h5E); send('hF1); pause();
    send('hD3); send('h5E); send('h0C); pause();
    head('h01, 0); head('h01, 65); for (int n = 0; n < 66; n++) send(8'(n));
    head('h02, 2); send('hD3); send('h5E); send('h02);
    head('h21, 1); send('h00); send('h00);
    head('h02, 1); send('h00); send('hD3); send('h5E); send('h02); send('h00); send('h02); pause();
    head('h10, 255); for (int n = 0; n < 256; n++) send(8'(255 - n));
    pause();
    // data while not streaming, addresses with and without effect
    data(3, 'h40);
    command('h10, 'hFF, 'h00); command('h10, 'h00, 'hFF); command('h10, 'h5A, 'h5A);
    command('h10, 'h5A, 'hA5); command('h10, 'h5A, 'hA5, 7);
    // for another node, wrong argument, wrong sum, then start
    command('h21, 'h00, 'hA7); command('h22, 'h5B, 'h00); command('h21, 'h5A, 'hA6);
    command('h21, 'h5A, 'hA7, 1); command('h21, 'h5A, 'hA7);
    data(1, 'h80); data(64, 'h00); data(20, 'hFF);
    // back-pressure
    head('h01, 4); send('h11); send('h22);
    out_ready = 0;
    @(negedge clk) in_byte = 'h33;
    repeat (4) @(negedge clk);
    out_ready = 1; total += 'h11; send('h44); pause();
    repeat (4) @(negedge clk);
    head('h02, 0); tail();
    send(0); send(0); pause();
    out_ready = 0; data(1, 'h77); head('h02, 0); tail(); out_ready = 1; pause();
    command('h22, 'h5A, 'h00); data(2, 'h33);
    // counters
    for (int n = 0; n < 130; n++) begin head('h02, 0); tail(); head('h02, 0); tail(1); end
    for (int n = 0; n < 120; n++) begin head('h02, 0); tail(); head('h02, 0); tail(8'(n | 1)); end
    rst_n = 0;
    #40 $finish;
  end
endmodule
