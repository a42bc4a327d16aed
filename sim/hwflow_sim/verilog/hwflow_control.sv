// Runs the bench: reset, cycle counter, watchdog, end of the run.
//
// `go` starts a run; `done` answers at its end, and `go` low brings everything back.  Cycle 0 is the first cycle without
// reset; `prime` is the cycle before it, in which the source prepares its first beat.  A run ends RUN_OUT cycles after
// every boundary has moved all its beats (`complete`), so that a beat too many is seen, when no boundary has moved a beat
// that was due (`activity`) for as many cycles as the run allows, or in the cycle in which the run asks to be stopped.
//
// With WARM_UP the core runs without input before `prime`, until it is `settled` (its weights have come from a memory
// outside), and some cycles longer, which the run's seed decides: so the memory's refreshes have another phase.
module hwflow_control #(
    parameter bit WARM_UP = 0
) (
    input logic clk,
    input logic settled,
    input logic go,
    input logic activity,
    input logic complete,
    output logic rst,
    output logic load,
    output logic prime,
    output logic running,
    output logic finish,
    output logic [63:0] cycle,
    output logic done
);
    import "DPI-C" function longint hwflow_idle_limit();
    import "DPI-C" function longint hwflow_stop_cycle();
    import "DPI-C" function void hwflow_finished(input longint cycle);
    import "DPI-C" function int hwflow_stall_seed(input int id);

    localparam int RESET_CYCLES = 8;
    localparam int RUN_OUT = 256;

    logic [3:0] phase = 0;
    logic [63:0] idle = 0;
    logic [63:0] limit = 0;
    logic [63:0] stop = '1;
    logic [9:0] longer = 0;
    logic warm = !WARM_UP;  // the core has what it needs before a run
    logic warming;

    assign running = phase == RESET_CYCLES;
    assign warming = WARM_UP && phase == RESET_CYCLES - 1;
    assign rst = !running && !warming && !done;
    assign load = phase == 1;
    assign prime = phase == RESET_CYCLES - 1 && warm;
    assign finish = running && (idle >= (complete ? RUN_OUT : limit) || cycle == stop);

    initial begin
        cycle = 0;
        done = 0;
    end

    always_ff @(posedge clk) begin
        if (!go) begin
            phase <= 0;
            done <= 0;
        end else if (warming && !warm) begin
            if (settled) longer <= longer - 1;
            warm <= settled && longer == 0;
        end else if (!done && !running) begin
            phase <= phase + 1;
            cycle <= 0;
            idle <= 0;
            if (load) begin
                limit <= hwflow_idle_limit();
                stop <= hwflow_stop_cycle();
                longer <= 10'(hwflow_stall_seed(0));
            end
        end else if (running) begin
            cycle <= cycle + 1;
            idle <= activity ? 0 : idle + 1;
            if (finish) begin
                hwflow_finished(cycle);
                phase <= RESET_CYCLES + 1;
                done <= 1;
            end
        end
    end
endmodule
