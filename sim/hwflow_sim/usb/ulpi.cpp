// A device behind an ULPI PHY, whose clock drives it.
#include <csignal>
#include <memory>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "Vusb_ulpi.h"
#include "bench.h"
#include "ulpi_phy.h"
#include "verilated.h"

namespace {

// The oscillator of a board, if there is a board around the port.
template <class Top> auto set_oscillator(Top& top, bool level, int) -> decltype(void(top.clk)) {
    top.clk = level;
}
template <class Top> void set_oscillator(Top&, bool, long) {}

template <bool HIGH> void run(Vusb_ulpi& top, VerilatedContext& context, uint64_t seed) {
    const auto cycle = [&](bool dir, bool nxt, uint8_t data) {
        top.usb_dir = dir;
        top.usb_nxt = nxt;
        top.usb_data_i = data;
        top.eval();
        const typename usb::UlpiBus<HIGH>::Link link{uint8_t(top.usb_data_oe ? top.usb_data_o : 0), bool(top.usb_stp)};
        for (const int level : {1, 0}) {
            top.usb_clk = level;
            set_oscillator(top, level, 0);
            top.eval();
            context.timeInc(1);
        }
        return link;
    };
    usb::UlpiBus<HIGH> bus(cycle, seed);
    usb::Host<usb::UlpiBus<HIGH>> host(bus, seed);
    usb::obey(host);
}

}  // namespace

// Arguments: MHz of the line and parts per million, which mean nothing here, seed, and whether the host knows high speed.
int main(int argc, char** argv) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a simulation does not outlive a caller that was killed
#endif
    signal(SIGPIPE, SIG_IGN);
    if (argc < 5) return 2;
    const uint64_t seed = std::strtoull(argv[3], nullptr, 10);
    const auto context = std::make_unique<VerilatedContext>();
    context->commandArgs(argc, argv);
    const auto top = std::make_unique<Vusb_ulpi>(context.get(), "top");
    if (std::atoi(argv[4]) != 0) {
        run<true>(*top, *context, seed);
    } else {
        run<false>(*top, *context, seed);
    }
    top->final();
    return 0;
}
