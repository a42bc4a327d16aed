// Fills a memory of weights behind the simulated chip, takes the beats of all its streams, and measures.
//
//   program WORDS IMAGE OUTPUT SEED FILL_STALL RESTART CLEAR PERIOD MEMORY_PERIOD BEATS STALL STOP PACE [+plusargs]
//
// WORDS: what the memory is filled with, numbers of 32 bits, IMAGE of them each time.  OUTPUT: three numbers of 64 bits
// for each beat: its stream, how often all was restarted or cleared before it, its bits.  FILL_STALL is in 1/256.
// RESTART is the chance of a restart in a cycle, in 1/65536; it lasts for 1 to 16 cycles.  CLEAR are cycles in which the
// images are forgotten, after which the next IMAGE words are filled.  The periods are those of the two clocks, in ps.
// The last four have a number for each stream, with commas between: the beats that it must give at least, the chance in
// 1/256 that it waits in a cycle, the beats after which it waits for good (0: never), and the beats in 2^20 cycles that
// it takes at most (0: any), from START cycles after the memory is filled.  Prints numbers by name.
#include "Vtop.h"
#include "bench.h"
#include "verilated.h"

using bench::chance;
using bench::random16;
using bench::say;

static const uint64_t START = 8192, PATIENCE = 200000;

static std::vector<uint64_t> numbers(const char* text) {
    std::vector<uint64_t> found;
    for (char* at = const_cast<char*>(text); *at;) {
        found.push_back(std::strtoull(at, &at, 10));
        if (*at) at++;
    }
    return found;
}

struct Stream { uint64_t beats, stall, stop, pace, got, first, last, gap, late; bool ready; };

int main(int count, char** arguments) {
    if (count < 14) return 2;
    VerilatedContext context;
    context.commandArgs(count, arguments);
    const auto words = bench::read_file<uint32_t>(arguments[1]);
    const uint64_t image = std::strtoull(arguments[2], nullptr, 10);
    std::FILE* output = std::fopen(arguments[3], "wb");
    bench::seed(arguments[4]);
    const uint32_t fill_stall = std::atoi(arguments[5]), restart = std::atoi(arguments[6]);
    const auto clears = numbers(arguments[7]);
    const uint64_t period = std::strtoull(arguments[8], nullptr, 10), memory = std::strtoull(arguments[9], nullptr, 10);
    const auto beats = numbers(arguments[10]), stall = numbers(arguments[11]), stop = numbers(arguments[12]);
    const auto pace = numbers(arguments[13]);
    std::vector<Stream> streams;
    for (size_t n = 0; n < beats.size(); n++) {
        streams.push_back({beats[n], stall[n], stop[n], pace[n], 0, 0, 0, 0, 0, false});
    }

    Vtop top{&context};
    auto edges = [&](bool here, bool there) {  // simulated time is that of `sync`
        if (here) context.timeInc(period / 2);
        if (here) top.clk = 1;
        if (there) top.memory_clk = 1;
        top.eval();
        if (here) context.timeInc(period - period / 2);
        if (here) top.clk = 0;
        if (there) top.memory_clk = 0;
        top.eval();
    };
    top.clk = top.memory_clk = top.fill_valid = top.clear = top.restart = top.ready = 0;
    top.rst = top.memory_rst = 1;
    top.eval();
    for (int n = 0; n < 4; n++) edges(true, true);
    top.rst = top.memory_rst = 0;

    uint64_t cycle = 0, quiet = 0, word = 0, cleared = 0, epoch = 0, filled = 0, now = period, there = memory / 2 + 1;
    uint32_t restarting = 0;
    bool stuck = false;
    for (;; cycle++, now += period) {
        for (; there < now; there += memory) edges(false, true);
        bool done = true;
        for (auto& s : streams) done &= s.got >= (s.stop ? s.stop : s.beats);
        if (done && cleared == clears.size()) break;
        if (++quiet > PATIENCE) { stuck = true; break; }
        top.clear = cleared < clears.size() && cycle == clears[cleared];
        if (restarting) restarting--;
        else if (restart && random16() < restart) restarting = 1 + (random16() & 15);
        top.restart = restarting > 0;
        if (top.clear) { cleared++; word = 0; top.fill_valid = 0; }
        if (top.clear || top.restart) epoch++;
        if (!top.fill_valid && !top.clear && word < image && !chance(fill_stall)) {
            top.fill_payload = words[cleared * image + word];
            top.fill_valid = 1;
        }
        uint32_t ready = 0;
        for (size_t n = 0; n < streams.size(); n++) {
            Stream& s = streams[n];
            s.ready = !top.clear && !top.restart && !(s.stop && s.got >= s.stop) && !chance(s.stall);
            const bool begun = filled && cycle > filled + START;
            if (s.pace) s.ready &= begun && ((cycle - filled - START) * s.pace >> 20) > s.got;
            ready |= uint32_t(s.ready) << n;
        }
        top.ready = ready;
        top.eval();
        if (!filled && top.filled) filled = cycle;
        const bool taken = top.fill_valid && top.fill_ready;
        for (size_t n = 0; n < streams.size(); n++) {
            Stream& s = streams[n];
            const bool valid = top.valid >> n & 1;
            if (s.ready && !valid) s.late++;
            if (!s.ready || !valid) continue;
            const uint64_t record[3] = {n, epoch, uint64_t(top.payload[2 * n + 1]) << 32 | top.payload[2 * n]};
            std::fwrite(record, sizeof record, 1, output);
            if (!s.got++) s.first = cycle;
            else if (cycle - s.last > s.gap) s.gap = cycle - s.last;
            s.last = cycle;
            if (s.got <= (s.stop ? s.stop : s.beats)) quiet = 0;
        }
        const bool both = there == now;
        if (both) there += memory;
        edges(true, both);
        if (taken) { top.fill_valid = 0; word++; quiet = 0; }
    }
    std::fclose(output);
    if (stuck) say("stuck", cycle);
    say("cycles", cycle); say("filled", filled);
    for (size_t n = 0; n < streams.size(); n++) {
        std::printf("got%zu %llu\nfirst%zu %llu\nlast%zu %llu\ngap%zu %llu\nlate%zu %llu\n", n,
                    (unsigned long long)streams[n].got, n, (unsigned long long)streams[n].first, n,
                    (unsigned long long)streams[n].last, n, (unsigned long long)streams[n].gap, n,
                    (unsigned long long)streams[n].late);
    }
    bench::say_violations(top);
    return 0;
}
