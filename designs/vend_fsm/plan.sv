// What a test of the snack machine has to show: purchases, change, refusals, the service menu.
module vend_fsm_plan (
    input logic clk, coin_in, key_in, door_open, drop,
    input logic coin_return, motor, pay, short_paid, sold_out,
    input logic [1:0] coin, pay_coin,
    input logic [2:0] key, slot, mode,
    input logic [7:0] credit
);
  covergroup sale @(posedge clk);
    coins: coverpoint coin iff (coin_in) { bins c5 = {0}; bins c10 = {1}; bins c20 = {2}; bins c50 = {3}; }
    sold: coverpoint slot iff (motor && drop) {
      bins s0 = {0}; bins s1 = {1}; bins s2 = {2}; bins s3 = {3}; bins s4 = {4}; bins s5 = {5};
    }
    change: coverpoint pay_coin iff (pay) { bins c5 = {0}; bins c10 = {1}; bins c20 = {2}; }
    dear: coverpoint credit { bins none = {0}; bins some = {[1:100]}; bins much = {[101:195]};
      bins most = {200}; }
    course: coverpoint mode {
      bins bought = (1 => 2 => 4); bins retried = (2 => 3); bins failed = (3 => 4); bins left = (1 => 4);
    }
    ends: coverpoint {short_paid, sold_out} { bins short = {2}; bins sold_out = {1}; }
  endgroup
  covergroup service @(posedge clk);
    entered: coverpoint mode { bins opens = (0 => 5); bins closes = (5 => 0); }
    refilled: coverpoint key iff (mode == 5 && key_in) {
      bins first = {0}; bins middle = {[1:4]}; bins last = {5};
    }
    priced: coverpoint coin iff (mode == 5 && coin_in) { bins cheap = {0}; bins dear = {3}; }
    thrown_in: coverpoint {coin_return, door_open} { bins door_open = {3}; bins door_shut = {2}; }
  endgroup
  sale s = new;
  service v = new;
endmodule
bind vend_fsm vend_fsm_plan plan (.mode(3'(mode)), .*);
