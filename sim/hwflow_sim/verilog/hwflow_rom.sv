// A ROM whose contents are read when the simulation starts, so that new contents need no new compilation.
// FILE is relative to the folder of the run: one word a line, hexadecimal.  `data` is the word at `addr` one cycle later.
module hwflow_rom #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 1,
    parameter int ADDR = 1,
    parameter string FILE = ""
) (
    input logic clk,
    input logic [(ADDR > 0 ? ADDR : 1)-1:0] addr,
    output logic [WIDTH-1:0] data
);
    logic [WIDTH-1:0] words[DEPTH];

    initial begin
        automatic int file = $fopen(FILE, "r");
        if (file == 0) $fatal(1, "ROM contents must be in the folder of the run: %s is not there", FILE);
        $fclose(file);
        $readmemh(FILE, words);
    end

    always_ff @(posedge clk) data <= words[addr];
endmodule
