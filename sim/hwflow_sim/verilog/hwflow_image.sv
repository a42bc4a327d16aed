// Gives the words of a file once, from the first on.  As in hwflow_rom, FILE is relative to the folder of the run.
module hwflow_image #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 1,
    parameter FILE = ""
) (
    input logic clk,
    input logic ready,
    output logic valid,
    output logic [WIDTH-1:0] payload
);
    logic [WIDTH-1:0] words[0:DEPTH-1];
    logic [31:0] place = 0;

    integer file;
    initial begin
        file = $fopen(FILE, "r");
        if (file == 0) $fatal(1, "weights must be in the folder of the run: %s is not there", FILE);
        $fclose(file);
        $readmemh(FILE, words);
    end

    assign valid = place < DEPTH;
    assign payload = words[place];

    always_ff @(posedge clk) if (valid && ready) place <= place + 1;
endmodule
