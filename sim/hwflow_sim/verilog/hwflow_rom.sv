// A ROM whose contents are in a file, so that new contents need no new compilation of a simulation.
// FILE is relative to the folder of the run: one word a line, hexadecimal.  `data` is the word at `addr` one cycle later.
// A ROM of one word takes no address, whatever it is.
// Simulators read it when they start, synthesis when it runs.  FILE has no type: yosys knows no `string`.
module hwflow_rom #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 1,
    parameter int ADDR = 1,
    parameter FILE = ""
) (
    input logic clk,
    input logic [ADDR-1:0] addr,
    output logic [WIDTH-1:0] data
);
    logic [WIDTH-1:0] words[0:DEPTH-1];

`ifndef SYNTHESIS
    // synthesis translate_off
    integer file;
    initial begin
        file = $fopen(FILE, "r");
        if (file == 0) $fatal(1, "ROM contents must be in the folder of the run: %s is not there", FILE);
        $fclose(file);
    end
    // synthesis translate_on
`endif
    if (FILE != "") initial $readmemh(FILE, words);  // yosys also looks at the module without its parameters

    if (DEPTH > 1) always_ff @(posedge clk) data <= words[addr];
    else always_ff @(posedge clk) data <= words[0];
endmodule
