// Records every beat of one boundary, and counts the cycles in which its stage works and in which its output waits.
module hwflow_monitor #(
    parameter int WIDTH = 8,
    parameter int ID = 0
) (
    input logic clk,
    input logic load,
    input logic running,
    input logic finish,
    input logic [63:0] cycle,
    input logic valid,
    input logic [WIDTH-1:0] payload,
    input logic busy,
    input logic stall,
    output logic activity,
    output logic complete
);
    import "DPI-C" function longint hwflow_expected_beats(input int id);
    import "DPI-C" function void hwflow_record(input int id, input longint cycle, input longint word);
    import "DPI-C" function void hwflow_report(
        input int id, input longint beats, input longint last_cycle, input longint busy, input longint stalled,
        input int busy_now, input int stalled_now);

    localparam int WORDS = (WIDTH + 63) / 64;

    logic [63:0] expected = 0;
    logic [63:0] beats = 0;
    logic [63:0] last_cycle = '1;
    logic [63:0] worked = 0;
    logic [63:0] stalled = 0;
    bit [64*WORDS-1:0] padded;

    assign padded = (64*WORDS)'(payload);
    assign complete = beats >= expected;
    assign activity = valid && !complete;

    always_ff @(posedge clk) begin
        if (load) begin
            expected <= hwflow_expected_beats(ID);
            beats <= 0;
            last_cycle <= '1;
            worked <= 0;
            stalled <= 0;
        end else if (running) begin
            if (valid) begin
                for (int n = 0; n < WORDS; n++) hwflow_record(ID, cycle, padded[64*n+:64]);
                beats <= beats + 1;
                last_cycle <= cycle;
            end
            if (busy) worked <= worked + 1;
            if (stall) stalled <= stalled + 1;
            if (finish) hwflow_report(ID, beats, last_cycle, worked, stalled, 32'(busy), 32'(stall));
        end
    end
endmodule
