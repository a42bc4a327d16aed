// The two ends of the test bench hwflow_tb.v: a source and a sink of an AXI4-Stream with random stalls.
// Every simulator draws the same stalls from the same seed.

// A random bit that is 1 in `percent` of the cycles.
module hwflow_tb_random #(
    parameter PORT = 0  // ports draw different bits from one seed
) (
    input clk,
    input reset,
    input [31:0] seed,
    input [6:0] percent,
    output stall
);
    reg [31:0] state;

    function [31:0] next(input [31:0] x);  // xorshift; never 0
        reg [31:0] y;
        begin
            y = x ^ (x << 13);
            y = y ^ (y >> 17);
            next = y ^ (y << 5);
        end
    endfunction

    assign stall = (state[31:8] % 100) < {17'd0, percent};

    always @(posedge clk) state <= reset ? next((seed * 32'd2654435761) ^ (PORT * 32'd40503) | 32'd1) : next(state);
endmodule

// Sends the beats of FILE, TLAST at the last of each frame; a beat that is offered stays until it is taken.
module hwflow_tb_source #(
    parameter BITS = 8,
    parameter BEATS = 1,
    parameter FRAMES = 1,
    parameter PORT = 0,
    parameter FILE = ""
) (
    input clk,
    input reset,
    input [31:0] seed,
    input [6:0] percent,
    output reg [BITS-1:0] tdata,
    output reg tvalid,
    output reg tlast,
    input tready,
    output took
);
    reg [BITS-1:0] beats[0:FRAMES*BEATS-1];
    integer file, sent;
    wire stall;

    hwflow_tb_random #(.PORT(PORT)) random (.clk(clk), .reset(reset), .seed(seed), .percent(percent), .stall(stall));

    initial begin
        file = $fopen(FILE, "r");
        if (file == 0) $fatal(1, "FAIL: %0s must be in the folder of the run", FILE);
        $fclose(file);
        $readmemh(FILE, beats);
    end

    assign took = tvalid && tready;

    always @(posedge clk)
        if (reset) begin
            sent <= 0;
            tvalid <= 0;
        end else if (!tvalid || tready) begin
            tvalid <= sent < FRAMES * BEATS && !stall;
            if (sent < FRAMES * BEATS && !stall) begin
                sent <= sent + 1;
                tdata <= beats[sent];
                tlast <= sent % BEATS == BEATS - 1;
            end
        end
endmodule

// Takes beats and compares each with FILE, and TLAST with the frame; what goes against AXI4-Stream is a failure too.
module hwflow_tb_sink #(
    parameter BITS = 8,
    parameter BEATS = 1,
    parameter FRAMES = 1,
    parameter PORT = 0,
    parameter FILE = "",
    parameter NAME = ""
) (
    input clk,
    input reset,
    input [31:0] seed,
    input [6:0] percent,
    input [BITS-1:0] tdata,
    input tvalid,
    input tlast,
    output tready,
    output took,
    output done,
    output reg [31:0] interval  // cycles from the last frame but one to the last one
);
    reg [BITS-1:0] beats[0:FRAMES*BEATS-1];
    integer file, taken, cycle, began;
    wire stall;
    reg held, held_last;  // a beat was offered and not taken
    reg [BITS-1:0] held_data;

    hwflow_tb_random #(.PORT(PORT)) random (.clk(clk), .reset(reset), .seed(seed), .percent(percent), .stall(stall));

    initial begin
        file = $fopen(FILE, "r");
        if (file == 0) $fatal(1, "FAIL: %0s must be in the folder of the run", FILE);
        $fclose(file);
        $readmemh(FILE, beats);
    end

    assign tready = !stall && !reset;
    assign took = tvalid && tready;
    assign done = taken == FRAMES * BEATS;

    always @(posedge clk)
        if (reset) begin
            taken <= 0;
            cycle <= 0;
            began <= 0;
            held <= 0;
            interval <= 0;
        end else begin
            cycle <= cycle + 1;
            held <= tvalid && !tready;
            held_data <= tdata;
            held_last <= tlast;
            if (tvalid !== 0 && tvalid !== 1) $fatal(1, "FAIL: %0s: TVALID is undefined", NAME);
            if (held && (!tvalid || tdata !== held_data || tlast !== held_last))
                $fatal(1, "FAIL: %0s: beat %0d of frame %0d changed before it was taken", NAME, taken % BEATS,
                       taken / BEATS);
            if (took) begin
                if (done) $fatal(1, "FAIL: %0s: a beat after the last frame", NAME);
                if (tdata !== beats[taken])
                    $fatal(1, "FAIL: %0s: beat %0d of frame %0d is %h and must be %h", NAME, taken % BEATS,
                           taken / BEATS, tdata, beats[taken]);
                if (tlast !== (taken % BEATS == BEATS - 1))
                    $fatal(1, "FAIL: %0s: TLAST of beat %0d of frame %0d is %b", NAME, taken % BEATS, taken / BEATS,
                           tlast);
                if (taken % BEATS == 0) begin
                    began <= cycle;
                    interval <= cycle - began;
                end
                taken <= taken + 1;
            end
        end
endmodule
