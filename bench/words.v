// A memory in two copies of a netlist, which differ in some words: 0 is the base, 1 the other.  `bits` of `words` are
// turned in the first step where `turned` says so; what differs then is followed.  `given` is what the base reads.
module hwflow_words #(parameter ABITS = 1, WIDTH = 1, READS = 1, WRITES = 1, COUNT = 1) (
  input clock, first, turned, input [COUNT*ABITS-1:0] words, input [COUNT*WIDTH-1:0] bits, input [WRITES-1:0] ticks,
  input [READS*ABITS-1:0] read_address0, read_address1, input [READS*WIDTH-1:0] given, other,
  output reg [READS*WIDTH-1:0] read0, read1, input [WRITES*ABITS-1:0] write_address0, write_address1,
  input [WRITES*WIDTH-1:0] data0, data1, enable0, enable1, output reg differs
);
  wire [COUNT*ABITS-1:0] places;
  hwflow_held #(COUNT*ABITS) held (clock, first, words, places);
  reg [COUNT*WIDTH-1:0] kept = 0, next;
  reg [WIDTH-1:0] enable, changed;
  reg found;
  wire [COUNT*WIDTH-1:0] now = first ? (turned ? bits : {COUNT*WIDTH{1'b0}}) : kept;
  always @(posedge clock) kept <= next;
  integer k, n;
  always @* begin
    for (k = 0; k < READS; k = k + 1) begin
      read0[k*WIDTH +: WIDTH] = given[k*WIDTH +: WIDTH];
      read1[k*WIDTH +: WIDTH] = given[k*WIDTH +: WIDTH];
      for (n = 0; n < COUNT; n = n + 1) if (read_address0[k*ABITS +: ABITS] == places[n*ABITS +: ABITS])
        read1[k*WIDTH +: WIDTH] = given[k*WIDTH +: WIDTH] ^ now[n*WIDTH +: WIDTH];
      if (read_address0[k*ABITS +: ABITS] != read_address1[k*ABITS +: ABITS])
        read1[k*WIDTH +: WIDTH] = other[k*WIDTH +: WIDTH];
    end
  end
  always @* begin
    next = now;
    differs = 0;
    for (k = 0; k < WRITES; k = k + 1) if (ticks[k]) begin
      enable = enable0[k*WIDTH +: WIDTH];
      changed = (data0[k*WIDTH +: WIDTH] ^ data1[k*WIDTH +: WIDTH]) & enable;
      if (enable != enable1[k*WIDTH +: WIDTH]) differs = 1;
      if (|enable && write_address0[k*ABITS +: ABITS] != write_address1[k*ABITS +: ABITS]) differs = 1;
      found = 0;
      for (n = 0; n < COUNT; n = n + 1) if (write_address0[k*ABITS +: ABITS] == places[n*ABITS +: ABITS]) begin
        found = 1;
        next[n*WIDTH +: WIDTH] = next[n*WIDTH +: WIDTH] & ~enable | changed;
      end
      if (|changed && !found) differs = 1;
    end
  end
endmodule

// High in the first step.
module hwflow_first (input clock, output first);
  reg started = 0;
  always @(posedge clock) started <= 1;
  assign first = !started;
endmodule

// What `in` was in the first step.
module hwflow_held #(parameter WIDTH = 1) (input clock, first, input [WIDTH-1:0] in, output [WIDTH-1:0] out);
  reg [WIDTH-1:0] kept = 0;
  assign out = first ? in : kept;
  always @(posedge clock) kept <= out;
endmodule
