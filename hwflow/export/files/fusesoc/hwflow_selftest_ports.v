// The two ends of hwflow_selftest.v: a player and a checker of frames that are in ROMs.

// Plays the beats of FILE again and again, at full speed.
module hwflow_selftest_player #(
    parameter BITS = 8,
    parameter BEATS = 1,
    parameter FRAMES = 1,
    parameter ADDR = 1,
    parameter FILE = ""
) (
    input clk,
    input reset,
    output [BITS-1:0] tdata,
    output reg tvalid,
    output tlast,
    input tready
);
    reg [31:0] index, beat;
    wire step = tvalid && tready;
    wire [31:0] next = reset || (step && index == FRAMES * BEATS - 1) ? 32'd0 : index + {31'd0, step};

    hwflow_rom #(.WIDTH(BITS), .DEPTH(FRAMES * BEATS), .ADDR(ADDR), .FILE(FILE)) rom (
        .clk(clk), .addr(next[ADDR-1:0]), .data(tdata)
    );

    assign tlast = beat == BEATS - 1;

    always @(posedge clk) begin
        index <= next;
        tvalid <= !reset;
        beat <= reset || (step && tlast) ? 32'd0 : beat + {31'd0, step};
    end
endmodule

// Compares each beat with FILE, again and again.
module hwflow_selftest_checker #(
    parameter BITS = 8,
    parameter BEATS = 1,
    parameter FRAMES = 1,
    parameter ADDR = 1,
    parameter FILE = ""
) (
    input clk,
    input reset,
    input [BITS-1:0] tdata,
    input tvalid,
    input tlast,
    output reg wrong,  // a beat or TLAST was; until reset
    output reg [31:0] rounds  // how often all frames came
);
    reg [31:0] index, beat;
    wire [BITS-1:0] expected;
    wire round = tvalid && index == FRAMES * BEATS - 1;
    wire [31:0] next = reset || round ? 32'd0 : index + {31'd0, tvalid};

    hwflow_rom #(.WIDTH(BITS), .DEPTH(FRAMES * BEATS), .ADDR(ADDR), .FILE(FILE)) rom (
        .clk(clk), .addr(next[ADDR-1:0]), .data(expected)
    );

    always @(posedge clk) begin
        index <= next;
        beat <= reset || (tvalid && beat == BEATS - 1) ? 32'd0 : beat + {31'd0, tvalid};
        wrong <= !reset && (wrong || (tvalid && (tdata != expected || tlast != (beat == BEATS - 1))));
        rounds <= reset ? 32'd0 : rounds + {31'd0, round};
    end
endmodule
