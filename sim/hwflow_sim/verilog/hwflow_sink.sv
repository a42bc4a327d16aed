// Takes one output of the core.  `ready` falls at random where the run asks for it.  Watches the rule of streams: once
// valid is up, it and the payload must hold until the transfer.
module hwflow_sink #(
    parameter int WIDTH = 8,
    parameter int ID = 0
) (
    input logic clk,
    input logic load,
    input logic running,
    input logic finish,
    input logic [63:0] cycle,
    input logic stall,
    input logic valid,
    input logic [WIDTH-1:0] payload,
    output logic ready,
    output logic activity,
    output logic complete
);
    import "DPI-C" function void hwflow_violation(input int id, input longint cycle);

    logic waiting = 0;
    logic [WIDTH-1:0] held;

    initial ready = 0;

    hwflow_monitor #(.WIDTH(WIDTH), .ID(ID)) monitor (
        .clk, .load, .running, .finish, .cycle, .valid(valid && ready), .payload, .busy(1'b0),
        .stall(valid && !ready), .activity, .complete);

    always_ff @(posedge clk) begin
        ready <= !stall;
        waiting <= running && valid && !ready;
        held <= payload;
        if (running && waiting && (!valid || payload != held)) hwflow_violation(ID, cycle);
    end
endmodule
