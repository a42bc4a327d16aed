// A QSPI flash with real storage that checks its pins against the data sheet and counts what breaks it.
//
// It is written from the Winbond data sheets alone.  It knows the commands that a reader needs: release from
// power-down, power-down, JEDEC identifier, status registers, the write of status register 2 to its volatile copy, and
// fast reads with the address on two or four lines, with and without continuous read mode.  It writes no cells.
//
// Times are in picoseconds; a step of simulated time is TICK of them.  A plusarg of the name of a number, such as
// +t_shsl=50000, stands for it in one run.  The contents are bytes of the file that +cells=FILE names (for $readmemh), or
// WORDS words of 32 bits of the file IMAGE, from the byte OFFSET on.  What was never written is FF.
`timescale 1ps/1ps
module hwflow_qspi_flash #(
  parameter int ADDRESS_BITS = 24, DUAL_DUMMY = 0, QUAD_DUMMY = 4,
  parameter int CONTINUOUS = 1,     // bits 5 and 4 of the mode may keep the chip in continuous read mode
  parameter int ID = 24'hEF7018,
  parameter int T_C = 7519, T_SLCH = 3000, T_CHSH = 3000, T_SHSL = 50000, T_DVCH = 1000, T_CHDX = 2000,
  parameter int T_CLQV = 6000, T_RES1 = 3000000,
  // The pads of the other side: the way out and back at its longest; how much longer than they must be data are there
  // when it takes them at a falling clock; and how long after the rising clock it looks.
  parameter int T_PADS = 0, T_KEPT = 0, LOOKS = 0,
  parameter int TICK = 1, OFFSET = 0, WORDS = 0,
  parameter IMAGE = ""
) (
  input sck, cs_n,
  input [3:0] io_in, io_driven,     // levels of IO3 to IO0, and whether the other side drives them
  output [3:0] io_out,              // what stands on them where it does not
  output [17*32-1:0] counts,        // violations of each kind, in the order of the localparams below
  output reg [31:0] total,
  output reg [31:0] first_kind,     // of the first violation
  output reg [63:0] first_time
);
  localparam int KINDS = 17;
  localparam int CLOCK = 0, V_SLCH = 1, V_CHSH = 2, V_SHSL = 3, V_DVCH = 4, V_CHDX = 5, V_RES1 = 6, ASLEEP = 7,
    NOT_QUAD = 8, MODE = 9, FLOATING = 10, CONTENTION = 11, HOLD = 12, CUT = 13, NOT_ENABLED = 14, ADDRESS = 15,
    UNKNOWN = 16;
  localparam longint LONG_AGO = -64'd1 <<< 50;

  function automatic longint now();
    return longint'($time) * TICK;
  endfunction

  int id = ID, t_c = T_C, t_slch = T_SLCH, t_chsh = T_CHSH, t_shsl = T_SHSL, t_dvch = T_DVCH, t_chdx = T_CHDX;
  int t_clqv = T_CLQV, t_res1 = T_RES1, t_pads = T_PADS, t_kept = T_KEPT, looks = LOOKS;
  int asleep_first = 1;    // as an iCE40 leaves it
  int continuous_first = 0;  // lines of a read that was left in continuous mode, 0 for none
  int qe_first = 0;        // the non-volatile bit QE
  int qe_writable = 1;
  int mute = 0;            // 1: there is no chip, the lines are high; 2: they are low

  reg [7:0] cells [0:(1 << ADDRESS_BITS) - 1];
  reg [31:0] violations [0:KINDS-1];
  genvar kind;
  generate for (kind = 0; kind < KINDS; kind = kind + 1) begin : each
    assign counts[kind*32 +: 32] = violations[kind];
  end endgenerate

  typedef enum {NOTHING, COMMAND, AT, MODE_BITS, WAIT, READ, ANSWER, STATUS} phase_t;
  phase_t phase;
  reg asleep, qe, continuous, volatile_enabled, driving, floating, beyond;
  reg [7:0] command, octet;
  reg [23:0] answer, address;
  int lines, clocks, dummies, bits_left;
  longint selected, deselected, rose, fell, moved, released;

  reg [31:0] image [0:(WORDS > 0 ? WORDS : 1) - 1];
  string file;
  int n, found;
  initial begin
    found = $value$plusargs("id=%d", id);             found = $value$plusargs("t_c=%d", t_c);
    found = $value$plusargs("t_slch=%d", t_slch);     found = $value$plusargs("t_chsh=%d", t_chsh);
    found = $value$plusargs("t_shsl=%d", t_shsl);     found = $value$plusargs("t_dvch=%d", t_dvch);
    found = $value$plusargs("t_chdx=%d", t_chdx);     found = $value$plusargs("t_pads=%d", t_pads);     found = $value$plusargs("t_kept=%d", t_kept);
    found = $value$plusargs("looks=%d", looks);
    found = $value$plusargs("t_clqv=%d", t_clqv);
    found = $value$plusargs("t_res1=%d", t_res1);     found = $value$plusargs("asleep=%d", asleep_first);
    found = $value$plusargs("continuous=%d", continuous_first);
    found = $value$plusargs("qe=%d", qe_first);       found = $value$plusargs("qe_writable=%d", qe_writable);
    found = $value$plusargs("mute=%d", mute);
    for (n = 0; n < (1 << ADDRESS_BITS); n = n + 1) cells[n] = 8'hFF;
    if ($value$plusargs("cells=%s", file)) $readmemh(file, cells);
    if (WORDS > 0) begin
      found = $fopen(IMAGE, "r");
      if (found == 0) $fatal(1, "weights must be in the folder of the run: %s is not there", IMAGE);
      $fclose(found);
      $readmemh(IMAGE, image);
      for (n = 0; n < 4 * WORDS; n = n + 1) cells[OFFSET + n] = image[n / 4][8 * (n % 4) +: 8];
    end
    for (n = 0; n < KINDS; n = n + 1) violations[n] = 0;
    total = 0; first_kind = 0; first_time = 0;
    phase = NOTHING; asleep = asleep_first != 0; qe = qe_first != 0; continuous = continuous_first != 0;
    lines = continuous_first; volatile_enabled = 0; driving = 0; floating = 0; beyond = 0;
    command = continuous_first == 4 ? 8'hEB : 8'hBB;
    selected = LONG_AGO; deselected = LONG_AGO; rose = LONG_AGO; fell = LONG_AGO; moved = LONG_AGO; released = LONG_AGO;
  end

  task fail(input int what);
    violations[what] = violations[what] + 1;
    if (total == 0) begin first_kind = what; first_time = now(); end
    total = total + 1;
  endtask

  // The lines that the chip drives, and noise where nobody does and until the data are valid.  A simulation knows no
  // moment between two edges: at the rising clock the lines get what the other side sees `looks` after it.  At the next
  // falling clock they are noise again.
  reg [31:0] noise = 32'h2545F491;
  reg [3:0] levels, driven;
  reg valid;
  initial begin levels = 0; driven = 0; valid = 0; end
  wire [3:0] shown = valid ? levels : levels ^ (noise[7:4] | 4'b0001 << noise[9:8]);
  assign io_out = mute == 1 ? 4'b1111 : mute == 2 ? 4'b0000 : (shown & driven) | (noise[3:0] & ~driven);

  always @(posedge sck)
    valid <= driving && now() + longint'(looks) - fell >= longint'(t_clqv) + longint'(t_pads) && t_kept >= 0;

  always @(io_in or io_driven) begin
    if (!cs_n && now() - rose < longint'(t_chdx) && rose > selected) fail(V_CHDX);
    moved = now();
  end

  always @(negedge cs_n) begin
    if (now() - deselected < longint'(t_shsl)) fail(V_SHSL);
    if (now() - released < longint'(t_res1)) fail(V_RES1);
    selected = now();
    clocks = 0; floating = 0; beyond = 0;
    phase = mute != 0 ? NOTHING : continuous ? AT : COMMAND;
    if (!continuous) lines = 1;
  end

  task decode;
    command = octet;
    if (asleep && command != 8'hAB && command != 8'hFF) begin
      fail(ASLEEP);
      phase = NOTHING;
    end else case (command)
      8'hFF, 8'hAB, 8'hB9, 8'h50: phase = NOTHING;  // what they do comes with the end of the command
      8'h9F: reply(id[23:0], 24);
      8'h05: reply({24'h000000}, 8);
      8'h35: reply({6'h00, qe, 1'b0, 16'h0000}, 8);
      8'h31: begin
        if (!volatile_enabled) fail(NOT_ENABLED);
        phase = STATUS; clocks = 0;
      end
      8'hBB, 8'hEB: begin
        if (command == 8'hEB && !qe) begin fail(NOT_QUAD); phase = NOTHING; end
        else begin phase = AT; clocks = 0; lines = command == 8'hEB ? 4 : 2; end
      end
      default: begin fail(UNKNOWN); phase = NOTHING; end
    endcase
  endtask

  task reply(input [23:0] what, input int bits);
    answer = what; bits_left = bits; phase = ANSWER; lines = 1;
  endtask

  task take_bits;  // of an address or a mode, on all lines
    for (n = lines - 1; n >= 0; n = n - 1) begin
      if (!io_driven[n] && !(phase == MODE_BITS && (clocks + 1) * lines > 4)) floating = 1;
      if (phase == AT) address = {address[22:0], io_in[n]};
      else octet = {octet[6:0], io_in[n]};
    end
    clocks = clocks + 1;
  endtask

  always @(posedge sck) if (!cs_n) begin
    if (now() - rose < longint'(t_c)) fail(CLOCK);
    if (now() - selected < longint'(t_slch)) fail(V_SLCH);
    if (now() - moved < longint'(t_dvch)) fail(V_DVCH);
    if (!qe && mute == 0 && !(io_driven[3] && io_in[3])) fail(HOLD);
    if ((driven & io_driven) != 0) fail(CONTENTION);
    rose = now();
    case (phase)
      COMMAND: begin
        if (!io_driven[0]) fail(FLOATING);
        octet = {octet[6:0], io_in[0]};
        clocks = clocks + 1;
        if (clocks == 8) decode;
      end
      STATUS: begin
        octet = {octet[6:0], io_in[0]};
        clocks = clocks + 1;
      end
      AT: begin
        take_bits;
        if (clocks * lines == 24) begin phase = MODE_BITS; clocks = 0; end
      end
      MODE_BITS: begin
        take_bits;
        if (clocks * lines == 8) begin
          continuous = octet[5:4] == 2'b10 && CONTINUOUS != 0;
          if (CONTINUOUS == 0 && octet[7:4] != 4'hF) fail(MODE);
          dummies = lines == 4 ? QUAD_DUMMY : DUAL_DUMMY;
          phase = dummies == 0 ? READ : WAIT;
          bits_left = 0;
        end
      end
      WAIT: begin
        dummies = dummies - 1;
        if (dummies == 0) phase = READ;
      end
      READ: if (driving) begin
        if (floating) fail(FLOATING);
        if (beyond) fail(ADDRESS);
        floating = 0; beyond = 0;
      end
      default: ;
    endcase
  end

  always @(negedge sck) if (!cs_n) begin
    noise <= {noise[30:0], noise[31] ^ noise[21] ^ noise[1] ^ noise[0]};
    fell = now();
    valid <= 0;
    if (phase == ANSWER) begin
      driving = bits_left > 0;
      levels <= {2'b00, answer[23], 1'b0};
      answer = {answer[22:0], 1'b0};
      bits_left = bits_left - 1;
    end
    if (phase == READ) begin
      if (!driving && lines == 4 && address[1:0] != 0) beyond = 1;  // must begin with a multiple of four
      driving = 1;
      if (bits_left == 0) begin
        if (address >> ADDRESS_BITS != 0) beyond = 1;
        octet = cells[address[ADDRESS_BITS-1:0]];
        address = address + 1;
        bits_left = 8;
      end
      levels <= lines == 4 ? octet[7:4] : {2'b00, octet[7:6]};
      octet = octet << lines;
      bits_left = bits_left - lines;
    end
    driven <= !driving ? 4'b0000 : lines == 1 ? 4'b0010 : lines == 2 ? 4'b0011 : 4'b1111;
  end

  always @(posedge cs_n) begin
    if (now() - rose < longint'(t_chsh)) fail(V_CHSH);
    if (phase == MODE_BITS || ((phase == COMMAND || phase == AT) && clocks != 0)) fail(CUT);
    deselected = now();
    driving = 0; driven <= 0; valid <= 0;
    if (phase == NOTHING && mute == 0) case (command)
      8'hAB: begin asleep = 0; released = now(); end
      8'hB9: if (!asleep) asleep = 1;
      8'h50: volatile_enabled = 1;
      default: ;
    endcase
    if (phase == STATUS) begin
      if (clocks != 8) fail(CUT);
      else if (volatile_enabled && qe_writable != 0) qe = octet[1];
      volatile_enabled = 0;
    end
    phase = NOTHING;
    command = 0;
  end
endmodule
