// Plays the frames of one input: takes beats from the C++ side and offers them to the core.  valid never waits for ready, and the
// payload holds until the transfer.  Without stalls the next beat stands right after a transfer.
module hwflow_source #(
    parameter int WIDTH = 8,
    parameter int ID = 0,
    parameter int INPUT = 0
) (
    input logic clk,
    input logic load,
    input logic enable,
    input logic running,
    input logic finish,
    input logic [63:0] cycle,
    input logic stall,
    input logic ready,
    output logic valid,
    output logic [WIDTH-1:0] payload,
    output logic activity,
    output logic complete
);
    import "DPI-C" function longint hwflow_source_word(input int number);
    import "DPI-C" function longint hwflow_expected_beats(input int id);
    import "DPI-C" function void hwflow_report(
        input int id, input longint beats, input longint last_cycle, input longint busy, input longint stalled,
        input int busy_now, input int stalled_now);

    localparam int WORDS = (WIDTH + 63) / 64;

    logic [63:0] left = 0;
    logic [63:0] sent = 0;
    logic [63:0] stalled = 0;
    logic [63:0] last_cycle = '1;
    bit [64*WORDS-1:0] next;

    assign activity = valid && ready;
    assign complete = left == 0 && !valid;

    initial valid = 0;

    always_ff @(posedge clk) begin
        if (load) begin
            valid <= 0;
            left <= hwflow_expected_beats(ID);
            sent <= 0;
            stalled <= 0;
            last_cycle <= '1;
        end else if (enable && (!valid || ready)) begin
            if (left != 0 && !stall) begin
                for (int n = 0; n < WORDS; n++) next[64*n+:64] = hwflow_source_word(INPUT);
                payload <= next[WIDTH-1:0];
                left <= left - 1;
                valid <= 1;
            end else begin
                valid <= 0;
            end
        end
        if (running) begin
            if (valid && ready) begin
                sent <= sent + 1;
                last_cycle <= cycle;
            end
            if (valid && !ready) stalled <= stalled + 1;
            if (finish) hwflow_report(ID, sent, last_cycle, 0, stalled, 0, 32'(valid && !ready));
        end
    end
endmodule
