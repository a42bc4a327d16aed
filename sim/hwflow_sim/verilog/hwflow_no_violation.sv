// Ends the simulation when a simulated chip has counted a violation of its data sheet.
module hwflow_no_violation (
    input logic clk,
    input logic [31:0] total,
    input logic [31:0] first_kind,
    input logic [63:0] first_cycle
);
    always_ff @(posedge clk) begin
        if (total != 0) begin
            $fatal(1, "the controller of the memory broke rule %0d of the chip's data sheet in its clock %0d",
                   first_kind, first_cycle);
        end
    end
endmodule
