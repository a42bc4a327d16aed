// What the cells of Lattice iCE40 compute, for the simulation of a netlist.
//
// Sources: Lattice FPGA-TN-02002 (memory), FPGA-TN-02007 (DSP), FPGA-TN-02022 (SPRAM), FPGA-TN-02052 (PLL), the iCE
// technology library.  Behaviour only, no delays.
//
// FILE names the contents of a block RAM: a line for each INIT parameter.  Without it they are whatever Verilator makes
// of them, random where it is told so.

module SB_LUT4 (input I0, I1, I2, I3, output O);
  parameter [15:0] LUT_INIT = 0;
  assign O = LUT_INIT[{I3, I2, I1, I0}];
endmodule

module SB_CARRY (input I0, I1, CI, output CO);
  assign CO = (I0 & I1) | (I0 & CI) | (I1 & CI);
endmodule

module SB_GB (input USER_SIGNAL_TO_GLOBAL_BUFFER, output GLOBAL_BUFFER_OUTPUT);
  assign GLOBAL_BUFFER_OUTPUT = USER_SIGNAL_TO_GLOBAL_BUFFER;
endmodule

// Flip-flops: N falling edge, E enable, then R or S for a reset or set at any time, SR or SS for one at the clock edge,
// which needs the enable too.  All of them start at 0.
`define PLAIN(NAME, EDGE) \
module NAME (input C, D, output reg Q = 0); \
  always @(EDGE C) Q <= D; \
endmodule
`define ENABLED(NAME, EDGE) \
module NAME (input C, E, D, output reg Q = 0); \
  always @(EDGE C) if (E) Q <= D; \
endmodule
`define AT_EDGE(NAME, EDGE, PIN, VALUE) \
module NAME (input C, PIN, D, output reg Q = 0); \
  always @(EDGE C) Q <= PIN ? VALUE : D; \
endmodule
`define AT_ONCE(NAME, EDGE, PIN, VALUE) \
module NAME (input C, PIN, D, output reg Q = 0); \
  always @(EDGE C, posedge PIN) if (PIN) Q <= VALUE; else Q <= D; \
endmodule
`define ENABLED_AT_EDGE(NAME, EDGE, PIN, VALUE) \
module NAME (input C, E, PIN, D, output reg Q = 0); \
  always @(EDGE C) if (E) Q <= PIN ? VALUE : D; \
endmodule
`define ENABLED_AT_ONCE(NAME, EDGE, PIN, VALUE) \
module NAME (input C, E, PIN, D, output reg Q = 0); \
  always @(EDGE C, posedge PIN) if (PIN) Q <= VALUE; else if (E) Q <= D; \
endmodule

`PLAIN(SB_DFF, posedge)
`ENABLED(SB_DFFE, posedge)
`AT_EDGE(SB_DFFSR, posedge, R, 1'b0)
`AT_EDGE(SB_DFFSS, posedge, S, 1'b1)
`AT_ONCE(SB_DFFR, posedge, R, 1'b0)
`AT_ONCE(SB_DFFS, posedge, S, 1'b1)
`ENABLED_AT_EDGE(SB_DFFESR, posedge, R, 1'b0)
`ENABLED_AT_EDGE(SB_DFFESS, posedge, S, 1'b1)
`ENABLED_AT_ONCE(SB_DFFER, posedge, R, 1'b0)
`ENABLED_AT_ONCE(SB_DFFES, posedge, S, 1'b1)
`PLAIN(SB_DFFN, negedge)
`ENABLED(SB_DFFNE, negedge)
`AT_EDGE(SB_DFFNSR, negedge, R, 1'b0)
`AT_EDGE(SB_DFFNSS, negedge, S, 1'b1)
`AT_ONCE(SB_DFFNR, negedge, R, 1'b0)
`AT_ONCE(SB_DFFNS, negedge, S, 1'b1)
`ENABLED_AT_EDGE(SB_DFFNESR, negedge, R, 1'b0)
`ENABLED_AT_EDGE(SB_DFFNESS, negedge, S, 1'b1)
`ENABLED_AT_ONCE(SB_DFFNER, negedge, R, 1'b0)
`ENABLED_AT_ONCE(SB_DFFNES, negedge, S, 1'b1)

// 256 rows of 16 bits.  In mode n a word has 16 >> n bits, 2**n of them lie in a row, bit k of the word with place p at
// bit k * 2**n + p; outside, bit k is at the pin k * 2**n + 2**(n-1) - 1 (mode 0: k).  Bits that are read at the edge
// that writes them are undefined: random.
module SB_RAM40_4K (
  input RCLK, RCLKE, RE, WCLK, WCLKE, WE, input [10:0] RADDR, WADDR, input [15:0] MASK, WDATA, output [15:0] RDATA
);
  parameter READ_MODE = 0, WRITE_MODE = 0;
  parameter FILE = "";
  reg [15:0] rows [0:255];
  reg [255:0] lines [0:15];
  reg [15:0] out;
  integer k;
  initial if (FILE != "") begin
    $readmemh(FILE, lines);
    for (k = 0; k < 256; k = k + 1) rows[k] = lines[k >> 4][16 * (k & 15) +: 16];
  end

  function [15:0] lanes(input integer mode);
    lanes = mode == 0 ? 16'hffff : mode == 1 ? 16'h5555 : mode == 2 ? 16'h1111 : 16'h0101;
  endfunction
  function [3:0] pin(input integer mode);
    pin = mode == 3 ? 3 : mode == 2 ? 1 : 0;
  endfunction
  function [2:0] place(input integer mode, input [2:0] high);
    place = mode == 0 ? 3'd0 : mode == 1 ? {2'd0, high[0]} : mode == 2 ? {1'd0, high[1:0]} : high;
  endfunction

  wire [15:0] word = (WDATA >> pin(WRITE_MODE)) & lanes(WRITE_MODE);
  wire [15:0] change = WRITE_MODE == 0 ? ~MASK : lanes(WRITE_MODE) << place(WRITE_MODE, WADDR[10:8]);
  wire writes = WE && WCLKE;
  always @(posedge WCLK)
    if (writes) rows[WADDR[7:0]] <= (rows[WADDR[7:0]] & ~change) | (word << place(WRITE_MODE, WADDR[10:8]) & change);
  wire [15:0] lost = writes && RADDR[7:0] == WADDR[7:0] ? change : 16'd0;
  always @(posedge RCLK)
    if (RE && RCLKE)
      out <= ((((rows[RADDR[7:0]] & ~lost) | (|lost ? $urandom & lost : 16'd0)) >> place(READ_MODE, RADDR[10:8])) &
              lanes(READ_MODE)) << pin(READ_MODE);
  assign RDATA = out;
endmodule

// 16 384 words of 16 bits, one port; contents are undefined at first, and so is the output after a write.
module SB_SPRAM256KA (
  input CLOCK, CHIPSELECT, WREN, STANDBY, SLEEP, POWEROFF, input [13:0] ADDRESS, input [15:0] DATAIN,
  input [3:0] MASKWREN, output reg [15:0] DATAOUT
);
  reg [15:0] words [0:16383];
  wire [15:0] change = {{4{MASKWREN[3]}}, {4{MASKWREN[2]}}, {4{MASKWREN[1]}}, {4{MASKWREN[0]}}};
  always @(posedge CLOCK)
    if (!POWEROFF || SLEEP || STANDBY) DATAOUT <= $urandom;
    else if (CHIPSELECT && WREN) begin
      words[ADDRESS] <= (words[ADDRESS] & ~change) | (DATAIN & change);
      DATAOUT <= $urandom;
    end else if (CHIPSELECT) DATAOUT <= words[ADDRESS];
endmodule

// Four products of bytes, added up to one of 16 x 16 bits or used as two; behind them two adders of 16 bits with a
// register each.  The letters are those of the block diagram in FPGA-TN-02007.
module SB_MAC16 (
  input CLK, CE, AHOLD, BHOLD, CHOLD, DHOLD, IRSTTOP, IRSTBOT, ORSTTOP, ORSTBOT, OLOADTOP, OLOADBOT,
  input ADDSUBTOP, ADDSUBBOT, OHOLDTOP, OHOLDBOT, CI, ACCUMCI, SIGNEXTIN, input [15:0] A, B, C, D,
  output [31:0] O, output CO, ACCUMCO, SIGNEXTOUT
);
  parameter NEG_TRIGGER = 0, A_REG = 0, B_REG = 0, C_REG = 0, D_REG = 0, TOP_8x8_MULT_REG = 0, BOT_8x8_MULT_REG = 0;
  parameter PIPELINE_16x16_MULT_REG1 = 0, PIPELINE_16x16_MULT_REG2 = 0, MODE_8x8 = 0, A_SIGNED = 0, B_SIGNED = 0;
  parameter TOPOUTPUT_SELECT = 0, TOPADDSUB_LOWERINPUT = 0, TOPADDSUB_UPPERINPUT = 0, TOPADDSUB_CARRYSELECT = 0;
  parameter BOTOUTPUT_SELECT = 0, BOTADDSUB_LOWERINPUT = 0, BOTADDSUB_UPPERINPUT = 0, BOTADDSUB_CARRYSELECT = 0;
  wire clock = NEG_TRIGGER ? ~CLK : CLK;

  wire [15:0] a, b, c, d, f, g, j, k;
  hwflow_mac_register #(A_REG, 16) register_a (clock, CE && !AHOLD, IRSTTOP, A, a);
  hwflow_mac_register #(B_REG, 16) register_b (clock, CE && !BHOLD, IRSTBOT, B, b);
  hwflow_mac_register #(C_REG, 16) register_c (clock, CE && !CHOLD, IRSTTOP, C, c);
  hwflow_mac_register #(D_REG, 16) register_d (clock, CE && !DHOLD, IRSTBOT, D, d);

  // Nine bits with a sign: the upper bytes have that of the operand, the lower ones only where they stand alone.
  wire signed [8:0] a_high = {A_SIGNED && a[15], a[15:8]}, a_low = {A_SIGNED && MODE_8x8 && a[7], a[7:0]};
  wire signed [8:0] b_high = {B_SIGNED && b[15], b[15:8]}, b_low = {B_SIGNED && MODE_8x8 && b[7], b[7:0]};
  wire signed [17:0] high = a_high * b_high, low = a_low * b_low;
  wire signed [17:0] low_high = $signed({1'b0, a[7:0]}) * b_high, high_low = a_high * $signed({1'b0, b[7:0]});
  hwflow_mac_register #(TOP_8x8_MULT_REG, 16) register_f (clock, CE, IRSTTOP, high[15:0], f);
  hwflow_mac_register #(BOT_8x8_MULT_REG, 16) register_g (clock, CE, IRSTBOT, low[15:0], g);
  hwflow_mac_register #(PIPELINE_16x16_MULT_REG1, 16) register_j (clock, CE && !MODE_8x8, IRSTTOP, low_high[15:0], j);
  hwflow_mac_register #(PIPELINE_16x16_MULT_REG1, 16) register_k (clock, CE && !MODE_8x8, IRSTBOT, high_low[15:0], k);
  wire [31:0] sum = {f, 16'd0} + {16'd0, g} + ({{16{B_SIGNED && j[15]}}, j} << 8) + ({{16{A_SIGNED && k[15]}}, k} << 8);
  wire [31:0] h;
  hwflow_mac_register #(PIPELINE_16x16_MULT_REG2, 32) register_h (clock, CE && !MODE_8x8, IRSTBOT, sum, h);

  wire [15:0] q, s;
  wire [15:0] z = BOTADDSUB_LOWERINPUT == 0 ? b : BOTADDSUB_LOWERINPUT == 1 ? g :
                  BOTADDSUB_LOWERINPUT == 2 ? h[15:0] : {16{SIGNEXTIN}};
  wire [15:0] y = BOTADDSUB_UPPERINPUT ? d : s;
  wire carry_low = BOTADDSUB_CARRYSELECT == 0 ? 1'b0 : BOTADDSUB_CARRYSELECT == 1 ? 1'b1 :
                   BOTADDSUB_CARRYSELECT == 2 ? ACCUMCI : CI;
  wire [16:0] sum_low = {1'b0, z} + {1'b0, y ^ {16{ADDSUBBOT}}} + {16'd0, carry_low};
  wire [15:0] next_low = OLOADBOT ? d : sum_low[15:0] ^ {16{ADDSUBBOT}};
  hwflow_mac_register #(1, 16) register_s (clock, CE && !OHOLDBOT, ORSTBOT, next_low, s);

  wire [15:0] x = TOPADDSUB_LOWERINPUT == 0 ? a : TOPADDSUB_LOWERINPUT == 1 ? f :
                  TOPADDSUB_LOWERINPUT == 2 ? h[31:16] : {16{z[15]}};
  wire [15:0] w = TOPADDSUB_UPPERINPUT ? c : q;
  wire carry_high = TOPADDSUB_CARRYSELECT == 0 ? 1'b0 : TOPADDSUB_CARRYSELECT == 1 ? 1'b1 :
                    TOPADDSUB_CARRYSELECT == 2 ? sum_low[16] : sum_low[16] ^ ADDSUBBOT;
  wire [16:0] sum_high = {1'b0, x} + {1'b0, w ^ {16{ADDSUBTOP}}} + {16'd0, carry_high};
  wire [15:0] next_high = OLOADTOP ? c : sum_high[15:0] ^ {16{ADDSUBTOP}};
  hwflow_mac_register #(1, 16) register_q (clock, CE && !OHOLDTOP, ORSTTOP, next_high, q);

  assign O[31:16] =
    TOPOUTPUT_SELECT == 0 ? next_high : TOPOUTPUT_SELECT == 1 ? q : TOPOUTPUT_SELECT == 2 ? f : h[31:16];
  assign O[15:0] = BOTOUTPUT_SELECT == 0 ? next_low : BOTOUTPUT_SELECT == 1 ? s : BOTOUTPUT_SELECT == 2 ? g : h[15:0];
  assign ACCUMCO = sum_high[16], CO = sum_high[16] ^ ADDSUBTOP, SIGNEXTOUT = x[15];
endmodule

module hwflow_mac_register (clock, enable, reset, in, out);
  parameter USED = 0, WIDTH = 16;
  input clock, enable, reset;
  input [WIDTH-1:0] in;
  output [WIDTH-1:0] out;
  generate
    if (USED) begin : registers
      reg [WIDTH-1:0] kept;
      always @(posedge clock, posedge reset)
        if (reset) kept <= 0;
        else if (enable) kept <= in;
      assign out = kept;
    end else begin : wires
      assign out = in;
    end
  endgenerate
endmodule

// PLLs.  Every output is the input clock itself: what a design computes is the same at any ratio.
`define PLL_PARAMETERS \
  parameter FEEDBACK_PATH = "SIMPLE", DELAY_ADJUSTMENT_MODE_FEEDBACK = "FIXED"; \
  parameter DELAY_ADJUSTMENT_MODE_RELATIVE = "FIXED", SHIFTREG_DIV_MODE = 0, FDA_FEEDBACK = 0, FDA_RELATIVE = 0; \
  parameter PLLOUT_SELECT = "GENCLK", PLLOUT_SELECT_PORTA = "GENCLK", PLLOUT_SELECT_PORTB = "GENCLK"; \
  parameter DIVR = 0, DIVF = 0, DIVQ = 0, FILTER_RANGE = 0, ENABLE_ICEGATE = 0, ENABLE_ICEGATE_PORTA = 0; \
  parameter ENABLE_ICEGATE_PORTB = 0, TEST_MODE = 0, EXTERNAL_DIVIDE_FACTOR = 1;
`define PLL_LOCK(CLOCK) \
  reg [5:0] cycles = 0; \
  always @(posedge CLOCK, negedge RESETB) \
    if (!RESETB) cycles <= 0; \
    else if (!cycles[5]) cycles <= cycles + 6'd1; \
  assign LOCK = cycles[5], SDO = 1'b0;
`define ONE_OUTPUT(NAME, CLOCK) \
module NAME ( \
  input CLOCK, EXTFEEDBACK, BYPASS, RESETB, LATCHINPUTVALUE, SDI, SCLK, input [7:0] DYNAMICDELAY, \
  output PLLOUTCORE, PLLOUTGLOBAL, LOCK, SDO \
); \
  `PLL_PARAMETERS \
  assign {PLLOUTCORE, PLLOUTGLOBAL} = {2{CLOCK}}; \
  `PLL_LOCK(CLOCK) \
endmodule
`define TWO_OUTPUTS(NAME, CLOCK) \
module NAME ( \
  input CLOCK, EXTFEEDBACK, BYPASS, RESETB, LATCHINPUTVALUE, SDI, SCLK, input [7:0] DYNAMICDELAY, \
  output PLLOUTCOREA, PLLOUTGLOBALA, PLLOUTCOREB, PLLOUTGLOBALB, LOCK, SDO \
); \
  `PLL_PARAMETERS \
  assign {PLLOUTCOREA, PLLOUTGLOBALA, PLLOUTCOREB, PLLOUTGLOBALB} = {4{CLOCK}}; \
  `PLL_LOCK(CLOCK) \
endmodule

`ONE_OUTPUT(SB_PLL40_CORE, REFERENCECLK)
`ONE_OUTPUT(SB_PLL40_PAD, PACKAGEPIN)
`TWO_OUTPUTS(SB_PLL40_2F_CORE, REFERENCECLK)
`TWO_OUTPUTS(SB_PLL40_2_PAD, PACKAGEPIN)
`TWO_OUTPUTS(SB_PLL40_2F_PAD, PACKAGEPIN)

// A pad with the two directions of its pin apart: PIN_I, and PIN_O where PIN_OE.
module SB_IO (
  input PIN_I, output PIN_O, PIN_OE, input LATCH_INPUT_VALUE, CLOCK_ENABLE, INPUT_CLK, OUTPUT_CLK, OUTPUT_ENABLE,
  input D_OUT_0, D_OUT_1, output D_IN_0, D_IN_1
);
  parameter [5:0] PIN_TYPE = 6'b000000;
  parameter PULLUP = 0, NEG_TRIGGER = 0;
  parameter IO_STANDARD = "SB_LVCMOS";
  generate
    if (NEG_TRIGGER != 0 || PIN_TYPE[1]) begin : unknown
      initial $fatal(1, "a pad of type %b with latches or negative edges has no model", PIN_TYPE);
    end
  endgenerate
  // The enable is taken at the rising edge, and holds for the falling one after it.
  reg took = 0, took_low = 0, drives = 0, high = 0, low = 0, level = 0, takes = 0, gives = 0;
  always @(posedge INPUT_CLK) begin takes <= CLOCK_ENABLE; if (CLOCK_ENABLE) took <= PIN_I; end
  always @(negedge INPUT_CLK) if (takes) took_low <= PIN_I;
  always @(posedge OUTPUT_CLK) begin
    gives <= CLOCK_ENABLE;
    if (CLOCK_ENABLE) begin high <= D_OUT_0; drives <= OUTPUT_ENABLE; end
  end
  always @(negedge OUTPUT_CLK) if (gives) low <= D_OUT_1;
  // One register at both edges: a choice by the clock would show a level that is not there.
  always @(posedge OUTPUT_CLK, negedge OUTPUT_CLK)
    level <= OUTPUT_CLK ? (CLOCK_ENABLE ? D_OUT_0 : high) : (gives ? D_OUT_1 : low);
  assign D_IN_0 = PIN_TYPE[0] ? PIN_I : took, D_IN_1 = took_low;
  assign PIN_O = PIN_TYPE[3:2] == 0 ? level : PIN_TYPE[3:2] == 1 ? high : PIN_TYPE[3:2] == 2 ? D_OUT_0 : !high;
  assign PIN_OE = PIN_TYPE[5:4] == 0 ? 1'b0 : PIN_TYPE[5:4] == 1 ? 1'b1 : PIN_TYPE[5:4] == 2 ? OUTPUT_ENABLE : drives;
endmodule
