`timescale 1ns/1ps
module tb;
  logic clk = 0, rst_n = 0, we = 0, halt = 0;
  logic [2:0] sel = 0, cause;
  logic [11:0] data = 0, remaining;
  logic bark, bite, in_window, refused;
  watchdog dut (.*);
  always #5 clk = ~clk;

  task automatic put(input logic [2:0] where, input logic [11:0] what);
    @(negedge clk) we = 1; sel = where; data = what;
    @(negedge clk) we = 0;
  endtask
  task automatic kick();
    put(4, 12'h5C3);
    put(4, 12'hA3C);
  endtask
  task automatic idle(input int cycles);
    repeat (cycles) @(negedge clk);
  endtask

  initial begin
    #22 rst_n = 1;
    // words while off do nothing
    kick();
    put(4, 12'h001);
    put(5, 12'h7E1);
    put(3, 12'h000);
    // settings as reset leaves them: late, barks, bites
    put(3, 12'd1); idle(150);
    // all bits of the settings
    put(0, 12'hFFF); put(1, 12'hFFF); put(2, 12'hFFF); put(6, 12'hFFF); put(7, 12'h7E1);
    put(3, 12'd1);
    idle(2100);
    put(5, 12'h7E0);
    put(4, 12'h5C3); put(2, 12'h003); put(4, 12'hA3C);
    idle(4);
    put(5, 12'h7E1);
    put(0, 12'h000); put(1, 12'h000); put(2, 12'h000);
    put(0, 12'd30); put(1, 12'd12); put(2, 12'd14);
    put(3, 12'd1); idle(3);
    put(5, 12'h7E1); idle(2);
    // good kicks in the window, at its edge, and standing down there
    put(3, 12'd1); idle(20); kick(); idle(18); kick(); idle(20); put(5, 12'h7E1);
    // exact edge of the window: complete the kick in the first cycle of it
    for (int wait_for = 13; wait_for < 19; wait_for++) begin
      put(3, 12'd1); idle(wait_for); kick(); idle(2); put(5, 12'h7E1); kick(); put(5, 12'h7E1);
    end
    // too early, rescued; then a wrong first and a wrong second word
    put(3, 12'd1); kick(); idle(4); put(4, 12'h111); kick(); idle(2);
    put(4, 12'h5C3); put(4, 12'h5C3); put(4, 12'hA3C); idle(3); kick();
    idle(22); put(4, 12'h0FF); idle(3); kick();
    idle(22); put(4, 12'h5C3); put(4, 12'h000);
    idle(60);
    // too late, sealed settings, half a kick when it bites
    put(3, 12'd3);
    put(0, 12'd9); put(1, 12'd9); put(2, 12'd9); put(3, 12'd0); put(5, 12'h7E1); put(6, 12'd1);
    idle(20); put(5, 12'h7E1); idle(20);
    put(4, 12'h5C3); idle(1); put(5, 12'h7E1);
    idle(24); put(4, 12'h5C3); put(4, 12'hA3C); put(3, 12'd1);
    idle(80);
    // halted at zero
    put(3, 12'd1); idle(10); halt = 1; idle(10); halt = 0; idle(16);
    halt = 1; idle(10); halt = 0; idle(8); halt = 1; idle(5); halt = 0; idle(60);
    put(0, 12'd2); put(1, 12'd0); put(3, 12'd1); idle(2); halt = 1; idle(6); halt = 0; idle(60);
    put(3, 12'd1); idle(1); halt = 1; idle(4); kick(); idle(2);
    rst_n = 0; idle(2);
    $finish;
  end
endmodule
