// Runs requests through a controller into the simulated chip and measures what happens.
//
//   program REQUESTS WORDS OUTPUT SEED WRITE_STALL READ_STALL HALF COUNT [+plusargs]
//
// REQUESTS: five numbers of 32 bits each: first, last, 1 for a write, cycles to wait before, words after which a restart
// drops the request (0: never).  WORDS: what is written.  OUTPUT: what was read, piece by piece, numbers of 64 bits.
// Stalls are in 1/256.  HALF: half a period of the clock, in ps.  COUNT: the pieces of a word.  Prints numbers by name.
#include <deque>
#include "Vtop.h"
#include "bench.h"
#include "verilated.h"

using bench::chance;
using bench::say;

struct Request { uint32_t first, last, write, wait, drop; };

// A request that waits for its pieces: how many are left, or left before it is dropped, and since when it waits.
struct Pending { uint64_t left, drop, since; bool begun; };

int main(int count, char** arguments) {
    if (count < 9) return 2;
    VerilatedContext context;
    context.commandArgs(count, arguments);
    const auto requests = bench::read_file<Request>(arguments[1]);
    const auto words = bench::read_file<uint32_t>(arguments[2]);
    std::FILE* output = std::fopen(arguments[3], "wb");
    if (!output) return 2;
    bench::seed(arguments[4]);
    const uint32_t write_stall = std::atoi(arguments[5]), read_stall = std::atoi(arguments[6]);
    const uint64_t half_period = std::strtoull(arguments[7], nullptr, 10), patience = 200000;
    const uint64_t pieces = std::strtoull(arguments[8], nullptr, 10);
    Vtop top{&context};
    top.clk = 0;
    top.eval();
    const uint64_t mask = top.space - 1ULL;  // a memory without a `space` does not go round its end
    auto half = [&](int level) { context.timeInc(half_period); top.clk = level; top.eval(); };

    std::deque<Pending> pending;
    uint64_t next = 0, word = 0, wait = requests.empty() ? 0 : requests[0].wait, cycle = 0, quiet = 0;
    int64_t to_write = 0;  // words may be taken before their request
    uint64_t initialized = 0, latency = 0, gap = 0, begun = 0, came = 0, first_piece = 0, last_piece = 0, between = 0;
    bool restarting = false;
    top.request_valid = top.write_valid = top.read_ready = top.restart = 0;
    top.rst = 1;
    for (int n = 0; n < 4; n++) { half(1); half(0); }
    top.rst = 0;
    for (;; cycle++) {
        const bool requests_left = next < requests.size();
        if (!requests_left && pending.empty() && to_write <= 0) break;
        if (++quiet > patience) { say("stuck", cycle); break; }
        if (top.error && quiet > 1000) break;
        top.restart = restarting;
        restarting = false;
        const bool later = pending.empty() || !pending.back().drop;  // nothing waits behind what will be dropped
        if (!top.request_valid && later && requests_left && (wait == 0 || wait-- == 0)) {
            top.request_first = requests[next].first;
            top.request_last = requests[next].last;
            top.request_write = requests[next].write;
            top.request_valid = 1;
        }
        if (!top.write_valid && word < words.size() && !chance(write_stall)) {
            top.write_payload = words[word];
            top.write_valid = 1;
        }
        top.read_ready = !top.restart && !chance(read_stall);
        top.eval();
        const bool taken = top.request_valid && top.request_ready, written = top.write_valid && top.write_ready;
        const bool given = top.read_valid && top.read_ready;
        const uint64_t payload = top.read_payload;
        if (!initialized && top.initialized) initialized = cycle;
        half(1);
        half(0);
        if (given) {
            quiet = 0;
            std::fwrite(&payload, sizeof payload, 1, output);
            Pending& p = pending.front();
            const uint64_t since = cycle - p.since;
            uint64_t& most = p.begun ? gap : latency;
            if (since > most) most = since;
            if (p.begun) between += since;
            p.begun = true;
            p.since = last_piece = cycle;
            if (!came++) first_piece = cycle;
            p.left--;
            const bool dropped = p.drop && --p.drop == 0;
            restarting = dropped && p.left;
            if (dropped || !p.left) pending.pop_front();
        }
        if (taken) {
            const Request& r = requests[next];
            const uint64_t length = ((uint64_t(r.last) - r.first) & mask) + 1;
            if (!next) begun = cycle;
            if (r.write) to_write += length;
            else pending.push_back({pieces * length, pieces * r.drop, cycle, false});
            top.request_valid = 0;
            if (++next < requests.size()) wait = requests[next].wait;
            quiet = 0;
        }
        if (written) { top.write_valid = 0; word++; to_write--; quiet = 0; }
    }
    std::fclose(output);
    say("cycles", cycle); say("initialized", initialized); say("begun", begun); say("ended", cycle);
    say("latency", latency); say("gap", gap); say("pieces", came); say("between_pieces", between);
    say("first_piece", first_piece); say("last_piece", last_piece);
    say("requests", next); say("error", top.error);
    bench::say_violations(top);
    return 0;
}
