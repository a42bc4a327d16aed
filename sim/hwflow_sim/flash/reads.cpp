// Sends requests to a controller with the simulated chip behind it, and takes the words, piece by piece.
//
//   program REQUESTS PIECES SEED STALL HALF COUNT [+plusargs]
//
// REQUESTS: four numbers of 32 bits each: first, last, cycles before it is offered, words after which it is dropped by
// a restart (0: never).  PIECES: what came, 32 bits each.  STALL: of 256 cycles, how many `read` is not ready.  HALF: half
// a period of the clock, in ps.  COUNT: the pieces of a word.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>
#include "Vtop.h"
#include "verilated.h"

struct Request { uint32_t first, last, wait, drop; };

static uint64_t state;
static bool chance(uint32_t of256) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return (state >> 20 & 255) < of256;
}

int main(int count, char** arguments) {
    if (count < 7) return 2;
    VerilatedContext context;
    context.commandArgs(count, arguments);
    std::vector<Request> requests;
    std::FILE* input = std::fopen(arguments[1], "rb");
    std::FILE* output = std::fopen(arguments[2], "wb");
    if (!input || !output) return 2;
    for (Request r; std::fread(&r, sizeof r, 1, input) == 1;) requests.push_back(r);
    std::fclose(input);
    state = 0x9E3779B97F4A7C15ULL ^ (std::strtoull(arguments[3], nullptr, 10) * 0xD1342543DE82EF95ULL);
    const uint32_t stall = std::atoi(arguments[4]);
    const uint64_t half_period = std::strtoull(arguments[5], nullptr, 10), patience = 200000;
    const uint64_t pieces = std::strtoull(arguments[6], nullptr, 10);
    Vtop top{&context};
    top.clk = 0;
    top.eval();
    auto half = [&](int level) { context.timeInc(half_period); top.clk = level; top.eval(); };

    // A request that waits for its pieces: how many are left, or left before it is dropped, and since when it waits.
    struct Pending { uint64_t left, drop, since; bool begun; };
    std::deque<Pending> pending;
    uint64_t next = 0, cycle = 0, quiet = 0, initialized = 0, latency = 0, gap = 0, first = 0, last = 0, came = 0;
    uint64_t wait = requests.empty() ? 0 : requests[0].wait;
    bool restarting = false;
    top.request_valid = top.read_ready = top.restart = 0;
    top.rst = 1;
    for (int n = 0; n < 4; n++) { half(1); half(0); }
    top.rst = 0;
    for (; next < requests.size() || !pending.empty(); cycle++) {
        if (++quiet > patience) { std::printf("stuck %llu\n", (unsigned long long)cycle); break; }
        if (top.error && quiet > 1000) break;
        top.restart = restarting;
        restarting = false;
        const bool later = pending.empty() || !pending.back().drop;  // nothing waits behind what will be dropped
        if (!top.request_valid && later && next < requests.size() && (wait == 0 || wait-- == 0)) {
            top.request_first = requests[next].first;
            top.request_last = requests[next].last;
            top.request_valid = 1;
        }
        top.read_ready = !top.restart && !chance(stall);
        top.eval();
        const bool taken = top.request_valid && top.request_ready, given = top.read_valid && top.read_ready;
        const uint32_t payload = top.read_payload;
        if (!initialized && top.initialized) initialized = cycle;
        half(1);
        half(0);
        if (given) {
            std::fwrite(&payload, sizeof payload, 1, output);
            Pending& p = pending.front();
            uint64_t& most = p.begun ? gap : latency;
            if (cycle - p.since > most) most = cycle - p.since;
            p.since = cycle;
            p.begun = true;
            quiet = 0;
            if (!came++) first = cycle;
            last = cycle;
            p.left--;
            const bool dropped = p.drop && --p.drop == 0;
            restarting = dropped && p.left;
            if (dropped || !p.left) pending.pop_front();
        }
        if (taken) {
            const Request& r = requests[next];
            pending.push_back({pieces * (r.last - r.first + 1ULL), pieces * r.drop, cycle, false});
            quiet = 0;
            top.request_valid = 0;
            if (++next < requests.size()) wait = requests[next].wait;
        }
    }
    std::fclose(output);
    auto say = [](const char* name, uint64_t value) { std::printf("%s %llu\n", name, (unsigned long long)value); };
    say("cycles", cycle); say("initialized", initialized); say("busy", last - first); say("latency", latency);
    say("gap", gap); say("pieces", came); say("error", top.error); say("requests", next);
    say("first_kind", top.first_kind);
    for (int n = 0; n < 17; n++) std::printf("violation%d %u\n", n, top.counts[n]);
    return 0;
}
