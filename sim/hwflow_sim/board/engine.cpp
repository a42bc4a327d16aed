// A board that runs: the clock, and a serial line on its pins as the other end sees it.
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
uint64_t now = 0;
double bit_cycles = 0;

// Bit times in which the line has the wrong level, each with the same probability.
class Noise {
  public:
    void set(double rate, uint64_t seed) {
        rate_ = rate;
        random_.seed(seed);
        level = false;
        plan();
    }
    void step() {
        if (now < next_) return;
        level = !level;
        if (level) {
            next_ = now + std::llround(bit_cycles);
            flips++;
        } else {
            plan();
        }
    }
    bool level = false;
    uint64_t flips = 0;

  private:
    void plan() {
        if (rate_ <= 0) {
            next_ = NEVER;
            return;
        }
        const double slots = std::floor(std::log1p(-std::uniform_real_distribution<>()(random_)) / std::log1p(-rate_));
        next_ = now + std::llround(slots * bit_cycles);
    }
    double rate_ = 0;
    uint64_t next_ = NEVER;
    std::mt19937_64 random_;
};

// Bytes to the board: a start bit, eight data bits, a stop bit, at the exact rate.
class Sender {
  public:
    std::deque<uint8_t> bytes;
    bool level = true;
    bool busy() const { return next_ != NEVER || !bytes.empty(); }
    void step() {
        if (next_ == NEVER) {
            if (bytes.empty()) return;
            shift_ = bytes.front() << 1 | 0x200u;
            bytes.pop_front();
            bit_ = 0;
            began_ = now;
        } else if (now < next_) {
            return;
        } else if (++bit_ == 10) {
            next_ = NEVER;
            step();
            return;
        }
        level = shift_ >> bit_ & 1;
        next_ = began_ + std::llround((bit_ + 1) * bit_cycles);
    }

  private:
    unsigned shift_ = 0, bit_ = 0;
    uint64_t began_ = 0, next_ = NEVER;
};

// Bytes from the board, sampled in the middle of their bits.  A byte whose stop bit is low is passed on as a terminal in
// raw mode does.
class Receiver {
  public:
    std::vector<uint8_t> bytes;
    uint64_t broken = 0;
    bool busy() const { return next_ != NEVER; }
    void step(bool level) {
        if (next_ == NEVER) {
            if (level) {
                idle_ = true;
            } else if (idle_) {
                began_ = now;
                bit_ = 0;
                shift_ = 0;
                idle_ = false;
                plan();
            }
            return;
        }
        if (now < next_) return;
        if (bit_ == 0 && level) {
            next_ = NEVER;
        } else if (bit_ == 9) {
            bytes.push_back(shift_ >> 1);
            broken += !level;
            next_ = NEVER;
        } else {
            shift_ |= unsigned(level) << bit_++;
            plan();
        }
    }

  private:
    void plan() { next_ = began_ + std::llround((bit_ + 0.5) * bit_cycles); }
    unsigned shift_ = 0, bit_ = 0;
    bool idle_ = false;
    uint64_t began_ = 0, next_ = NEVER;
};

Sender sender;
Receiver receiver;
Noise to_board, from_board;
uint64_t last_activity = 0;

inline void cycle() {
    sender.step();
    to_board.step();
    from_board.step();
    top->rx = sender.level ^ to_board.level;
    for (const int level : {1, 0}) {  // a step of simulated time is half a cycle
        top->clk = level;
        top->eval();
        simulation->timeInc(1);
    }
    now++;
    if (top->fault) std::exit(1);  // its reason is on standard error
    receiver.step(top->tx ^ from_board.level);
    if (sender.busy() || receiver.busy()) last_activity = now;
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
    const uint64_t facts[] = {receiver.bytes.size(), now, receiver.broken, to_board.flips, from_board.flips, top->led};
    write_all(facts, sizeof facts);
    write_all(receiver.bytes.data(), receiver.bytes.size());
    receiver.bytes.clear();
}

// Send bytes; until so many have come back, or nothing moved on either line for `quiet` cycles.
void exchange() {
    std::vector<uint8_t> bytes(number<uint64_t>());
    if (!read_all(bytes.data(), bytes.size())) std::exit(0);
    const auto wanted = number<uint64_t>(), quiet = number<uint64_t>();
    sender.bytes.insert(sender.bytes.end(), bytes.begin(), bytes.end());
    last_activity = now;
    while ((sender.busy() || receiver.bytes.size() < wanted) && now - last_activity < quiet) cycle();
    answer();
}

// Begin to send bytes; until one has come back, or so many cycles have passed.
void wait() {
    std::vector<uint8_t> bytes(number<uint64_t>());
    if (!read_all(bytes.data(), bytes.size())) std::exit(0);
    sender.bytes.insert(sender.bytes.end(), bytes.begin(), bytes.end());
    for (auto left = number<uint64_t>(); receiver.bytes.empty() && left > 0; left--) cycle();
    answer();
}

// Let the terminal be the other end, until the next command.
void serve() {
    pollfd ends[] = {{COMMANDS, POLLIN, 0}, {terminal, POLLIN, 0}};
    while (true) {
        const bool slow = now - last_activity > LONG_QUIET;
        poll(ends, 2, slow ? 1 : 0);
        if (ends[0].revents != 0) break;
        if (ends[1].revents & POLLIN && sender.bytes.size() < WAITING) {
            uint8_t bytes[WAITING];
            const ssize_t got = read(terminal, bytes, sizeof bytes);
            if (got > 0) sender.bytes.insert(sender.bytes.end(), bytes, bytes + got);
        }
        for (uint64_t k = 0; k < BURST; k++) cycle();
        if (!receiver.bytes.empty()) {
            const ssize_t put = write(terminal, receiver.bytes.data(), receiver.bytes.size());
            if (put > 0) receiver.bytes.erase(receiver.bytes.begin(), receiver.bytes.begin() + put);
            if (receiver.bytes.size() > UNREAD) receiver.bytes.clear();
        }
    }
    answer();
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
            to_board.set(rate, 2 * seed);
            from_board.set(rate, 2 * seed + 1);
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

// Arguments: clock cycles of a bit on the line, seed of everything that is undefined at first, file of the terminal;
// then those of models, which begin with a +.
int main(int argc, char** argv) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a simulation does not outlive a caller that was killed
#endif
    signal(SIGPIPE, SIG_IGN);
    if (argc < 4) return 2;
    terminal = std::atoi(argv[3]);
    bit_cycles = std::atof(argv[1]);
    const auto context = std::make_unique<VerilatedContext>();
    context->commandArgs(argc, argv);  // models ask for arguments
    simulation = context.get();
    context->randReset(2);
    context->randSeed(std::atoi(argv[2]));
    const auto model = std::make_unique<Vboard>(context.get(), "board");
    top = model.get();
    top->rx = 1;
    top->clk = top->press = 0;
    obey();
    top->final();
    return 0;
}
