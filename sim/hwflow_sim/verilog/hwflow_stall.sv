// A random bit a cycle: `stall` is high with the probability that the run asks for, from its seed.
//
// The state is a xorshift generator (G. Marsaglia, "Xorshift RNGs", 2003; shifts 13, 17, 5), a linear feedback register
// that makes 32 new bits a cycle, so that consecutive draws do not overlap.
module hwflow_stall #(
    parameter int ID = 0
) (
    input logic clk,
    input logic load,
    output logic stall
);
    // Probability in 1/65536, and a state that is not zero.
    import "DPI-C" function int hwflow_stall_threshold(input int id);
    import "DPI-C" function int hwflow_stall_seed(input int id);

    logic [31:0] state = 1;
    logic [31:0] a, b, c;
    logic [16:0] threshold = 0;

    assign a = state ^ (state << 13);
    assign b = a ^ (a >> 17);
    assign c = b ^ (b << 5);
    assign stall = {1'b0, state[15:0]} < threshold;

    always_ff @(posedge clk) begin
        if (load) begin
            state <= hwflow_stall_seed(ID);
            threshold <= 17'(hwflow_stall_threshold(ID));
        end else if (threshold != 0) begin
            state <= c;
        end
    end
endmodule
