// The user flash of a Gowin FPGA with real storage that checks its pins against the data sheet and counts what breaks it.
//
// It is written from the numbers of Gowin's UG295 as public controllers have them (the source in the board file), for
// reads; it writes no cells.  The rising sense enable takes the address; data are there a time later and stay until sense enable falls or the address moves.  At all other times they are noise.
//
// Times are in picoseconds; a step of simulated time is TICK of them, and `clk` changes every HALF.  A simulation knows
// no moment between two edges: at the falling edge of `clk` the data become what the other side takes at the next rising
// one.  A plusarg of the name of a number, such as +t_acc=30000, stands for it in one run.  The contents are bytes of the
// file that +cells=FILE names (for $readmemh), or WORDS words of 32 bits of the file IMAGE.  What was never written is FF.
`timescale 1ps/1ps
module hwflow_user_flash #(
  parameter int BYTES = 77824, ROW_BITS = 9,
  parameter int T_ACC = 25000, T_PWS = 5000,
  parameter int T_WIRES = 0,        // on the way from the registers of the other side and back to them
  parameter int HALF = 5000, TICK = 1, WORDS = 0,
  parameter IMAGE = ""
) (
  input clk, se,
  input [ROW_BITS-1:0] xadr,
  input [5:0] yadr,
  output [31:0] dout,
  output [4*32-1:0] counts,         // violations of each kind, in the order of the localparams below
  output reg [31:0] total,
  output reg [31:0] first_kind,     // of the first violation
  output reg [63:0] first_time
);
  localparam int KINDS = 4;
  localparam int V_HIGH = 0, V_LOW = 1, MOVED = 2, ADDRESS = 3;
  localparam longint LONG_AGO = -64'd1 <<< 50;

  function automatic longint now();
    return longint'($time) * TICK;
  endfunction

  int t_acc = T_ACC, t_pws = T_PWS, t_wires = T_WIRES;
  reg [7:0] cells [0:BYTES-1];
  reg [31:0] image [0:(WORDS > 0 ? WORDS : 1) - 1];
  reg [31:0] violations [0:KINDS-1];
  genvar kind;
  generate for (kind = 0; kind < KINDS; kind = kind + 1) begin : each
    assign counts[kind*32 +: 32] = violations[kind];
  end endgenerate
  longint rose, fell, moved;
  string file;
  int n, found;
  initial begin
    found = $value$plusargs("t_acc=%d", t_acc);       found = $value$plusargs("t_pws=%d", t_pws);
    found = $value$plusargs("t_wires=%d", t_wires);
    for (n = 0; n < BYTES; n = n + 1) cells[n] = 8'hFF;
    if ($value$plusargs("cells=%s", file)) $readmemh(file, cells);
    if (WORDS > 0) begin
      found = $fopen(IMAGE, "r");
      if (found == 0) $fatal(1, "weights must be in the folder of the run: %s is not there", IMAGE);
      $fclose(found);
      $readmemh(IMAGE, image);
      for (n = 0; n < 4 * WORDS; n = n + 1) cells[n] = image[n / 4][8 * (n % 4) +: 8];
    end
    for (n = 0; n < KINDS; n = n + 1) violations[n] = 0;
    total = 0; first_kind = 0; first_time = 0;
    rose = LONG_AGO; fell = LONG_AGO; moved = LONG_AGO;
  end

  task fail(input int what);
    violations[what] = violations[what] + 1;
    if (total == 0) begin first_kind = what; first_time = now(); end
    total = total + 1;
  endtask

  reg [31:0] noise = 32'h2545F491, word;
  reg valid, sensed;
  initial begin valid = 0; sensed = 0; end
  assign dout = valid ? word : word ^ (noise | 32'd1 << noise[4:0]);

  wire [ROW_BITS+5:0] place = {xadr, yadr};
  wire [31:0] first = {15'd0, place, 2'b00};

  always @(xadr or yadr) begin
    if (se && sensed) fail(MOVED);
    moved = now();
    sensed = 0;
  end

  always @(posedge se) begin
    if (now() - fell < longint'(t_pws)) fail(V_LOW);
    if (now() - moved < longint'(t_pws)) fail(MOVED);
    if (first >= BYTES) fail(ADDRESS);
    else word = {cells[first + 3], cells[first + 2], cells[first + 1], cells[first]};
    rose = now();
    sensed = 1;
  end

  always @(negedge se) begin
    if (now() - rose < longint'(t_pws)) fail(V_HIGH);
    fell = now();
    sensed = 0;
  end

  always @(negedge clk) begin
    noise <= {noise[30:0], noise[31] ^ noise[21] ^ noise[1] ^ noise[0]};
    valid <= se && sensed && now() + longint'(HALF) - rose >= longint'(t_acc) + longint'(t_wires);
  end
endmodule
