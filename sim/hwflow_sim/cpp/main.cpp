// The simulation's main program: cocotb decides, the clock runs in bursts.
//
// cocotb is loaded through VPI and sees `go` and `done` of the bench.  When its test has raised `go`, the clock toggles
// here in a tight loop, with no callback in between, until `done` answers or a timer of cocotb's is due.  So Python costs
// nothing per cycle.  With HWFLOW_WAVES=FILE in a traced build, all signals go to FILE in FST format.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "Vbench.h"
#include "recorder.h"
#include "verilated.h"
#include "verilated_vpi.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
#endif

extern "C" void vlog_startup_routines_bootstrap();

namespace {

constexpr uint64_t NEVER = ~0ULL;

VerilatedContext* context = nullptr;
Vbench* top = nullptr;

#if VM_TRACE_FST
std::unique_ptr<VerilatedFstC> waves;

void open_waves() {
    const char* file = std::getenv("HWFLOW_WAVES");
    if (file == nullptr || *file == 0) return;
    waves = std::make_unique<VerilatedFstC>();
    top->trace(waves.get(), 99);
    waves->open(file);
}

inline void dump_waves() {
    if (waves) waves->dump(context->time());
}

void close_waves() {
    waves.reset();  // closes the file, and must not outlive the model
}
#else
void open_waves() {}
inline void dump_waves() {}
void close_waves() {}
#endif

void settle_value_callbacks() {
    while (VerilatedVpi::callValueCbs()) {}
}

// One moment of simulated time: evaluate, let cocotb read and write, until nothing changes any more.
void settle() {
    do {
        do {
            VerilatedVpi::clearEvalNeeded();
            top->eval();
            VerilatedVpi::doInertialPuts();
            settle_value_callbacks();
        } while (VerilatedVpi::evalNeeded());
        VerilatedVpi::callCbs(cbReadWriteSynch);
        VerilatedVpi::doInertialPuts();
        settle_value_callbacks();
    } while (VerilatedVpi::evalNeeded());
    VerilatedVpi::callCbs(cbReadOnlySynch);
}

// Clock cycles of two time units, until `done` has followed `go` or cocotb's next timer is due.
void burst(uint64_t deadline) {
    const auto start = std::chrono::steady_clock::now();
    uint64_t cycles = 0;
    do {
        context->timeInc(1);
        top->clk = 1;
        top->eval();
        dump_waves();
        context->timeInc(1);
        top->clk = 0;
        top->eval();
        dump_waves();
        cycles++;
    } while (top->done != top->go && context->time() < deadline && !context->gotFinish());
    cycles_run += cycles;
    seconds_run += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void simulate() {
    VerilatedVpi::callCbs(cbStartOfSimulation);
    settle_value_callbacks();
    while (!context->gotFinish()) {
        settle();
        const uint64_t deadline = VerilatedVpi::cbNextDeadline();
        if (top->go != top->done) {
            burst(deadline);
        } else if (deadline == NEVER) {
            break;  // nobody waits for anything
        } else {
            context->time(deadline);
        }
        VerilatedVpi::callCbs(cbNextSimTime);
        settle_value_callbacks();
        VerilatedVpi::callTimedCbs();
        settle_value_callbacks();
    }
}

}  // namespace

int main(int argc, char** argv) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a simulation does not outlive a caller that was killed
#endif
    const auto owned = std::make_unique<VerilatedContext>();
    context = owned.get();
    Verilated::threadContextp(context);
    context->commandArgs(argc, argv);
    context->fatalOnVpiError(false);  // cocotb asks for optional things and handles the answer
    context->traceEverOn(VM_TRACE_FST);
    const auto model = std::make_unique<Vbench>(context, "");
    top = model.get();
    open_waves();
    vlog_startup_routines_bootstrap();
    simulate();
    VerilatedVpi::callCbs(cbEndOfSimulation);
    close_waves();
    top->final();
    return context->errorCount() > 0 ? 1 : 0;
}
