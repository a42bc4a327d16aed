// An SDR SDRAM with real storage that checks every command against the data sheet and counts what breaks it.
//
// It is written from the data sheets alone.  It knows bursts of one word and CAS latencies of 2 and 3; what else a chip
// could do (longer bursts, precharge by A10 of a column command, self refresh, power-down) counts as a violation.
//
// Times are in picoseconds.  A plusarg of the name of a time, such as +t_rc=66000, stands for it in one run.
module hwflow_sdr_sdram #(
  parameter int BANK_BITS = 2, ROW_BITS = 13, COLUMN_BITS = 9, WIDTH = 16, ADDRESS_BITS = 13,
  parameter int CLOCK = 20000,
  parameter int T_CK2 = 10000, T_CK3 = 7500, T_RC = 66000, T_RAS = 44000, T_RAS_MAX = 120000000, T_RP = 20000,
  parameter int T_RCD = 20000, T_RRD = 15000, T_RFC = 66000, T_WR = 15000, T_REFI = 7812500,
  parameter int T_POWER_UP = 100000000, C_WR = 1, C_RRD = 1, C_MRD = 2, POWER_UP_REFRESHES = 2,
  parameter int POSTPONED = 8
) (
  input clk, cke, cs_n, ras_n, cas_n, we_n,
  input [BANK_BITS-1:0] ba,
  input [ADDRESS_BITS-1:0] a,
  input [WIDTH/8-1:0] dqm,
  input [WIDTH-1:0] dq_in,
  input dq_driven,                  // the other side drives the data lines
  output [WIDTH-1:0] dq_out,        // what stands on them where it does not
  output [24*32-1:0] counts,        // violations of each kind, in the order of the localparams below
  output reg [31:0] total,
  output reg [31:0] first_kind,     // of the first violation
  output reg [63:0] first_cycle,
  output reg [63:0] cycle
);
  localparam int POWER_UP = 0, INITIALIZE = 1, V_RC = 2, V_RAS = 3, V_RAS_MAX = 4, V_RP = 5, V_RCD = 6, V_RRD = 7,
    V_RFC = 8, V_WR = 9, V_MRD = 10, REFRESH_LATE = 11, RETENTION = 12, CLOSED = 13, OPEN = 14, NOT_IDLE = 15,
    CONTENTION = 16, FLOATING = 17, MODE = 18, CLOCK_PERIOD = 19, ADDRESS = 20, CKE_LOW = 21, UNSUPPORTED = 22,
    UNUSED = 23;
  localparam int BANKS = 1 << BANK_BITS, ROWS = 1 << ROW_BITS;
  localparam longint LONG_AGO = -64'd1 <<< 50;

  int t_ck2 = T_CK2, t_ck3 = T_CK3, t_rc = T_RC, t_ras = T_RAS, t_ras_max = T_RAS_MAX, t_rp = T_RP, t_rcd = T_RCD;
  int t_rrd = T_RRD, t_rfc = T_RFC, t_wr = T_WR, t_refi = T_REFI, t_power_up = T_POWER_UP;
  int c_wr = C_WR, c_rrd = C_RRD, c_mrd = C_MRD, power_up_refreshes = POWER_UP_REFRESHES;

  reg [WIDTH-1:0] cells [0:(1 << (BANK_BITS + ROW_BITS + COLUMN_BITS)) - 1];
  reg [31:0] violations [0:23];
  reg is_open [0:BANKS-1];
  reg [ROW_BITS-1:0] row [0:BANKS-1];
  longint activated [0:BANKS-1], precharged [0:BANKS-1], written [0:BANKS-1];  // moments of the last ones
  longint refreshed [0:ROWS-1];                                              // when each row was
  longint last_activate, last_refresh, last_mode;
  int refresh_row, refreshes, owed;
  longint next_owed;
  reg all_precharged, mode_set, command_seen;
  reg [1:0] latency;

  genvar kind;
  generate for (kind = 0; kind < 24; kind = kind + 1) begin : each
    assign counts[kind*32 +: 32] = violations[kind];
  end endgenerate

  int n, found;
  initial begin
    found = $value$plusargs("t_ck2=%d", t_ck2);     found = $value$plusargs("t_ck3=%d", t_ck3);
    found = $value$plusargs("t_rc=%d", t_rc);       found = $value$plusargs("t_ras=%d", t_ras);
    found = $value$plusargs("t_ras_max=%d", t_ras_max);
    found = $value$plusargs("t_rp=%d", t_rp);       found = $value$plusargs("t_rcd=%d", t_rcd);
    found = $value$plusargs("t_rrd=%d", t_rrd);     found = $value$plusargs("t_rfc=%d", t_rfc);
    found = $value$plusargs("t_wr=%d", t_wr);       found = $value$plusargs("t_refi=%d", t_refi);
    found = $value$plusargs("t_power_up=%d", t_power_up);
    found = $value$plusargs("c_wr=%d", c_wr);       found = $value$plusargs("c_rrd=%d", c_rrd);
    found = $value$plusargs("c_mrd=%d", c_mrd);
    found = $value$plusargs("power_up_refreshes=%d", power_up_refreshes);
    for (n = 0; n < 24; n = n + 1) violations[n] = 0;
    for (n = 0; n < ROWS; n = n + 1) refreshed[n] = 0;
    for (n = 0; n < BANKS; n = n + 1) begin
      is_open[n] = 0; row[n] = 0; activated[n] = LONG_AGO; precharged[n] = LONG_AGO; written[n] = LONG_AGO;
    end
    total = 0; first_kind = 0; first_cycle = 0; cycle = 0;
    last_activate = LONG_AGO; last_refresh = LONG_AGO; last_mode = LONG_AGO;
    refresh_row = 0; refreshes = 0; owed = 0; next_owed = 0;
    all_precharged = 0; mode_set = 0; command_seen = 0; latency = 3;
  end

  task fail(input int what);
    violations[what] = violations[what] + 1;
    if (total == 0) begin first_kind = what; first_cycle = cycle; end
    total = total + 1;
  endtask

  task precharge(input int bank, input longint now);
    if (is_open[bank]) begin
      if (now - activated[bank] < t_ras) fail(V_RAS);
      if (now - activated[bank] > t_ras_max) fail(V_RAS_MAX);
      if (now - written[bank] < t_wr || now - written[bank] < c_wr * CLOCK) fail(V_WR);
    end
    is_open[bank] = 0;
    precharged[bank] = now;
  endtask

  task need_idle(input longint now);  // for refresh and mode register: all banks closed, and long enough
    reg busy, early;
    busy = 0; early = 0;
    for (n = 0; n < BANKS; n = n + 1) begin
      busy = busy | is_open[n];
      early = early | (now - precharged[n] < t_rp);
    end
    if (busy) fail(NOT_IDLE);
    if (early) fail(V_RP);
  endtask

  // The word of a read: it is on the lines from `latency - 1` edges after the command to `latency` edges after it, in
  // the first half noise (the access time may be as long as half a period), in the second the data.
  reg [WIDTH-1:0] fetched, fetched_late, shown;
  reg fetched_on, fetched_late_on, shown_on;
  reg [WIDTH/8-1:0] masked;
  reg tick, tock;
  reg [31:0] noise;
  initial begin
    fetched_on = 0; fetched_late_on = 0; shown_on = 0; tick = 0; tock = 0; noise = 32'h2545F491; masked = 0;
  end
  assign dq_out = shown_on && tick == tock ? shown : shown ^ noise[WIDTH-1:0];

  longint now;
  int bank, place;
  always @(posedge clk) begin
    cycle = cycle + 1;
    now = longint'(cycle) * CLOCK;
    bank = int'(ba);
    tick <= ~tick;
    noise <= {noise[30:0], noise[31] ^ noise[21] ^ noise[1] ^ noise[0]} | 32'h00010001;
    shown <= latency == 2 ? fetched : fetched_late;
    shown_on <= (latency == 2 ? fetched_on : fetched_late_on) && masked == 0;  // two clocks before its data
    fetched_late <= fetched; fetched_late_on <= fetched_on;
    fetched_on <= 0;
    masked <= dqm;
    if (shown_on && dq_driven) fail(CONTENTION);

    if (mode_set) begin
      while (now >= next_owed) begin
        next_owed = next_owed + t_refi;
        owed = owed + 1;
        if (owed > POSTPONED) fail(REFRESH_LATE);
      end
    end

    if (cke && !cs_n && {ras_n, cas_n, we_n} != 3'b111) begin
      if (now < t_power_up) fail(POWER_UP);
      if (now - last_refresh < t_rfc) fail(V_RFC);
      if (now - last_mode < c_mrd * CLOCK) fail(V_MRD);
      command_seen = 1;
      case ({ras_n, cas_n, we_n})
        3'b011: begin  // activate
          if (!all_precharged || refreshes < power_up_refreshes || !mode_set) fail(INITIALIZE);
          if (is_open[bank]) fail(OPEN);
          if (now - precharged[bank] < t_rp) fail(V_RP);
          if (now - activated[bank] < t_rc) fail(V_RC);
          if (activated[bank] != last_activate && (now - last_activate < t_rrd || now - last_activate < c_rrd * CLOCK))
            fail(V_RRD);
          if (a >> ROW_BITS != 0) fail(ADDRESS);
          is_open[bank] = 1;
          row[bank] = a[ROW_BITS-1:0];
          activated[bank] = now;
          last_activate = now;
        end
        3'b101, 3'b100: begin  // read, write
          if (!is_open[bank]) fail(CLOSED);
          if (now - activated[bank] < t_rcd) fail(V_RCD);
          if (a[10]) fail(UNSUPPORTED);
          if (a >> COLUMN_BITS != 0 && !a[10]) fail(ADDRESS);
          place = int'({ba, row[bank], a[COLUMN_BITS-1:0]});
          if (we_n) begin
            fetched <= cells[place];
            fetched_on <= 1;
          end else begin
            if (!dq_driven) fail(FLOATING);
            for (n = 0; n < WIDTH / 8; n = n + 1)
              if (!dqm[n]) cells[place][n*8 +: 8] = dq_in[n*8 +: 8];
            written[bank] = now;
          end
        end
        3'b010:  // precharge
          if (a[10]) begin
            for (int b = 0; b < BANKS; b = b + 1) precharge(b, now);
            all_precharged = 1;
          end else precharge(bank, now);
        3'b001: begin  // refresh
          need_idle(now);
          for (n = 0; n < BANKS; n = n + 1) if (now - activated[n] < t_rc) begin fail(V_RC); break; end
          if (mode_set && now - refreshed[refresh_row] > longint'(t_refi) * ROWS) fail(RETENTION);
          refreshed[refresh_row] = now;
          refresh_row = (refresh_row + 1) % ROWS;
          refreshes = refreshes + 1;
          last_refresh = now;
          if (owed > 0) owed = owed - 1;
        end
        3'b000: begin  // mode register: burst of one, sequential, plain writes
          need_idle(now);
          if (ba != 0 || a[3:0] != 0 || a >> 7 != 0 || (a[6:4] != 2 && a[6:4] != 3)) fail(MODE);
          latency = a[5:4];
          if (CLOCK < (latency == 2 ? t_ck2 : t_ck3)) fail(CLOCK_PERIOD);
          if (!mode_set) begin
            next_owed = now + t_refi;
            for (n = 0; n < ROWS; n = n + 1) refreshed[n] = now;
          end
          mode_set = 1;
          last_mode = now;
        end
        default: fail(UNSUPPORTED);
      endcase
    end
    if (!cke && command_seen) fail(CKE_LOW);
  end

  always @(negedge clk) begin
    tock <= tick;
    if (shown_on && dq_driven) fail(CONTENTION);
  end
endmodule
