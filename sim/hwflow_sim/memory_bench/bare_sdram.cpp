// Drives the pins of the simulated chip cycle by cycle.
//
//   program TRACE OUTPUT [+plusargs]
//
// TRACE: eight numbers of 32 bits for each cycle: cke, cs_n, the levels of ras_n cas_n we_n as one number (ras_n
// highest), ba, a, dqm, whether data are driven, the data.  OUTPUT: two numbers of 32 bits for each cycle, what the
// chip gives just before its rising edge, and just before its falling edge.
#include "Vtop.h"
#include "bench.h"
#include "verilated.h"

int main(int count, char** arguments) {
    if (count < 3) return 2;
    VerilatedContext context;
    context.commandArgs(count, arguments);
    Vtop top{&context};
    std::FILE* trace = std::fopen(arguments[1], "rb");
    std::FILE* output = std::fopen(arguments[2], "wb");
    if (!trace || !output) return 2;
    top.clk = 0;
    top.eval();
    uint32_t v[8], seen[2];
    while (std::fread(v, sizeof v, 1, trace) == 1) {
        // The other side changes its pins in the middle of the chip's period.
        top.cke = v[0]; top.cs_n = v[1]; top.ras_n = v[2] >> 2 & 1; top.cas_n = v[2] >> 1 & 1; top.we_n = v[2] & 1;
        top.ba = v[3]; top.a = v[4]; top.dqm = v[5]; top.dq_oe = v[6]; top.dq_o = v[7];
        top.eval();
        seen[0] = top.dq_i;
        top.clk = 1;
        top.eval();
        seen[1] = top.dq_i;
        std::fwrite(seen, sizeof seen, 1, output);
        top.clk = 0;
        top.eval();
    }
    std::fclose(trace);
    std::fclose(output);
    bench::say("first_cycle", top.first_cycle);
    bench::say_violations(top);
    return 0;
}
