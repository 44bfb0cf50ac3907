`timescale 1ns/1ps
module tb;
  reg clk = 0;
  reg rst = 1;
  reg enable = 1;
  reg [3:0] req = 0, lock = 0, mask = 0;
  reg pardon = 0;

  rr_arbiter dut (.clk, .rst, .enable, .req, .lock, .mask, .pardon, .gnt(), .gnt_id(), .busy(),
                  .locked(), .expired(), .banned(), .held_for(), .handovers());

  always #2 clk = ~clk;

  // Hold the request lines for a number of cycles.
  task automatic hold(logic [3:0] who, logic [3:0] locks, int cycles);
    req = who;
    lock = locks;
    repeat (cycles) @(negedge clk);
  endtask

  task automatic forgive();
    pardon = 1;
    hold(0, 0, 1);
    pardon = 0;
    hold(0, 0, 2);
  endtask

  initial begin
    repeat (3) @(negedge clk);
    rst = 0;
    for (int s = 0; s < 16; s++) hold(4'(s), 0, 7);
    hold(4'b0001, 0, 40);
    hold(4'b1111, 0, 40);
    hold(0, 0, 3);
    // Each client in turn overstays its lock; once the cooling is cut short.
    for (int c = 0; c < 4; c++) begin
      hold(4'd1 << c, 4'd1 << c, 45);
      hold(4'b1111, 0, 10);
    end
    hold(4'b1111, 4'b1111, 10);
    forgive();
    for (int c = 0; c < 4; c++) begin
      hold(4'd1 << c, 4'd1 << c, 29);
      forgive();
    end
    // Locks that end in time: by the lock, by the request, masked.
    hold(4'b0010, 4'b0010, 12);
    hold(4'b0010, 4'b1101, 3);
    hold(4'b0010, 4'b0010, 6);
    hold(4'b1000, 4'b0010, 6);
    mask = 4'b1000;
    hold(4'b1000, 4'b1000, 6);
    mask = 4'b0101;
    hold(4'b1111, 4'b0000, 20);
    hold(4'b0111, 4'b0010, 6);
    mask = 4'b1111;
    hold(4'b1111, 4'b0010, 3);
    hold(4'b1111, 4'b0000, 3);
    mask = 0;
    // Switched off in every phase.
    hold(4'b0110, 4'b0000, 3);
    enable = 0;
    hold(4'b0110, 4'b0000, 4);
    enable = 1;
    hold(4'b0110, 4'b0110, 4);
    enable = 0;
    hold(4'b0110, 4'b0110, 4);
    enable = 1;
    repeat (400) begin
      hold(4'($urandom), 4'($urandom) & 4'($urandom), $urandom_range(1, 4));
      mask = 4'($urandom) & 4'($urandom) & 4'($urandom);
    end
    $finish;
  end
endmodule
