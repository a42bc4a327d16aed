// Drives the pins of the simulated chip, edge by edge.
//
//   program TRACE OUTPUT [+plusargs]
//
// TRACE: five numbers of 32 bits for each edge: the time since the one before in ps, sck, cs_n, the levels of IO3 to
// IO0, which of them are driven.  OUTPUT: a number of 32 bits for each edge, what the chip shows after it.
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
    top.sck = 0;
    top.cs_n = 1;
    top.eval();
    uint32_t v[5];
    while (std::fread(v, sizeof v, 1, trace) == 1) {
        context.timeInc(v[0]);
        top.sck = v[1]; top.cs_n = v[2]; top.io_o = v[3]; top.io_oe = v[4];
        top.eval();
        const uint32_t seen = top.io_i;
        std::fwrite(&seen, sizeof seen, 1, output);
    }
    std::fclose(trace);
    std::fclose(output);
    bench::say_violations(top);
    return 0;
}
