// A board that runs: the clock, and the line to the host on its pins as the other end sees it.
//
// Commands come on standard input, answers go to standard output; both are what `process.py` says.  Between two commands
// the clock stands still, so that a run depends on nothing but its commands.
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <random>
#include <unistd.h>
#include <vector>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "Vboard.h"
#include "verilated.h"

namespace {
constexpr uint64_t NEVER = ~0ULL;
// Cycles of the board's clock since the start.
uint64_t now = 0;
}  // namespace

// One of `lines/` with a class `Line`: uart.h says what it has.
#include "line.h"

namespace {

constexpr int COMMANDS = 0, ANSWERS = 1;
int terminal = -1;
// Bytes that wait to be sent to the board: more stay with the operating system, as a serial adapter leaves them there.
constexpr size_t WAITING = 256;
// Bytes from the board that nobody reads: more are lost, as in a serial adapter.
constexpr size_t UNREAD = 1u << 16;
// A terminal is looked at so often; a board whose line was quiet for long runs so much slower.
constexpr uint64_t BURST = 2000, LONG_QUIET = 1u << 21;

VerilatedContext* simulation = nullptr;
Vboard* top = nullptr;
Line* line = nullptr;
uint64_t last_activity = 0;

inline void cycle() {
    line->drive(*top);
    for (const int level : {1, 0}) {  // a step of simulated time is half a cycle
        top->clk = level;
        top->eval();
        line->half(*top);
        simulation->timeInc(1);
    }
    now++;
    if (top->fault) std::exit(1);  // its reason is on standard error
    line->sample(*top);
    if (line->busy()) last_activity = now;
}

bool read_all(void* place, size_t size) {
    auto* at = static_cast<char*>(place);
    while (size > 0) {
        const ssize_t got = read(COMMANDS, at, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        size -= got;
    }
    return true;
}

void write_all(const void* place, size_t size) {
    const auto* at = static_cast<const char*>(place);
    while (size > 0) {
        const ssize_t put = write(ANSWERS, at, size);
        if (put < 0 && errno != EINTR) std::exit(1);  // nobody listens any more
        if (put > 0) {
            at += put;
            size -= put;
        }
    }
}

template <class T> T number() {
    T value;
    if (!read_all(&value, sizeof value)) std::exit(0);
    return value;
}

void answer() {
    const uint64_t facts[] = {line->from_board.size(), now, line->broken(), line->flips_to_board(),
                              line->flips_from_board(), top->led};
    write_all(facts, sizeof facts);
    write_all(line->from_board.data(), line->from_board.size());
    line->from_board.clear();
}

// Send bytes; until so many have come back, or nothing moved on either line for `quiet` cycles.
void exchange() {
    std::vector<uint8_t> bytes(number<uint64_t>());
    if (!read_all(bytes.data(), bytes.size())) std::exit(0);
    const auto wanted = number<uint64_t>(), quiet = number<uint64_t>();
    line->to_board.insert(line->to_board.end(), bytes.begin(), bytes.end());
    last_activity = now;
    while ((line->sending() || line->from_board.size() < wanted) && now - last_activity < quiet) cycle();
    answer();
}

// Begin to send bytes; until one has come back, or so many cycles have passed.
void wait() {
    std::vector<uint8_t> bytes(number<uint64_t>());
    if (!read_all(bytes.data(), bytes.size())) std::exit(0);
    line->to_board.insert(line->to_board.end(), bytes.begin(), bytes.end());
    for (auto left = number<uint64_t>(); line->from_board.empty() && left > 0; left--) cycle();
    answer();
}

// Let the terminal be the other end, until the next command; only of a line that has one.
void serve() {
    pollfd ends[] = {{COMMANDS, POLLIN, 0}, {terminal, POLLIN, 0}};
    while (true) {
        const bool slow = now - last_activity > LONG_QUIET;
        poll(ends, 2, slow ? 1 : 0);
        if (ends[0].revents != 0) break;
        if (ends[1].revents & POLLIN && line->to_board.size() < WAITING) {
            uint8_t bytes[WAITING];
            const ssize_t got = read(terminal, bytes, sizeof bytes);
            if (got > 0) line->to_board.insert(line->to_board.end(), bytes, bytes + got);
        }
        for (uint64_t k = 0; k < BURST; k++) cycle();
        if (!line->from_board.empty()) {
            const ssize_t put = write(terminal, line->from_board.data(), line->from_board.size());
            if (put > 0) line->from_board.erase(line->from_board.begin(), line->from_board.begin() + put);
            if (line->from_board.size() > UNREAD) line->from_board.clear();
        }
    }
    answer();
}

// Lines that can be set have `set`.
template <class Some> auto set(Some& some, const char* text, int) -> decltype(some.set(text)) { some.set(text); }
template <class Some> void set(Some&, const char* text, long) {
    std::fprintf(stderr, "the line cannot be set: %s\n", text);
    std::exit(1);
}

void obey() {
    char command;
    while (read_all(&command, 1)) {
        if (command == 'X') {
            exchange();
        } else if (command == 'W') {
            wait();
        } else if (command == 'S') {
            serve();
        } else if (command == 'N') {
            const auto rate = number<double>();
            const auto seed = number<uint64_t>();
            line->noise(rate, seed);
        } else if (command == 'L') {
            std::vector<char> text(number<uint64_t>() + 1);
            if (!read_all(text.data(), text.size() - 1)) std::exit(0);
            set(*line, text.data(), 0);
        } else if (command == 'R') {
            top->press = 1;
            for (uint64_t left = number<uint64_t>(); left > 0; left--) cycle();
            top->press = 0;
        } else {
            std::fprintf(stderr, "unknown command %d\n", command);
            std::exit(1);
        }
    }
}

}  // namespace

// Arguments: those of the line, file of the terminal; then those of Verilator and of models, which begin with a +.
int main(int argc, char** argv) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a simulation does not outlive a caller that was killed
#endif
    signal(SIGPIPE, SIG_IGN);
    if (argc < 3) return 2;
    terminal = std::atoi(argv[2]);
    const auto other_end = std::make_unique<Line>(argv[1]);
    line = other_end.get();
    const auto context = std::make_unique<VerilatedContext>();
    context->commandArgs(argc, argv);
    simulation = context.get();
    const auto model = std::make_unique<Vboard>(context.get(), "board");
    top = model.get();
    line->begin(*top);
    top->clk = top->press = 0;
    obey();
    top->final();
    return 0;
}
