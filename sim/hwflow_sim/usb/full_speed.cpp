// A device at full speed on its two pins: a clock of 48 MHz, and that of the line beside it.
#include <csignal>
#include <memory>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "Vusb_full_speed.h"
#include "bench.h"
#include "full_speed.h"
#include "verilated.h"

namespace {

// Designs whose PLL is a wire have no clock besides that of the line.
template <class Top> auto set_sample_clock(Top& top, bool level, int) -> decltype(void(top.usb_sample_clk)) {
    top.usb_sample_clk = level;
}
template <class Top> void set_sample_clock(Top&, bool, long) {}

}  // namespace

// Arguments: MHz of the line, parts per million by which the host is slow, seed; then those of models.
int main(int argc, char** argv) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a simulation does not outlive a caller that was killed
#endif
    signal(SIGPIPE, SIG_IGN);
    if (argc < 4) return 2;
    const double line = std::atof(argv[1]) / 48, ppm = std::atof(argv[2]);
    const uint64_t seed = std::strtoull(argv[3], nullptr, 10);
    const auto context = std::make_unique<VerilatedContext>();
    context->commandArgs(argc, argv);
    const auto top = std::make_unique<Vusb_full_speed>(context.get(), "top");
    uint64_t tick = 0;
    double phase = 0.3;
    const auto cycle = [&](bool d_p, bool d_n) {
        top->usb_d_p_i = d_p;
        top->usb_d_n_i = d_n;
        for (int half = 0; half < 2; half++) {
            tick++;
            set_sample_clock(*top, tick & 1, 0);
            if ((phase += line) >= 1) {
                phase -= 1;
                top->clk = !top->clk;
            }
            top->eval();
            context->timeInc(1);
        }
        return usb::FullSpeedBus::Device{bool(top->usb_d_p_oe), bool(top->usb_d_p_o), bool(top->usb_d_n_o),
                                         bool(top->usb_pullup)};
    };
    usb::FullSpeedBus bus(cycle, ppm, seed);
    usb::Host<usb::FullSpeedBus> host(bus, seed);
    usb::obey(host);
    top->final();
    return 0;
}
