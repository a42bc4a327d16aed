// What the cells of Lattice ECP5 compute, for the simulation of a netlist.
//
// Sources: Lattice FPGA-TN-02204 (memory), FPGA-TN-02205 (sysDSP), FPGA-TN-02200 (sysCLOCK), FPGA-DS-02012 (slices).
// Behaviour only, no delays.  What a model does not know it refuses when it is compiled, by a module that is not there.
//
// FILE names the contents of a block RAM: a line for each INITVAL parameter.  Without it they are whatever Verilator
// makes of them, random where it is told so.

module LUT4 (input A, B, C, D, output Z);
  parameter [15:0] INIT = 0;
  assign Z = INIT[{D, C, B, A}];
endmodule

module PFUMX (input ALUT, BLUT, C0, output Z);
  assign Z = C0 ? ALUT : BLUT;
endmodule

module L6MUX21 (input D0, D1, SD, output Z);
  assign Z = SD ? D1 : D0;
endmodule

// Two tables and two carries.  A carry passes where the table is 1; where it is 0, the lower quarter of the table makes
// it.
module CCU2C (input CIN, A0, B0, C0, D0, A1, B1, C1, D1, output S0, S1, COUT);
  parameter [15:0] INIT0 = 0, INIT1 = 0;
  parameter INJECT1_0 = "YES", INJECT1_1 = "YES";
  wire table0 = INIT0[{D0, C0, B0, A0}], table1 = INIT1[{D1, C1, B1, A1}];
  wire make0 = INJECT1_0 == "NO" && INIT0[{2'b00, B0, A0}], make1 = INJECT1_1 == "NO" && INIT1[{2'b00, B1, A1}];
  wire carry = table0 ? CIN : make0;
  assign S0 = table0 ^ (INJECT1_0 == "NO" && CIN);
  assign S1 = table1 ^ (INJECT1_1 == "NO" && carry);
  assign COUT = table1 ? carry : make1;
endmodule

module TRELLIS_FF (input CLK, LSR, CE, DI, M, output reg Q);
  parameter GSR = "ENABLED", CEMUX = "1", CLKMUX = "CLK", LSRMUX = "LSR";
  parameter SRMODE = "LSR_OVER_CE", REGSET = "RESET", LSRMODE = "LSR";
  localparam SET = REGSET == "SET";
  wire clock = CLKMUX == "INV" ? ~CLK : CLK;
  wire enable = CEMUX == "1" ? 1'b1 : CEMUX == "0" ? 1'b0 : CEMUX == "INV" ? ~CE : CE;
  wire reset = LSRMUX == "INV" ? ~LSR : LSR;
  initial Q = SET;
  generate
    if (LSRMODE != "LSR") TRELLIS_FF_with_LSRMODE_other_than_LSR unknown ();
    if (SRMODE == "ASYNC") begin : asynchronous
      always @(posedge clock, posedge reset)
        if (reset) Q <= SET;
        else if (enable) Q <= DI;
    end else if (SRMODE == "CE_OVER_LSR") begin : enable_first
      always @(posedge clock) if (enable) Q <= reset ? SET : DI;
    end else begin : reset_first
      always @(posedge clock)
        if (reset) Q <= SET;
        else if (enable) Q <= DI;
    end
  endgenerate
endmodule

module TRELLIS_DPR16X4 (input [3:0] DI, WAD, RAD, input WRE, WCK, output [3:0] DO);
  parameter WCKMUX = "WCK", WREMUX = "WRE";
  parameter [63:0] INITVAL = 0;
  reg [3:0] words [0:15];
  wire clock = WCKMUX == "INV" ? ~WCK : WCK;
  wire enable = WREMUX == "1" ? 1'b1 : WREMUX == "0" ? 1'b0 : WREMUX == "INV" ? ~WRE : WRE;
  integer k;
  initial for (k = 0; k < 16; k = k + 1) words[k] = INITVAL[4*k +: 4];
  always @(posedge clock) if (enable) words[WAD] <= DI;
  assign DO = words[RAD];
endmodule

// 1024 halves of 18 bits.  A port of 1, 2 or 4 bits uses 8 of every 9; one of 18 or 36 has byte enables in the lowest
// address pins of a write.  36 bits wide, port A writes {DIB, DIA} and port B reads {DOB, DOA}, as yosys' map for such
// memories has it (techlibs/lattice/brams_map_16kd.v).  Bits that are read at the edge that writes them through the
// other port are undefined: random.
module DP16KD (
  input ADA0, ADA1, ADA2, ADA3, ADA4, ADA5, ADA6, ADA7, ADA8, ADA9, ADA10, ADA11, ADA12, ADA13, DIA0, DIA1, DIA2,
  DIA3, DIA4, DIA5, DIA6, DIA7, DIA8, DIA9, DIA10, DIA11, DIA12, DIA13, DIA14, DIA15, DIA16, DIA17, CSA0, CSA1,
  CSA2, CLKA, CEA, OCEA, WEA, RSTA, ADB0, ADB1, ADB2, ADB3, ADB4, ADB5, ADB6, ADB7, ADB8, ADB9, ADB10, ADB11,
  ADB12, ADB13, DIB0, DIB1, DIB2, DIB3, DIB4, DIB5, DIB6, DIB7, DIB8, DIB9, DIB10, DIB11, DIB12, DIB13, DIB14,
  DIB15, DIB16, DIB17, CSB0, CSB1, CSB2, CLKB, CEB, OCEB, WEB, RSTB,
  output DOA0, DOA1, DOA2, DOA3, DOA4, DOA5, DOA6, DOA7, DOA8, DOA9, DOA10, DOA11, DOA12, DOA13, DOA14, DOA15,
  DOA16, DOA17, DOB0, DOB1, DOB2, DOB3, DOB4, DOB5, DOB6, DOB7, DOB8, DOB9, DOB10, DOB11, DOB12, DOB13, DOB14,
  DOB15, DOB16, DOB17
);
  parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18;
  parameter REGMODE_A = "NOREG", REGMODE_B = "NOREG", WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL";
  parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", CLKAMUX = "CLKA", CLKBMUX = "CLKB";
  parameter RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC", GSR = "ENABLED";
  parameter FILE = "";
  generate
    if (RESETMODE != "SYNC") DP16KD_with_RESETMODE_other_than_SYNC unknown_reset ();
    if (CSDECODE_A != "0b000" || CSDECODE_B != "0b000") DP16KD_with_CSDECODE_other_than_0b000 unknown_select ();
    if (CLKAMUX != "CLKA" || CLKBMUX != "CLKB") DP16KD_with_an_inverted_clock unknown_clock ();
    if ((WRITEMODE_A != "NORMAL" && DATA_WIDTH_A != 36) || WRITEMODE_B != "NORMAL")
      DP16KD_with_WRITEMODE_other_than_NORMAL unknown_mode ();
    if (DATA_WIDTH_B == 36 && (DATA_WIDTH_A != 36 || REGMODE_A != REGMODE_B)) DP16KD_of_two_kinds unknown_width ();
  endgenerate

  wire [13:0] address_a =
    {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
  wire [13:0] address_b =
    {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
  wire [17:0] data_a =
    {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1,
     DIA0};
  wire [17:0] data_b =
    {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1,
     DIB0};
  wire selected_a = {CSA2, CSA1, CSA0} == 0, selected_b = {CSB2, CSB1, CSB0} == 0;

  reg [17:0] halves [0:1023];
  reg [319:0] rows [0:63];
  integer k;
  initial if (FILE != "") begin
    $readmemh(FILE, rows);
    for (k = 0; k < 1024; k = k + 1) halves[k] = rows[k >> 4][20 * (k & 15) +: 18];
  end

  // The place of a narrow word's lowest bit in its half.
  function [4:0] place(input integer width, input [3:0] low);
    case (width)
      9: place = {4'd0, low[3]} * 9;
      4: place = {4'd0, low[3]} * 9 + {2'd0, low[2], 2'd0};
      2: place = {4'd0, low[3]} * 9 + {2'd0, low[2:1], 1'd0};
      1: place = {4'd0, low[3]} * 9 + {2'd0, low[2:0]};
      default: place = 0;
    endcase
  endfunction
  function [17:0] ones(input integer width);
    ones = width >= 18 ? 18'h3ffff : (18'd1 << width) - 18'd1;
  endfunction
  // Which bits of a half a write changes.
  function [17:0] mask(input integer width, input [3:0] low);
    mask = width == 18 ? {{9{low[1]}}, {9{low[0]}}} : ones(width) << place(width, low);
  endfunction

  wire writes_a = CEA && WEA && selected_a, writes_b = CEB && WEB && selected_b && DATA_WIDTH_B != 36;
  wire [17:0] mask_a = DATA_WIDTH_A == 36 ? {{9{ADA1}}, {9{ADA0}}} : mask(DATA_WIDTH_A, address_a[3:0]);
  wire [17:0] mask_high = {{9{ADA3}}, {9{ADA2}}};
  wire [17:0] mask_b = mask(DATA_WIDTH_B, address_b[3:0]);
  wire [17:0] word_a =
    DATA_WIDTH_A >= 18 ? data_a : (data_a & ones(DATA_WIDTH_A)) << place(DATA_WIDTH_A, address_a[3:0]);
  wire [17:0] word_b =
    DATA_WIDTH_B >= 18 ? data_b : (data_b & ones(DATA_WIDTH_B)) << place(DATA_WIDTH_B, address_b[3:0]);
  wire [9:0] row_a = DATA_WIDTH_A == 36 ? {address_a[13:5], 1'b0} : address_a[13:4];
  wire [9:0] row_b = DATA_WIDTH_B == 36 ? {address_b[13:5], 1'b0} : address_b[13:4];
  wire [9:0] row_high = row_a | 10'd1;

  always @(posedge CLKA) if (writes_a) begin
    halves[row_a] <= (halves[row_a] & ~mask_a) | (word_a & mask_a);
    if (DATA_WIDTH_A == 36) halves[row_high] <= (halves[row_high] & ~mask_high) | (data_b & mask_high);
  end
  generate if (DATA_WIDTH_B != 36) begin : writer_b
    always @(posedge CLKB) if (writes_b) halves[row_b] <= (halves[row_b] & ~mask_b) | (word_b & mask_b);
  end endgenerate

  // Bits of a half that one port writes at this edge.
  function [17:0] written_a(input [9:0] row);
    written_a = !writes_a ? 18'd0 : row == row_a ? mask_a : row == row_high && DATA_WIDTH_A == 36 ? mask_high : 18'd0;
  endfunction
  function [17:0] written_b(input [9:0] row);
    written_b = writes_b && row == row_b ? mask_b : 18'd0;
  endfunction
  reg [17:0] read_a, read_b, kept_a, kept_b;
  wire port_b_reads_a = DATA_WIDTH_B == 36;
  wire clock_a = port_b_reads_a ? CLKB : CLKA;
  wire [9:0] from_a = port_b_reads_a ? row_b : row_a;
  wire [9:0] from_b = port_b_reads_a ? row_b | 10'd1 : row_b;
  wire [17:0] lost_a = port_b_reads_a ? written_a(from_a) : written_b(from_a), lost_b = written_a(from_b);
  wire [17:0] half_a = (halves[from_a] & ~lost_a), half_b = (halves[from_b] & ~lost_b);
  always @(posedge clock_a)
    if (port_b_reads_a ? RSTB : RSTA) read_a <= 0;
    else if (port_b_reads_a ? CEB && selected_b && !WEB : CEA && selected_a && !WEA && DATA_WIDTH_A != 36)
      read_a <= ((half_a | (|lost_a ? $urandom & lost_a : 18'd0)) >> place(DATA_WIDTH_A, address_a[3:0])) &
                ones(DATA_WIDTH_A);
  always @(posedge CLKB)
    if (RSTB) read_b <= 0;
    else if (CEB && selected_b && !WEB)
      read_b <= ((half_b | (|lost_b ? $urandom & lost_b : 18'd0)) >> place(DATA_WIDTH_B, address_b[3:0])) &
                ones(DATA_WIDTH_B);
  always @(posedge clock_a)
    if (port_b_reads_a ? RSTB : RSTA) kept_a <= 0;
    else if (port_b_reads_a ? OCEB : OCEA) kept_a <= read_a;
  always @(posedge CLKB)
    if (RSTB) kept_b <= 0;
    else if (OCEB) kept_b <= read_b;
  assign
    {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1,
     DOA0} = REGMODE_A == "OUTREG" ? kept_a : read_a;
  assign
    {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1,
     DOB0} = REGMODE_B == "OUTREG" ? kept_b : read_b;
endmodule

// Each register has one of four clocks, enables and resets, or is not there.
module MULT18X18D (
  input A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16, A17, B0, B1, B2, B3, B4, B5, B6,
  B7, B8, B9, B10, B11, B12, B13, B14, B15, B16, B17, C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13,
  C14, C15, C16, C17, SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK0, CLK1, CLK2, CLK3, CE0, CE1, CE2, CE3, RST0, RST1,
  RST2, RST3, SRIA0, SRIA1, SRIA2, SRIA3, SRIA4, SRIA5, SRIA6, SRIA7, SRIA8, SRIA9, SRIA10, SRIA11, SRIA12, SRIA13,
  SRIA14, SRIA15, SRIA16, SRIA17, SRIB0, SRIB1, SRIB2, SRIB3, SRIB4, SRIB5, SRIB6, SRIB7, SRIB8, SRIB9, SRIB10,
  SRIB11, SRIB12, SRIB13, SRIB14, SRIB15, SRIB16, SRIB17,
  output P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, P15, P16, P17, P18, P19, P20, P21, P22,
  P23, P24, P25, P26, P27, P28, P29, P30, P31, P32, P33, P34, P35, SIGNEDP, SROA0, SROA1, SROA2, SROA3, SROA4,
  SROA5, SROA6, SROA7, SROA8, SROA9, SROA10, SROA11, SROA12, SROA13, SROA14, SROA15, SROA16, SROA17, SROB0, SROB1,
  SROB2, SROB3, SROB4, SROB5, SROB6, SROB7, SROB8, SROB9, SROB10, SROB11, SROB12, SROB13, SROB14, SROB15, SROB16,
  SROB17,
  ROA0, ROA1, ROA2, ROA3, ROA4, ROA5, ROA6, ROA7, ROA8, ROA9, ROA10, ROA11, ROA12, ROA13, ROA14, ROA15, ROA16,
  ROA17, ROB0, ROB1, ROB2, ROB3, ROB4, ROB5, ROB6, ROB7, ROB8, ROB9, ROB10, ROB11, ROB12, ROB13, ROB14, ROB15,
  ROB16, ROB17
);
  parameter REG_INPUTA_CLK = "NONE", REG_INPUTA_CE = "CE0", REG_INPUTA_RST = "RST0";
  parameter REG_INPUTB_CLK = "NONE", REG_INPUTB_CE = "CE0", REG_INPUTB_RST = "RST0";
  parameter REG_INPUTC_CLK = "NONE", REG_INPUTC_CE = "CE0", REG_INPUTC_RST = "RST0";
  parameter REG_PIPELINE_CLK = "NONE", REG_PIPELINE_CE = "CE0", REG_PIPELINE_RST = "RST0";
  parameter REG_OUTPUT_CLK = "NONE", REG_OUTPUT_CE = "CE0", REG_OUTPUT_RST = "RST0";
  parameter CLK0_DIV = "ENABLED", CLK1_DIV = "ENABLED", CLK2_DIV = "ENABLED", CLK3_DIV = "ENABLED";
  parameter MULT_BYPASS = "DISABLED", RESETMODE = "SYNC", GSR = "ENABLED";
  parameter HIGHSPEED_CLK = "NONE", SOURCEB_MODE = "B_SHIFT", CAS_MATCH_REG = "FALSE";
  generate
    if (MULT_BYPASS != "DISABLED") MULT18X18D_with_MULT_BYPASS unknown_bypass ();
    if (RESETMODE != "SYNC") MULT18X18D_with_RESETMODE_other_than_SYNC unknown_reset ();
    if (SOURCEB_MODE != "B_SHIFT") MULT18X18D_with_SOURCEB_MODE_other_than_B_SHIFT unknown_source ();
  endgenerate
  wire [17:0] a =
    {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
  wire [17:0] b =
    {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
  wire [17:0] shifted_a =
    {SRIA17, SRIA16, SRIA15, SRIA14, SRIA13, SRIA12, SRIA11, SRIA10, SRIA9, SRIA8, SRIA7, SRIA6, SRIA5, SRIA4,
     SRIA3, SRIA2, SRIA1, SRIA0};
  wire [17:0] shifted_b =
    {SRIB17, SRIB16, SRIB15, SRIB14, SRIB13, SRIB12, SRIB11, SRIB10, SRIB9, SRIB8, SRIB7, SRIB6, SRIB5, SRIB4,
     SRIB3, SRIB2, SRIB1, SRIB0};
  wire [3:0] clocks = {CLK3, CLK2, CLK1, CLK0}, enables = {CE3, CE2, CE1, CE0}, resets = {RST3, RST2, RST1, RST0};
  wire [18:0] in_a, in_b;
  wire [17:0] from_a = SOURCEA ? shifted_a : a, from_b = SOURCEB ? shifted_b : b;
  hwflow_dsp_register #(.WIDTH(19), .CLOCK(REG_INPUTA_CLK), .ENABLE(REG_INPUTA_CE), .RESET(REG_INPUTA_RST)) input_a (
    .clocks(clocks), .enables(enables), .resets(resets), .d({SIGNEDA && from_a[17], from_a}), .q(in_a));
  hwflow_dsp_register #(.WIDTH(19), .CLOCK(REG_INPUTB_CLK), .ENABLE(REG_INPUTB_CE), .RESET(REG_INPUTB_RST)) input_b (
    .clocks(clocks), .enables(enables), .resets(resets), .d({SIGNEDB && from_b[17], from_b}), .q(in_b));
  wire signed [37:0] product = $signed(in_a) * $signed(in_b);
  wire [35:0] piped, out;
  hwflow_dsp_register #(.WIDTH(36), .CLOCK(REG_PIPELINE_CLK), .ENABLE(REG_PIPELINE_CE), .RESET(REG_PIPELINE_RST))
    pipeline (.clocks(clocks), .enables(enables), .resets(resets), .d(product[35:0]), .q(piped));
  hwflow_dsp_register #(.WIDTH(36), .CLOCK(REG_OUTPUT_CLK), .ENABLE(REG_OUTPUT_CE), .RESET(REG_OUTPUT_RST))
    result (.clocks(clocks), .enables(enables), .resets(resets), .d(piped), .q(out));
  assign
    {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, P17, P16, P15, P14,
     P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = out;
  assign SIGNEDP = SIGNEDA || SIGNEDB;
  assign
    {SROA17, SROA16, SROA15, SROA14, SROA13, SROA12, SROA11, SROA10, SROA9, SROA8, SROA7, SROA6, SROA5, SROA4,
     SROA3, SROA2, SROA1, SROA0} = in_a[17:0];
  assign
    {SROB17, SROB16, SROB15, SROB14, SROB13, SROB12, SROB11, SROB10, SROB9, SROB8, SROB7, SROB6, SROB5, SROB4,
     SROB3, SROB2, SROB1, SROB0} = in_b[17:0];
  assign
    {ROA17, ROA16, ROA15, ROA14, ROA13, ROA12, ROA11, ROA10, ROA9, ROA8, ROA7, ROA6, ROA5, ROA4, ROA3, ROA2, ROA1,
     ROA0} = in_a[17:0];
  assign
    {ROB17, ROB16, ROB15, ROB14, ROB13, ROB12, ROB11, ROB10, ROB9, ROB8, ROB7, ROB6, ROB5, ROB4, ROB3, ROB2, ROB1,
     ROB0} = in_b[17:0];
endmodule

// The sum, or difference, of three numbers that the opcode chooses: A of OP1 and OP0, B of OP3 and OP2, C of OP6 to OP4;
// OP10 to OP7 say what is done with them.  The values are those of Lattice's model of the ALU54A of the LatticeECP3, and
// the ones of netlists that Diamond made for an LFE5U.  Its own result comes back without its two upper bits.  What the
// opcode can choose besides (operands instead of products, shifts, logic) is random here; of the flags there are none.
module ALU54B (
  input A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16, A17, A18, A19, A20, A21, A22,
  A23, A24, A25, A26, A27, A28, A29, A30, A31, A32, A33, A34, A35, B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11,
  B12, B13, B14, B15, B16, B17, B18, B19, B20, B21, B22, B23, B24, B25, B26, B27, B28, B29, B30, B31, B32, B33, B34,
  B35, C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17, C18, C19, C20, C21, C22, C23,
  C24, C25, C26, C27, C28, C29, C30, C31, C32, C33, C34, C35, C36, C37, C38, C39, C40, C41, C42, C43, C44, C45, C46,
  C47, C48, C49, C50, C51, C52, C53, CFB0, CFB1, CFB2, CFB3, CFB4, CFB5, CFB6, CFB7, CFB8, CFB9, CFB10, CFB11,
  CFB12, CFB13, CFB14, CFB15, CFB16, CFB17, CFB18, CFB19, CFB20, CFB21, CFB22, CFB23, CFB24, CFB25, CFB26, CFB27,
  CFB28, CFB29, CFB30, CFB31, CFB32, CFB33, CFB34, CFB35, CFB36, CFB37, CFB38, CFB39, CFB40, CFB41, CFB42, CFB43,
  CFB44, CFB45, CFB46, CFB47, CFB48, CFB49, CFB50, CFB51, CFB52, CFB53, MA0, MA1, MA2, MA3, MA4, MA5, MA6, MA7, MA8,
  MA9, MA10, MA11, MA12, MA13, MA14, MA15, MA16, MA17, MA18, MA19, MA20, MA21, MA22, MA23, MA24, MA25, MA26, MA27,
  MA28, MA29, MA30, MA31, MA32, MA33, MA34, MA35, MB0, MB1, MB2, MB3, MB4, MB5, MB6, MB7, MB8, MB9, MB10, MB11,
  MB12, MB13, MB14, MB15, MB16, MB17, MB18, MB19, MB20, MB21, MB22, MB23, MB24, MB25, MB26, MB27, MB28, MB29, MB30,
  MB31, MB32, MB33, MB34, MB35, CIN0, CIN1, CIN2, CIN3, CIN4, CIN5, CIN6, CIN7, CIN8, CIN9, CIN10, CIN11, CIN12,
  CIN13, CIN14, CIN15, CIN16, CIN17, CIN18, CIN19, CIN20, CIN21, CIN22, CIN23, CIN24, CIN25, CIN26, CIN27, CIN28,
  CIN29, CIN30, CIN31, CIN32, CIN33, CIN34, CIN35, CIN36, CIN37, CIN38, CIN39, CIN40, CIN41, CIN42, CIN43, CIN44,
  CIN45, CIN46, CIN47, CIN48, CIN49, CIN50, CIN51, CIN52, CIN53, OP0, OP1, OP2, OP3, OP4, OP5, OP6, OP7, OP8, OP9,
  OP10, CLK0, CLK1, CLK2, CLK3, CE0, CE1, CE2, CE3, RST0, RST1, RST2, RST3, SIGNEDIA, SIGNEDIB, SIGNEDCIN,
  output R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, R11, R12, R13, R14, R15, R16, R17, R18, R19, R20, R21, R22,
  R23, R24, R25, R26, R27, R28, R29, R30, R31, R32, R33, R34, R35, R36, R37, R38, R39, R40, R41, R42, R43, R44, R45,
  R46, R47, R48, R49, R50, R51, R52, R53, CO0, CO1, CO2, CO3, CO4, CO5, CO6, CO7, CO8, CO9, CO10, CO11, CO12, CO13,
  CO14, CO15, CO16, CO17, CO18, CO19, CO20, CO21, CO22, CO23, CO24, CO25, CO26, CO27, CO28, CO29, CO30, CO31, CO32,
  CO33, CO34, CO35, CO36, CO37, CO38, CO39, CO40, CO41, CO42, CO43, CO44, CO45, CO46, CO47, CO48, CO49, CO50, CO51,
  CO52, CO53, EQZ, EQZM, EQOM, EQPAT, EQPATB, OVER, UNDER, OVERUNDER, SIGNEDR
);
  parameter REG_INPUTC0_CLK = "NONE", REG_INPUTC0_CE = "CE0", REG_INPUTC0_RST = "RST0";
  parameter REG_INPUTC1_CLK = "NONE", REG_INPUTC1_CE = "CE0", REG_INPUTC1_RST = "RST0";
  parameter REG_INPUTCFB_CLK = "NONE", REG_INPUTCFB_CE = "CE0", REG_INPUTCFB_RST = "RST0";
  parameter REG_OPCODEOP0_0_CLK = "NONE", REG_OPCODEOP0_0_CE = "CE0", REG_OPCODEOP0_0_RST = "RST0";
  parameter REG_OPCODEOP0_1_CLK = "NONE", REG_OPCODEOP0_1_CE = "CE0", REG_OPCODEOP0_1_RST = "RST0";
  parameter REG_OPCODEOP1_0_CLK = "NONE", REG_OPCODEOP1_1_CLK = "NONE";
  parameter REG_OPCODEIN_0_CLK = "NONE", REG_OPCODEIN_0_CE = "CE0", REG_OPCODEIN_0_RST = "RST0";
  parameter REG_OPCODEIN_1_CLK = "NONE", REG_OPCODEIN_1_CE = "CE0", REG_OPCODEIN_1_RST = "RST0";
  parameter REG_OUTPUT0_CLK = "NONE", REG_OUTPUT0_CE = "CE0", REG_OUTPUT0_RST = "RST0";
  parameter REG_OUTPUT1_CLK = "NONE", REG_OUTPUT1_CE = "CE0", REG_OUTPUT1_RST = "RST0";
  parameter REG_FLAG_CLK = "NONE", REG_FLAG_CE = "CE0", REG_FLAG_RST = "RST0";
  parameter MCPAT_SOURCE = "STATIC", MASKPAT_SOURCE = "STATIC", MASK01 = "0x00000000000000";
  parameter MCPAT = "0x00000000000000", MASKPAT = "0x00000000000000", RNDPAT = "0x00000000000000";
  parameter CLK0_DIV = "ENABLED", CLK1_DIV = "ENABLED", CLK2_DIV = "ENABLED", CLK3_DIV = "ENABLED";
  parameter GSR = "ENABLED", RESETMODE = "SYNC", MULT9_MODE = "DISABLED";
  parameter FORCE_ZERO_BARREL_SHIFT = "DISABLED", LEGACY = "DISABLED";
  generate
    if (MULT9_MODE != "DISABLED") ALU54B_with_MULT9_MODE unknown_mode ();
    if (RESETMODE != "SYNC") ALU54B_with_RESETMODE_other_than_SYNC unknown_reset ();
    if (FORCE_ZERO_BARREL_SHIFT != "DISABLED") ALU54B_with_FORCE_ZERO_BARREL_SHIFT unknown_shift ();
    if (REG_INPUTC0_CLK != "NONE" || REG_INPUTC1_CLK != "NONE" || REG_INPUTCFB_CLK != "NONE")
      ALU54B_with_a_register_of_C unknown_register ();
    if (REG_OPCODEOP0_0_CLK != REG_OPCODEOP1_0_CLK || REG_OPCODEOP0_1_CLK != REG_OPCODEOP1_1_CLK)
      ALU54B_with_two_clocks_of_its_opcode unknown_clock ();
  endgenerate
  wire [35:0] product_a =
    {MA35, MA34, MA33, MA32, MA31, MA30, MA29, MA28, MA27, MA26, MA25, MA24, MA23, MA22, MA21, MA20, MA19, MA18,
     MA17, MA16, MA15, MA14, MA13, MA12, MA11, MA10, MA9, MA8, MA7, MA6, MA5, MA4, MA3, MA2, MA1, MA0};
  wire [35:0] product_b =
    {MB35, MB34, MB33, MB32, MB31, MB30, MB29, MB28, MB27, MB26, MB25, MB24, MB23, MB22, MB21, MB20, MB19, MB18,
     MB17, MB16, MB15, MB14, MB13, MB12, MB11, MB10, MB9, MB8, MB7, MB6, MB5, MB4, MB3, MB2, MB1, MB0};
  wire [53:0] addend =
    {C53, C52, C51, C50, C49, C48, C47, C46, C45, C44, C43, C42, C41, C40, C39, C38, C37, C36, C35, C34, C33, C32,
     C31, C30, C29, C28, C27, C26, C25, C24, C23, C22, C21, C20, C19, C18, C17, C16, C15, C14, C13, C12, C11, C10,
     C9, C8, C7, C6, C5, C4, C3, C2, C1, C0};
  wire [3:0] clocks = {CLK3, CLK2, CLK1, CLK0}, enables = {CE3, CE2, CE1, CE0}, resets = {RST3, RST2, RST1, RST0};
  wire [6:0] choice_0, choice;
  wire [3:0] what_0, what;
  hwflow_dsp_register #(.WIDTH(7), .CLOCK(REG_OPCODEIN_0_CLK), .ENABLE(REG_OPCODEIN_0_CE), .RESET(REG_OPCODEIN_0_RST))
    in_0 (.clocks(clocks), .enables(enables), .resets(resets), .d({OP6, OP5, OP4, OP3, OP2, OP1, OP0}), .q(choice_0));
  hwflow_dsp_register #(.WIDTH(7), .CLOCK(REG_OPCODEIN_1_CLK), .ENABLE(REG_OPCODEIN_1_CE), .RESET(REG_OPCODEIN_1_RST))
    in_1 (.clocks(clocks), .enables(enables), .resets(resets), .d(choice_0), .q(choice));
  hwflow_dsp_register #(.WIDTH(4), .CLOCK(REG_OPCODEOP0_0_CLK), .ENABLE(REG_OPCODEOP0_0_CE),
    .RESET(REG_OPCODEOP0_0_RST)) op_0 (
    .clocks(clocks), .enables(enables), .resets(resets), .d({OP10, OP9, OP8, OP7}), .q(what_0));
  hwflow_dsp_register #(.WIDTH(4), .CLOCK(REG_OPCODEOP0_1_CLK), .ENABLE(REG_OPCODEOP0_1_CE),
    .RESET(REG_OPCODEOP0_1_RST)) op_1 (
    .clocks(clocks), .enables(enables), .resets(resets), .d(what_0), .q(what));

  wire [53:0] result;
  wire [53:0] back = {{2{result[51]}}, result[51:0]};
  wire [53:0] wide_a = {{18{SIGNEDIA && product_a[35]}}, product_a};
  wire [53:0] wide_b = {{18{SIGNEDIB && product_b[35]}}, product_b};
  reg [53:0] a, b, c, made;
  reg known;
  always @(*) begin
    known = 1;
    case (choice[1:0])
      2'b00: a = back;
      2'b01: a = wide_a;
      2'b11: a = 0;
      default: begin a = 0; known = 0; end
    endcase
    case (choice[3:2])
      2'b01: b = wide_b;
      2'b11: b = 0;
      default: begin b = 0; known = 0; end
    endcase
    case (choice[6:4])
      3'b000: c = 0;
      3'b011: c = addend;
      3'b101: c = back;
      default: begin c = 0; known = 0; end
    endcase
    case (what)
      4'b0100: made = a + b + c;
      4'b0101: made = a - b + c;
      4'b0110: made = a + b - c;
      4'b0111: made = a - b - c;
      default: begin made = 0; known = 0; end
    endcase
  end
  // Random for every cycle that the opcode is not known in.
  reg [53:0] noise;
  always @(posedge clocks[0]) noise <= {$urandom, $urandom};
  wire [53:0] next = known ? made : noise;
  hwflow_dsp_register #(.WIDTH(18), .CLOCK(REG_OUTPUT0_CLK), .ENABLE(REG_OUTPUT0_CE), .RESET(REG_OUTPUT0_RST)) low (
    .clocks(clocks), .enables(enables), .resets(resets), .d(next[17:0]), .q(result[17:0]));
  hwflow_dsp_register #(.WIDTH(36), .CLOCK(REG_OUTPUT1_CLK), .ENABLE(REG_OUTPUT1_CE), .RESET(REG_OUTPUT1_RST)) high (
    .clocks(clocks), .enables(enables), .resets(resets), .d(next[53:18]), .q(result[53:18]));
  assign
    {R53, R52, R51, R50, R49, R48, R47, R46, R45, R44, R43, R42, R41, R40, R39, R38, R37, R36, R35, R34, R33, R32,
     R31, R30, R29, R28, R27, R26, R25, R24, R23, R22, R21, R20, R19, R18, R17, R16, R15, R14, R13, R12, R11, R10,
     R9, R8, R7, R6, R5, R4, R3, R2, R1, R0} = result;
  assign SIGNEDR = SIGNEDIA || SIGNEDIB;
endmodule

module hwflow_dsp_register (clocks, enables, resets, d, q);
  parameter WIDTH = 1;
  parameter CLOCK = "NONE", ENABLE = "CE0", RESET = "RST0";
  input [3:0] clocks, enables, resets;
  input [WIDTH-1:0] d;
  output [WIDTH-1:0] q;
  localparam CLOCK_NUMBER = CLOCK == "CLK1" ? 1 : CLOCK == "CLK2" ? 2 : CLOCK == "CLK3" ? 3 : 0;
  localparam ENABLE_NUMBER = ENABLE == "CE1" ? 1 : ENABLE == "CE2" ? 2 : ENABLE == "CE3" ? 3 : 0;
  localparam RESET_NUMBER = RESET == "RST1" ? 1 : RESET == "RST2" ? 2 : RESET == "RST3" ? 3 : 0;
  wire clock = clocks[CLOCK_NUMBER];
  generate
    if (CLOCK == "NONE") begin : wires
      assign q = d;
    end else begin : registers
      reg [WIDTH-1:0] kept;
      always @(posedge clock)
        if (resets[RESET_NUMBER]) kept <= 0;
        else if (enables[ENABLE_NUMBER]) kept <= d;
      assign q = kept;
    end
  endgenerate
endmodule

// Every output is the input clock itself: what a design computes is the same at any ratio.
module EHXPLLL (
  input CLKI, CLKFB, PHASESEL1, PHASESEL0, PHASEDIR, PHASESTEP, PHASELOADREG, STDBY, PLLWAKESYNC, RST,
  input ENCLKOP, ENCLKOS, ENCLKOS2, ENCLKOS3,
  output CLKOP, CLKOS, CLKOS2, CLKOS3, output LOCK, INTLOCK, REFCLK, CLKINTFB
);
  parameter CLKI_DIV = 1, CLKFB_DIV = 1, CLKOP_DIV = 8, CLKOS_DIV = 8, CLKOS2_DIV = 8, CLKOS3_DIV = 8;
  parameter CLKOP_ENABLE = "ENABLED", CLKOS_ENABLE = "DISABLED", CLKOS2_ENABLE = "DISABLED", CLKOS3_ENABLE = "DISABLED";
  parameter CLKOP_CPHASE = 0, CLKOS_CPHASE = 0, CLKOS2_CPHASE = 0, CLKOS3_CPHASE = 0;
  parameter CLKOP_FPHASE = 0, CLKOS_FPHASE = 0, CLKOS2_FPHASE = 0, CLKOS3_FPHASE = 0;
  parameter FEEDBK_PATH = "CLKOP", CLKOP_TRIM_POL = "RISING", CLKOP_TRIM_DELAY = 0;
  parameter CLKOS_TRIM_POL = "RISING", CLKOS_TRIM_DELAY = 0;
  parameter OUTDIVIDER_MUXA = "DIVA", OUTDIVIDER_MUXB = "DIVB", OUTDIVIDER_MUXC = "DIVC", OUTDIVIDER_MUXD = "DIVD";
  parameter PLL_LOCK_MODE = 0, PLL_LOCK_DELAY = 200, STDBY_ENABLE = "DISABLED", REFIN_RESET = "DISABLED";
  parameter SYNC_ENABLE = "DISABLED", INT_LOCK_STICKY = "ENABLED", DPHASE_SOURCE = "DISABLED";
  parameter PLLRST_ENA = "DISABLED", INTFB_WAKE = "DISABLED";
  reg [5:0] cycles = 0;
  always @(posedge CLKI)
    if (PLLRST_ENA == "ENABLED" && RST) cycles <= 0;
    else if (!cycles[5]) cycles <= cycles + 6'd1;
  assign {CLKOP, CLKOS, CLKOS2, CLKOS3, REFCLK, CLKINTFB} = {6{CLKI}};
  assign LOCK = cycles[5], INTLOCK = cycles[5];
endmodule


// Two bits of a pin in a cycle: those of the last rising edge and of the falling edge behind it.
module IDDRX1F (input D, SCLK, RST, output reg Q0, Q1);
  parameter GSR = "ENABLED";
  reg rise, fall;
  always @(negedge SCLK) fall <= D;
  always @(posedge SCLK)
    if (RST) {rise, Q0, Q1} <= 0;
    else {rise, Q0, Q1} <= {D, rise, fall};
endmodule

module ODDRX1F (input D0, D1, SCLK, RST, output Q);
  parameter GSR = "ENABLED";
  reg high, low;
  always @(posedge SCLK)
    if (RST) {high, low} <= 0;
    else {high, low} <= {D0, D1};
  assign Q = SCLK ? high : low;
endmodule

module DELAYG (input A, output Z);
  parameter DEL_MODE = "USER_DEFINED";
  parameter [31:0] DEL_VALUE = 0;
  assign Z = A;
endmodule

module VHI (output Z);
  assign Z = 1'b1;
endmodule

module VLO (output Z);
  assign Z = 1'b0;
endmodule
