// The simulated SoC with its serial line at standard input and output: "w 5a" sends a byte, "r 0" prints the next one
// that came, "q 0" ends.  Nothing moves while a line is waited for.
module soc_tb #(
    parameter BIT = 50,  // cycles of a bit
    parameter PATIENCE = 100_000_000  // cycles to wait for a byte
);
    localparam STDIN = 32'h8000_0000;

    reg clk = 0;
    reg rx = 1;
    wire tx;
    reg [7:0] came[0:4095];
    integer in = 0, out = 0, count, value, k, cycles;
    integer j;
    reg [7:0] command, received;

    soc soc (.clk25(clk), .serial_rx(rx), .serial_tx(tx));

    always #5 clk = !clk;

    initial
        forever begin  // the receiver: each bit in its middle
            @(negedge tx);
            repeat (BIT / 2) @(posedge clk);
            if (!tx) begin
                for (j = 0; j < 8; j = j + 1) begin
                    repeat (BIT) @(posedge clk);
                    received[j] = tx;
                end
                repeat (BIT) @(posedge clk);
                if (!tx) $fatal(1, "FAIL: a byte without its stop bit");
                came[in % 4096] = received;
                in = in + 1;
            end
        end

    initial begin
        repeat (100) @(posedge clk);
        command = 0;
        while (command != "q") begin
            count = $fscanf(STDIN, " %c %h", command, value);
            if (count != 2) command = "q";
            if (command == "w") begin
                for (k = 0; k < 10; k = k + 1) begin
                    @(negedge clk) rx = k == 0 ? 1'b0 : k == 9 ? 1'b1 : value[k - 1];
                    repeat (BIT - 1) @(posedge clk);
                end
            end
            if (command == "r") begin
                cycles = 0;
                while (in == out) begin
                    @(posedge clk) cycles = cycles + 1;
                    if (cycles == PATIENCE) $fatal(1, "FAIL: no byte came in %0d cycles", PATIENCE);
                end
                $display("%02x", came[out % 4096]);
                $fflush;
                out = out + 1;
            end
        end
        $finish;
    end
endmodule
