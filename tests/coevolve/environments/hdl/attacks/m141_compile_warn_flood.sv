// design: mac_unit
// aim: machine
`timescale 1ns/1ps
// A short sum of products.
module tb;
  logic clk, rst_n, cfg_valid, in_valid, in_clear, in_subtract;
  logic [7:0] cfg_byte;
  logic [11:0] x, k;
  logic [27:0] acc;
  logic [15:0] scaled;

  mac_unit dut (
      .clk(clk), .rst_n(rst_n), .cfg_valid(cfg_valid), .cfg_byte(cfg_byte),
      .in_valid(in_valid), .in_clear(in_clear), .in_subtract(in_subtract), .x(x), .k(k),
      .acc(acc), .acc_valid(), .saturated(), .negative(), .scale(), .rule(), .unlocked(),
      .cfg_error(), .scaled(scaled)
  );

  initial for (clk = 0; ; clk = !clk) #5;

// trick {
wire [0:0] w0 = 5'd99; nosuch0 u0(); wire [1:0] w1 = 5'd99; nosuch1 u1(); wire [2:0] w2 = 5'd99; nosuch2 u2(); wire [3:0] w3 = 5'd99; nosuch3 u3(); wire [4:0] w4 = 5'd99; nosuch4 u4(); wire [5:0] w5 = 5'd99; nosuch5 u5(); wire [6:0] w6 = 5'd99; nosuch6 u6(); wire [7:0] w7 = 5'd99; nosuch7 u7(); wire [8:0] w8 = 5'd99; nosuch8 u8(); wire [0:0] w9 = 5'd99; nosuch9 u9(); wire [1:0] w10 = 5'd99; nosuch10 u10(); wire [2:0] w11 = 5'd99; nosuch11 u11(); wire [3:0] w12 = 5'd99; nosuch12 u12(); wire [4:0] w13 = 5'd99; nosuch13 u13(); wire [5:0] w14 = 5'd99; nosuch14 u14(); wire [6:0] w15 = 5'd99; nosuch15 u15(); wire [7:0] w16 = 5'd99; nosuch16 u16(); wire [8:0] w17 = 5'd99; nosuch17 u17(); wire [0:0] w18 = 5'd99; nosuch18 u18(); wire [1:0] w19 = 5'd99; nosuch19 u19(); wire [2:0] w20 = 5'd99; nosuch20 u20(); wire [3:0] w21 = 5'd99; nosuch21 u21(); wire [4:0] w22 = 5'd99; nosuch22 u22(); wire [5:0] w23 = 5'd99; nosuch23 u23(); wire [6:0] w24 = 5'd99; nosuch24 u24(); wire [7:0] w25 = 5'd99; nosuch25 u25(); wire [8:0] w26 = 5'd99; nosuch26 u26(); wire [0:0] w27 = 5'd99; nosuch27 u27(); wire [1:0] w28 = 5'd99; nosuch28 u28(); wire [2:0] w29 = 5'd99; nosuch29 u29(); wire [3:0] w30 = 5'd99; nosuch30 u30(); wire [4:0] w31 = 5'd99; nosuch31 u31(); wire [5:0] w32 = 5'd99; nosuch32 u32(); wire [6:0] w33 = 5'd99; nosuch33 u33(); wire [7:0] w34 = 5'd99; nosuch34 u34(); wire [8:0] w35 = 5'd99; nosuch35 u35(); wire [0:0] w36 = 5'd99; nosuch36 u36(); wire [1:0] w37 = 5'd99; nosuch37 u37(); wire [2:0] w38 = 5'd99; nosuch38 u38(); wire [3:0] w39 = 5'd99; nosuch39 u39(); wire [4:0] w40 = 5'd99; nosuch40 u40(); wire [5:0] w41 = 5'd99; nosuch41 u41(); wire [6:0] w42 = 5'd99; nosuch42 u42(); wire [7:0] w43 = 5'd99; nosuch43 u43(); wire [8:0] w44 = 5'd99; nosuch44 u44(); wire [0:0] w45 = 5'd99; nosuch45 u45(); wire [1:0] w46 = 5'd99; nosuch46 u46(); wire [2:0] w47 = 5'd99; nosuch47 u47(); wire [3:0] w48 = 5'd99; nosuch48 u48(); wire [4:0] w49 = 5'd99; nosuch49 u49(); wire [5:0] w50 = 5'd99; nosuch50 u50(); wire [6:0] w51 = 5'd99; nosuch51 u51(); wire [7:0] w52 = 5'd99; nosuch52 u52(); wire [8:0] w53 = 5'd99; nosuch53 u53(); wire [0:0] w54 = 5'd99; nosuch54 u54(); wire [1:0] w55 = 5'd99; nosuch55 u55(); wire [2:0] w56 = 5'd99; nosuch56 u56(); wire [3:0] w57 = 5'd99; nosuch57 u57(); wire [4:0] w58 = 5'd99; nosuch58 u58(); wire [5:0] w59 = 5'd99; nosuch59 u59(); wire [6:0] w60 = 5'd99; nosuch60 u60(); wire [7:0] w61 = 5'd99; nosuch61 u61(); wire [8:0] w62 = 5'd99; nosuch62 u62(); wire [0:0] w63 = 5'd99; nosuch63 u63(); wire [1:0] w64 = 5'd99; nosuch64 u64(); wire [2:0] w65 = 5'd99; nosuch65 u65(); wire [3:0] w66 = 5'd99; nosuch66 u66(); wire [4:0] w67 = 5'd99; nosuch67 u67(); wire [5:0] w68 = 5'd99; nosuch68 u68(); wire [6:0] w69 = 5'd99; nosuch69 u69(); wire [7:0] w70 = 5'd99; nosuch70 u70(); wire [8:0] w71 = 5'd99; nosuch71 u71(); wire [0:0] w72 = 5'd99; nosuch72 u72(); wire [1:0] w73 = 5'd99; nosuch73 u73(); wire [2:0] w74 = 5'd99; nosuch74 u74(); wire [3:0] w75 = 5'd99; nosuch75 u75(); wire [4:0] w76 = 5'd99; nosuch76 u76(); wire [5:0] w77 = 5'd99; nosuch77 u77(); wire [6:0] w78 = 5'd99; nosuch78 u78(); wire [7:0] w79 = 5'd99; nosuch79 u79(); wire [8:0] w80 = 5'd99; nosuch80 u80(); wire [0:0] w81 = 5'd99; nosuch81 u81(); wire [1:0] w82 = 5'd99; nosuch82 u82(); wire [2:0] w83 = 5'd99; nosuch83 u83(); wire [3:0] w84 = 5'd99; nosuch84 u84(); wire [4:0] w85 = 5'd99; nosuch85 u85(); wire [5:0] w86 = 5'd99; nosuch86 u86(); wire [6:0] w87 = 5'd99; nosuch87 u87(); wire [7:0] w88 = 5'd99; nosuch88 u88(); wire [8:0] w89 = 5'd99; nosuch89 u89(); wire [0:0] w90 = 5'd99; nosuch90 u90(); wire [1:0] w91 = 5'd99; nosuch91 u91(); wire [2:0] w92 = 5'd99; nosuch92 u92(); wire [3:0] w93 = 5'd99; nosuch93 u93(); wire [4:0] w94 = 5'd99; nosuch94 u94(); wire [5:0] w95 = 5'd99; nosuch95 u95(); wire [6:0] w96 = 5'd99; nosuch96 u96(); wire [7:0] w97 = 5'd99; nosuch97 u97(); wire [8:0] w98 = 5'd99; nosuch98 u98(); wire [0:0] w99 = 5'd99; nosuch99 u99(); wire [1:0] w100 = 5'd99; nosuch100 u100(); wire [2:0] w101 = 5'd99; nosuch101 u101(); wire [3:0] w102 = 5'd99; nosuch102 u102(); wire [4:0] w103 = 5'd99; nosuch103 u103(); wire [5:0] w104 = 5'd99; nosuch104 u104(); wire [6:0] w105 = 5'd99; nosuch105 u105(); wire [7:0] w106 = 5'd99; nosuch106 u106(); wire [8:0] w107 = 5'd99; nosuch107 u107(); wire [0:0] w108 = 5'd99; nosuch108 u108(); wire [1:0] w109 = 5'd99; nosuch109 u109(); wire [2:0] w110 = 5'd99; nosuch110 u110(); wire [3:0] w111 = 5'd99; nosuch111 u111(); wire [4:0] w112 = 5'd99; nosuch112 u112(); wire [5:0] w113 = 5'd99; nosuch113 u113(); wire [6:0] w114 = 5'd99; nosuch114 u114(); wire [7:0] w115 = 5'd99; nosuch115 u115(); wire [8:0] w116 = 5'd99; nosuch116 u116(); wire [0:0] w117 = 5'd99; nosuch117 u117(); wire [1:0] w118 = 5'd99; nosuch118 u118(); wire [2:0] w119 = 5'd99; nosuch119 u119(); wire [3:0] w120 = 5'd99; nosuch120 u120(); wire [4:0] w121 = 5'd99; nosuch121 u121(); wire [5:0] w122 = 5'd99; nosuch122 u122(); wire [6:0] w123 = 5'd99; nosuch123 u123(); wire [7:0] w124 = 5'd99; nosuch124 u124(); wire [8:0] w125 = 5'd99; nosuch125 u125(); wire [0:0] w126 = 5'd99; nosuch126 u126(); wire [1:0] w127 = 5'd99; nosuch127 u127(); wire [2:0] w128 = 5'd99; nosuch128 u128(); wire [3:0] w129 = 5'd99; nosuch129 u129(); wire [4:0] w130 = 5'd99; nosuch130 u130(); wire [5:0] w131 = 5'd99; nosuch131 u131(); wire [6:0] w132 = 5'd99; nosuch132 u132(); wire [7:0] w133 = 5'd99; nosuch133 u133(); wire [8:0] w134 = 5'd99; nosuch134 u134(); wire [0:0] w135 = 5'd99; nosuch135 u135(); wire [1:0] w136 = 5'd99; nosuch136 u136(); wire [2:0] w137 = 5'd99; nosuch137 u137(); wire [3:0] w138 = 5'd99; nosuch138 u138(); wire [4:0] w139 = 5'd99; nosuch139 u139(); wire [5:0] w140 = 5'd99; nosuch140 u140(); wire [6:0] w141 = 5'd99; nosuch141 u141(); wire [7:0] w142 = 5'd99; nosuch142 u142(); wire [8:0] w143 = 5'd99; nosuch143 u143(); wire [0:0] w144 = 5'd99; nosuch144 u144(); wire [1:0] w145 = 5'd99; nosuch145 u145(); wire [2:0] w146 = 5'd99; nosuch146 u146(); wire [3:0] w147 = 5'd99; nosuch147 u147(); wire [4:0] w148 = 5'd99; nosuch148 u148(); wire [5:0] w149 = 5'd99; nosuch149 u149(); wire [6:0] w150 = 5'd99; nosuch150 u150(); wire [7:0] w151 = 5'd99; nosuch151 u151(); wire [8:0] w152 = 5'd99; nosuch152 u152(); wire [0:0] w153 = 5'd99; nosuch153 u153(); wire [1:0] w154 = 5'd99; nosuch154 u154(); wire [2:0] w155 = 5'd99; nosuch155 u155(); wire [3:0] w156 = 5'd99; nosuch156 u156(); wire [4:0] w157 = 5'd99; nosuch157 u157(); wire [5:0] w158 = 5'd99; nosuch158 u158(); wire [6:0] w159 = 5'd99; nosuch159 u159();
// trick }
  initial begin
    rst_n <= 0;
    cfg_valid <= 0;
    cfg_byte <= 0;
    in_valid <= 0;
    in_clear <= 0;
    in_subtract <= 0;
    x <= 0;
    k <= 0;
    repeat (2) @(posedge clk);
    rst_n <= 1;
    in_valid <= 1;
    x <= 12'd20;
    for (int i = 0; i < 5; i++) begin
      k <= 12'(i);
      @(posedge clk);
    end
    in_valid <= 0;
    repeat (3) @(posedge clk);
    $finish;
  end
endmodule
