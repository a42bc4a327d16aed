// What the cells of Gowin GW1N and GW2A compute, for the simulation of a netlist.
//
// Sources: Gowin UG288 (logic), UG285 (BSRAM and SSRAM), UG287 (DSP), UG286 (clocks).  Behaviour only, no delays.  What
// a model does not know it refuses when it is compiled, by a module that is not there.
//
// FILE names the contents of a block RAM: a line for each INIT_RAM parameter.  Without it they are whatever Verilator
// makes of them, random where it is told so.

module LUT1 (input I0, output F);
  parameter [1:0] INIT = 0;
  assign F = INIT[I0];
endmodule

module LUT2 (input I0, I1, output F);
  parameter [3:0] INIT = 0;
  assign F = INIT[{I1, I0}];
endmodule

module LUT3 (input I0, I1, I2, output F);
  parameter [7:0] INIT = 0;
  assign F = INIT[{I2, I1, I0}];
endmodule

module LUT4 (input I0, I1, I2, I3, output F);
  parameter [15:0] INIT = 0;
  assign F = INIT[{I3, I2, I1, I0}];
endmodule

`define MUX(NAME) \
module NAME (input I0, I1, S0, output O); \
  assign O = S0 ? I1 : I0; \
endmodule

`MUX(MUX2)
`MUX(MUX2_LUT5)
`MUX(MUX2_LUT6)
`MUX(MUX2_LUT7)
`MUX(MUX2_LUT8)

// A bit of an adder: the carry passes where S is 1, else it is C.  Modes 0 to 9 by their numbers.
module ALU (input I0, I1, I3, CIN, output SUM, COUT);
  parameter ALU_MODE = 0;
  localparam ADD = 0, SUB = 1, ADDSUB = 2, NE = 3, GE = 4, LE = 5, CUP = 6, CDN = 7, CUPCDN = 8, MULT = 9;
  generate if (ALU_MODE < ADD || ALU_MODE > MULT) ALU_with_an_unknown_mode unknown (); endgenerate
  wire s = ALU_MODE == ADD ? I0 ^ I1 :
           ALU_MODE == SUB || ALU_MODE == NE || ALU_MODE == GE || ALU_MODE == LE ? ~(I0 ^ I1) :
           ALU_MODE == ADDSUB ? I0 ^ I1 ^ ~I3 :
           ALU_MODE == CUP ? I0 :
           ALU_MODE == CDN ? ~I0 :
           ALU_MODE == CUPCDN ? ~(I0 ^ I3) : (I0 & I1) ^ I3;
  wire c = ALU_MODE == NE || ALU_MODE == CDN ? 1'b1 :
           ALU_MODE == CUP ? 1'b0 :
           ALU_MODE == LE ? I1 :
           ALU_MODE == MULT ? I0 & I1 : I0;
  assign SUM = s ^ CIN;
  assign COUT = s ? CIN : c;
endmodule

// The two outputs of the physical cell of an adder, of which bitstreams tell the table: the whole table is the half sum,
// its lowest four bits are what the carry becomes where the half sum is 0 (Project Apicula, doc/alu.md).  Tables of
// nextpnr's adapters: 0000 gives the carry out as a sum, 000f a carry, 000a the first input as a carry, 505a the same
// only while no carry comes in.
module ALU16_SUM (input A, B, C, D, CIN, output SUM);
  parameter [15:0] TABLE = 0;
  assign SUM = TABLE[{D, C, B, A}] ^ CIN;
endmodule

module ALU16_COUT (input A, B, C, D, CIN, output COUT);
  parameter [15:0] TABLE = 0;
  assign COUT = TABLE[{D, C, B, A}] ? CIN : TABLE[{2'b00, B, A}];
endmodule

// Flip-flops: N falling edge, E enable; S set and R reset at the clock edge, before the enable; P set and C clear at
// any time.
`define PLAIN(NAME, EDGE) \
module NAME (input CLK, D, output reg Q); \
  parameter INIT = 1'b0; \
  initial Q = INIT; \
  always @(EDGE CLK) Q <= D; \
endmodule
`define ENABLED(NAME, EDGE) \
module NAME (input CLK, CE, D, output reg Q); \
  parameter INIT = 1'b0; \
  initial Q = INIT; \
  always @(EDGE CLK) if (CE) Q <= D; \
endmodule
`define AT_EDGE(NAME, EDGE, PIN, VALUE) \
module NAME (input CLK, PIN, D, output reg Q); \
  parameter INIT = VALUE; \
  initial Q = INIT; \
  always @(EDGE CLK) Q <= PIN ? VALUE : D; \
endmodule
`define ENABLED_AT_EDGE(NAME, EDGE, PIN, VALUE) \
module NAME (input CLK, CE, PIN, D, output reg Q); \
  parameter INIT = VALUE; \
  initial Q = INIT; \
  always @(EDGE CLK) if (PIN) Q <= VALUE; else if (CE) Q <= D; \
endmodule
`define AT_ONCE(NAME, EDGE, PIN, VALUE) \
module NAME (input CLK, PIN, D, output reg Q); \
  parameter INIT = VALUE; \
  initial Q = INIT; \
  always @(EDGE CLK, posedge PIN) if (PIN) Q <= VALUE; else Q <= D; \
endmodule
`define ENABLED_AT_ONCE(NAME, EDGE, PIN, VALUE) \
module NAME (input CLK, CE, PIN, D, output reg Q); \
  parameter INIT = VALUE; \
  initial Q = INIT; \
  always @(EDGE CLK, posedge PIN) if (PIN) Q <= VALUE; else if (CE) Q <= D; \
endmodule

`PLAIN(DFF, posedge)
`ENABLED(DFFE, posedge)
`AT_EDGE(DFFS, posedge, SET, 1'b1)
`AT_EDGE(DFFR, posedge, RESET, 1'b0)
`ENABLED_AT_EDGE(DFFSE, posedge, SET, 1'b1)
`ENABLED_AT_EDGE(DFFRE, posedge, RESET, 1'b0)
`AT_ONCE(DFFP, posedge, PRESET, 1'b1)
`AT_ONCE(DFFC, posedge, CLEAR, 1'b0)
`ENABLED_AT_ONCE(DFFPE, posedge, PRESET, 1'b1)
`ENABLED_AT_ONCE(DFFCE, posedge, CLEAR, 1'b0)
`PLAIN(DFFN, negedge)
`ENABLED(DFFNE, negedge)
`AT_EDGE(DFFNS, negedge, SET, 1'b1)
`AT_EDGE(DFFNR, negedge, RESET, 1'b0)
`ENABLED_AT_EDGE(DFFNSE, negedge, SET, 1'b1)
`ENABLED_AT_EDGE(DFFNRE, negedge, RESET, 1'b0)
`AT_ONCE(DFFNP, negedge, PRESET, 1'b1)
`AT_ONCE(DFFNC, negedge, CLEAR, 1'b0)
`ENABLED_AT_ONCE(DFFNPE, negedge, PRESET, 1'b1)
`ENABLED_AT_ONCE(DFFNCE, negedge, CLEAR, 1'b0)

module RAM16SDP4 (input [3:0] DI, WAD, RAD, input WRE, CLK, output [3:0] DO);
  parameter [15:0] INIT_0 = 0, INIT_1 = 0, INIT_2 = 0, INIT_3 = 0;
  reg [3:0] words [0:15];
  integer k;
  initial for (k = 0; k < 16; k = k + 1) words[k] = {INIT_3[k], INIT_2[k], INIT_1[k], INIT_0[k]};
  always @(posedge CLK) if (WRE) words[WAD] <= DI;
  assign DO = words[RAD];
endmodule

module RAM16SDP2 (input [1:0] DI, input [3:0] WAD, RAD, input WRE, CLK, output [1:0] DO);
  parameter [15:0] INIT_0 = 0, INIT_1 = 0;
  reg [1:0] words [0:15];
  integer k;
  initial for (k = 0; k < 16; k = k + 1) words[k] = {INIT_1[k], INIT_0[k]};
  always @(posedge CLK) if (WRE) words[WAD] <= DI;
  assign DO = words[RAD];
endmodule

module RAM16SDP1 (input DI, input [3:0] WAD, RAD, input WRE, CLK, output DO);
  parameter [15:0] INIT_0 = 0;
  reg [15:0] words = INIT_0;
  always @(posedge CLK) if (WRE) words[WAD] <= DI;
  assign DO = words[RAD];
endmodule

// A block RAM that one port writes and another reads: 512 rows of 4 bytes of BYTE bits.  The words of a port lie one
// after the other from the lowest bits of a row on; the lowest address pins are byte enables of a write of more than
// one byte.  Bits that are read at the edge that writes them are undefined: random.
module hwflow_bsram (write_clock, writes, write_address, data, read_clock, reads, keeps, reset, read_address, out);
  parameter BYTE = 8, WRITE_WIDTH = 32, READ_WIDTH = 32, OUTPUT_REGISTER = 0;
  parameter FILE = "";
  localparam ROW = 4 * BYTE;
  input write_clock, writes, read_clock, reads, keeps, reset;
  input [13:0] write_address, read_address;
  input [ROW-1:0] data;
  output [ROW-1:0] out;
  reg [ROW-1:0] rows [0:511];
  reg [8*ROW-1:0] lines [0:63];
  integer k;
  initial if (FILE != "") begin
    $readmemh(FILE, lines);
    for (k = 0; k < 512; k = k + 1) rows[k] = lines[k >> 3][ROW * (k & 7) +: ROW];
  end

  function [5:0] place(input integer width, input [4:0] low);
    case (width)
      18, 16: place = low[4] ? width : 0;
      9, 8: place = low[4:3] * width;
      4: place = low[4:2] * 4;
      2: place = low[4:1] * 2;
      1: place = low;
      default: place = 0;
    endcase
  endfunction
  function [ROW-1:0] ones(input integer width);
    ones = width >= ROW ? {ROW{1'b1}} : ({{ROW-1{1'b0}}, 1'b1} << width) - 1;
  endfunction

  wire [3:0] bytes = write_address[3:0] & (WRITE_WIDTH == ROW ? 4'b1111 : 4'b0011);
  wire [ROW-1:0] enables = {{BYTE{bytes[3]}}, {BYTE{bytes[2]}}, {BYTE{bytes[1]}}, {BYTE{bytes[0]}}};
  wire [5:0] write_place = place(WRITE_WIDTH, write_address[4:0]), read_place = place(READ_WIDTH, read_address[4:0]);
  wire [ROW-1:0] change = (WRITE_WIDTH > BYTE ? enables : ones(WRITE_WIDTH)) << write_place;
  wire [ROW-1:0] word = (data & ones(WRITE_WIDTH)) << write_place;
  always @(posedge write_clock)
    if (writes) rows[write_address[13:5]] <= (rows[write_address[13:5]] & ~change) | (word & change);

  wire [ROW-1:0] lost = writes && write_address[13:5] == read_address[13:5] ? change : 0;
  reg [ROW-1:0] read, kept;
  always @(posedge read_clock)
    if (reset) read <= 0;
    else if (reads)
      read <= (((rows[read_address[13:5]] & ~lost) | (|lost ? {$urandom, $urandom} & lost : 0)) >> read_place) &
              ones(READ_WIDTH);
  always @(posedge read_clock)
    if (reset) kept <= 0;
    else if (keeps) kept <= read;
  assign out = OUTPUT_REGISTER ? kept : read;
endmodule

`define READ_ONLY(NAME, BITS, BYTE_BITS) \
module NAME (input CLK, CE, OCE, RESET, input [13:0] AD, output [BITS-1:0] DO); \
  parameter READ_MODE = 1'b0, BIT_WIDTH = BITS, RESET_MODE = "SYNC"; \
  parameter FILE = ""; \
  generate if (RESET_MODE != "SYNC") NAME``_with_RESET_MODE_other_than_SYNC unknown (); endgenerate \
  hwflow_bsram #(.BYTE(BYTE_BITS), .READ_WIDTH(BIT_WIDTH), .OUTPUT_REGISTER(READ_MODE), .FILE(FILE)) block ( \
    .write_clock(CLK), .writes(1'b0), .write_address(14'd0), .data({BITS{1'b0}}), .read_clock(CLK), .reads(CE), \
    .keeps(OCE), .reset(RESET), .read_address(AD), .out(DO)); \
endmodule
`define READ_AND_WRITE(NAME, BITS, BYTE_BITS) \
module NAME ( \
  input CLKA, CEA, CLKB, CEB, OCE, RESETA, RESETB, input [13:0] ADA, ADB, input [BITS-1:0] DI, \
  input [2:0] BLKSELA, BLKSELB, output [BITS-1:0] DO \
); \
  parameter READ_MODE = 1'b0, BIT_WIDTH_0 = BITS, BIT_WIDTH_1 = BITS, RESET_MODE = "SYNC"; \
  parameter [2:0] BLK_SEL_0 = 3'd0, BLK_SEL_1 = 3'd0; \
  parameter FILE = ""; \
  generate if (RESET_MODE != "SYNC") NAME``_with_RESET_MODE_other_than_SYNC unknown (); endgenerate \
  hwflow_bsram #( \
    .BYTE(BYTE_BITS), .WRITE_WIDTH(BIT_WIDTH_0), .READ_WIDTH(BIT_WIDTH_1), .OUTPUT_REGISTER(READ_MODE), .FILE(FILE) \
  ) block ( \
    .write_clock(CLKA), .writes(CEA && BLKSELA == BLK_SEL_0), .write_address(ADA), .data(DI), .read_clock(CLKB), \
    .reads(CEB && BLKSELB == BLK_SEL_1), .keeps(OCE), .reset(RESETB), .read_address(ADB), .out(DO)); \
endmodule

`READ_ONLY(pROM, 32, 8)
`READ_ONLY(pROMX9, 36, 9)
`READ_AND_WRITE(SDPB, 32, 8)
`READ_AND_WRITE(SDPX9B, 36, 9)

// Registers for operands, their signs, the product and the result, each with the one clock, enable and reset.
module hwflow_multiplier (clock, enable, reset, a, b, shifted_a, shifted_b, selects, signs, product, next_a, next_b);
  parameter WIDTH = 9, AREG = 0, BREG = 0, OUT_REG = 0, PIPE_REG = 0, ASIGN_REG = 0, BSIGN_REG = 0, SOA_REG = 0;
  input clock, enable, reset;
  input [WIDTH-1:0] a, b, shifted_a, shifted_b;
  input [1:0] selects, signs;
  output [2*WIDTH-1:0] product;
  output [WIDTH-1:0] next_a, next_b;
  reg [WIDTH-1:0] kept_a, kept_b, kept_next_a;
  reg [1:0] kept_signs;
  reg [2*WIDTH-1:0] kept_pipe, kept_out;
  wire [WIDTH-1:0] from_a = selects[0] ? shifted_a : a, from_b = selects[1] ? shifted_b : b;
  wire [WIDTH-1:0] in_a = AREG ? kept_a : from_a, in_b = BREG ? kept_b : from_b;
  wire sign_a = ASIGN_REG ? kept_signs[0] : signs[0], sign_b = BSIGN_REG ? kept_signs[1] : signs[1];
  wire signed [WIDTH:0] wide_a = {sign_a && in_a[WIDTH-1], in_a}, wide_b = {sign_b && in_b[WIDTH-1], in_b};
  wire signed [2*WIDTH+1:0] all = wide_a * wide_b;
  wire [2*WIDTH-1:0] piped = PIPE_REG ? kept_pipe : all[2*WIDTH-1:0];
  always @(posedge clock)
    if (reset) {kept_a, kept_b, kept_next_a, kept_signs, kept_pipe, kept_out} <= 0;
    else if (enable) begin
      kept_a <= from_a;
      kept_b <= from_b;
      kept_next_a <= in_a;
      kept_signs <= signs;
      kept_pipe <= all[2*WIDTH-1:0];
      kept_out <= piped;
    end
  assign product = OUT_REG ? kept_out : piped;
  assign next_a = SOA_REG ? kept_next_a : in_a, next_b = in_b;
endmodule

`define MULTIPLIER(NAME, BITS) \
module NAME ( \
  input [BITS-1:0] A, SIA, B, SIB, input ASIGN, BSIGN, ASEL, BSEL, CE, CLK, RESET, output [2*BITS-1:0] DOUT, \
  output [BITS-1:0] SOA, SOB \
); \
  parameter AREG = 1'b0, BREG = 1'b0, OUT_REG = 1'b0, PIPE_REG = 1'b0, ASIGN_REG = 1'b0, BSIGN_REG = 1'b0; \
  parameter SOA_REG = 1'b0, MULT_RESET_MODE = "SYNC"; \
  generate if (MULT_RESET_MODE != "SYNC") NAME``_with_MULT_RESET_MODE_other_than_SYNC unknown (); endgenerate \
  hwflow_multiplier #( \
    .WIDTH(BITS), .AREG(AREG), .BREG(BREG), .OUT_REG(OUT_REG), .PIPE_REG(PIPE_REG), .ASIGN_REG(ASIGN_REG), \
    .BSIGN_REG(BSIGN_REG), .SOA_REG(SOA_REG) \
  ) block ( \
    .clock(CLK), .enable(CE), .reset(RESET), .a(A), .b(B), .shifted_a(SIA), .shifted_b(SIB), .selects({BSEL, ASEL}), \
    .signs({BSIGN, ASIGN}), .product(DOUT), .next_a(SOA), .next_b(SOB)); \
endmodule

`MULTIPLIER(MULT9X9, 9)
`MULTIPLIER(MULT18X18, 18)

// Every output is the input clock itself: what a design computes is the same at any ratio.
module rPLL (
  input CLKIN, CLKFB, RESET, RESET_P, input [5:0] FBDSEL, IDSEL, ODSEL, input [3:0] PSDA, FDLY, DUTYDA,
  output CLKOUT, LOCK, CLKOUTP, CLKOUTD, CLKOUTD3
);
  parameter FCLKIN = "100.0", DYN_IDIV_SEL = "false", IDIV_SEL = 0, DYN_FBDIV_SEL = "false", FBDIV_SEL = 0;
  parameter DYN_ODIV_SEL = "false", ODIV_SEL = 8, PSDA_SEL = "0000", DYN_DA_EN = "false", DUTYDA_SEL = "1000";
  parameter CLKOUT_FT_DIR = 1'b1, CLKOUTP_FT_DIR = 1'b1, CLKOUT_DLY_STEP = 0, CLKOUTP_DLY_STEP = 0;
  parameter CLKFB_SEL = "internal", CLKOUT_BYPASS = "false", CLKOUTP_BYPASS = "false", CLKOUTD_BYPASS = "false";
  parameter DYN_SDIV_SEL = 2, CLKOUTD_SRC = "CLKOUT", CLKOUTD3_SRC = "CLKOUT", DEVICE = "GW1N-1";
  reg [5:0] cycles = 0;
  always @(posedge CLKIN, posedge RESET)
    if (RESET) cycles <= 0;
    else if (!cycles[5]) cycles <= cycles + 6'd1;
  assign {CLKOUT, CLKOUTP, CLKOUTD, CLKOUTD3} = {4{CLKIN}};
  assign LOCK = cycles[5];
endmodule

module IBUF (input I, output O);
  assign O = I;
endmodule

module OBUF (input I, output O);
  assign O = I;
endmodule

module INV (input I, output O);
  assign O = ~I;
endmodule

module VCC (output V);
  assign V = 1'b1;
endmodule

module GND (output G);
  assign G = 1'b0;
endmodule

module GSR (input GSRI);
endmodule
