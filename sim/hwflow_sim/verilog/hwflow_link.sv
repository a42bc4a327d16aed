// Watches a link between stages: since when it has been full, since when empty, and how many words wait at the end.
module hwflow_link #(
    parameter int ID = 0
) (
    input logic clk,
    input logic load,
    input logic running,
    input logic finish,
    input logic [63:0] cycle,
    input logic full,
    input logic empty,
    input logic [31:0] level
);
    import "DPI-C" function void hwflow_report_link(
        input int id, input longint full_since, input longint empty_since, input longint level);

    // The last cycle in which it was not.
    logic [63:0] not_full = '1;
    logic [63:0] not_empty = '1;

    always_ff @(posedge clk) begin
        if (load) begin
            not_full <= '1;
            not_empty <= '1;
        end else if (running) begin
            if (!full) not_full <= cycle;
            if (!empty) not_empty <= cycle;
            if (finish) hwflow_report_link(ID, full ? not_full + 1 : '1, empty ? not_empty + 1 : '1, 64'(level));
        end
    end
endmodule
