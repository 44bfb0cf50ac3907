// Snack machine: six slots, coin tubes for change, drop sensor with one retry, service menu.
module vend_fsm (
  input  logic       clk,
  input  logic       rst_n,
  input  logic       coin_in,
  input  logic [1:0] coin,      // 5, 10, 20, 50 cents
  input  logic       key_in,
  input  logic [2:0] key,       // 0-5 slot, 6 cancel, 7 service
  input  logic       door_open,
  input  logic       drop,
  output logic       coin_return,
  output logic       motor,
  output logic [2:0] slot,
  output logic       pay,
  output logic [1:0] pay_coin,
  output logic       short_paid,
  output logic       sold_out,
  output logic [7:0] credit
);
  typedef enum logic [2:0] {READY, PAYING, TURNING, AGAIN, CHANGE, SERVICE} mode_t;
  mode_t mode;

  logic [5:0] price [0:5];
  logic [1:0] stock [0:5];
  logic [3:0] tube5, tube10, tube20;
  logic [3:0] wait_left;
  logic [1:0] typed;

  logic [5:0] value;
  always_comb begin
    case (coin)
      2'd0: value = 6'd5;
      2'd1: value = 6'd10;
      2'd2: value = 6'd20;
      2'd3: value = 6'd50;
    endcase
  end

  wire is_slot = key_in && key < 3'd6;
  wire cancel  = key_in && key == 3'd6;
  wire taken   = (mode == READY || mode == PAYING) && !door_open && coin_in
                 && credit + {2'd0, value} <= 8'd200;
  assign motor = mode == TURNING || mode == AGAIN;
  wire service_code = typed == 2'd3 && key_in && key == 3'd1;

  // Service code: 7, 4, 4, 1 with the door open.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) typed <= 2'd0;
    else if (!door_open) typed <= 2'd0;
    else if (key_in) begin
      if (key == 3'd7) typed <= 2'd1;
      else if (key == 3'd4 && (typed == 2'd1 || typed == 2'd2)) typed <= typed + 2'd1;
      else typed <= 2'd0;
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      mode <= READY;
      credit <= 8'd0;
      slot <= 3'd0;
      wait_left <= 4'd0;
      {coin_return, pay, short_paid, sold_out} <= 4'd0;
      pay_coin <= 2'd0;
      {tube5, tube10, tube20} <= {4'd1, 4'd1, 4'd0};
      for (int i = 0; i < 6; i++) begin
        price[i] <= 6'd35;
        stock[i] <= 2'd1;
      end
    end else begin
      coin_return <= coin_in && !taken && mode != SERVICE;
      {pay, sold_out} <= 2'd0;
      if (taken) begin
        short_paid <= 1'b0;
        credit <= credit + {2'd0, value};
        if (coin == 2'd0 && tube5 != 4'd15) tube5 <= tube5 + 4'd1;
        if (coin == 2'd1 && tube10 != 4'd15) tube10 <= tube10 + 4'd1;
        if (coin == 2'd2 && tube20 != 4'd15) tube20 <= tube20 + 4'd1;
      end
      if (motor && drop) begin
        stock[slot] <= stock[slot] - 2'd1;
        credit <= credit - {2'd0, price[slot]};
      end
      case (mode)
        READY: begin
          if (taken) mode <= PAYING;
          else if (service_code) mode <= SERVICE;
        end
        PAYING: if (!door_open && !coin_in) begin
          if (cancel) mode <= CHANGE;
          else if (is_slot && stock[key] == 2'd0) sold_out <= 1'b1;
          else if (is_slot && credit >= {2'd0, price[key]}) begin
            slot <= key;
            wait_left <= 4'd9;
            mode <= TURNING;
          end
        end
        TURNING: begin
          wait_left <= wait_left - 4'd1;
          if (drop) mode <= CHANGE;
          else if (wait_left == 4'd0) begin
            wait_left <= 4'd9;
            mode <= AGAIN;
          end
        end
        AGAIN: begin
          wait_left <= wait_left - 4'd1;
          if (drop) mode <= CHANGE;
          else if (wait_left == 4'd0) begin
            stock[slot] <= 2'd0;
            mode <= CHANGE;
          end
        end
        CHANGE: begin
          pay <= 1'b1;
          if (credit >= 8'd20 && tube20 != 4'd0) begin
            {pay_coin, credit, tube20} <= {2'd2, credit - 8'd20, tube20 - 4'd1};
          end else if (credit >= 8'd10 && tube10 != 4'd0) begin
            {pay_coin, credit, tube10} <= {2'd1, credit - 8'd10, tube10 - 4'd1};
          end else if (credit >= 8'd5 && tube5 != 4'd0) begin
            {pay_coin, credit, tube5} <= {2'd0, credit - 8'd5, tube5 - 4'd1};
          end else begin
            pay <= 1'b0;
            short_paid <= credit != 8'd0;
            credit <= 8'd0;
            mode <= READY;
          end
        end
        SERVICE: begin
          if (!door_open) mode <= READY;
          else if (coin_in) price[slot] <= value;
          else if (is_slot) begin
            slot <= key;
            stock[key] <= 2'd3;
          end
        end
      endcase
    end
  end
endmodule
