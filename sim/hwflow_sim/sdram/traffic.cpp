// Runs requests through a controller into the simulated chip and measures what happens.
//
//   program REQUESTS WORDS OUTPUT SEED WRITE_STALL READ_STALL [+plusargs]
//
// REQUESTS: four numbers of 32 bits each: first, last, 1 for a write, cycles to wait before.  WORDS: what is written.
// OUTPUT: what was read, numbers of 64 bits.  Stalls are in 1/256.  Prints numbers by name.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>
#include "Vtop.h"
#include "verilated.h"

template <typename T> static std::vector<T> read_file(const char* name) {
    std::vector<T> data;
    std::FILE* file = std::fopen(name, "rb");
    if (!file) { std::perror(name); std::exit(2); }
    std::fseek(file, 0, SEEK_END);
    data.resize(std::ftell(file) / sizeof(T));
    std::rewind(file);
    if (std::fread(data.data(), sizeof(T), data.size(), file) != data.size()) std::exit(2);
    std::fclose(file);
    return data;
}

struct Request { uint32_t first, last, write, wait; };

static uint64_t state;
static bool chance(uint32_t of256) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return (state >> 20 & 255) < of256;
}

int main(int count, char** arguments) {
    if (count < 7) return 2;
    VerilatedContext context;
    context.commandArgs(count, arguments);
    const auto requests = read_file<Request>(arguments[1]);
    const auto words = read_file<uint32_t>(arguments[2]);
    std::FILE* output = std::fopen(arguments[3], "wb");
    state = 0x9E3779B97F4A7C15ULL ^ (std::strtoull(arguments[4], nullptr, 10) * 0xD1342543DE82EF95ULL);
    const uint32_t write_stall = std::atoi(arguments[5]), read_stall = std::atoi(arguments[6]);
    Vtop top{&context};
    top.clk = 0;
    top.eval();
    const uint64_t mask = top.space - 1ULL, patience = 200000;

    // A request that waits for its words: how many are left, when it was taken, when its last word came.
    struct Pending { uint64_t left, taken, last; bool begun; };
    std::deque<Pending> pending;
    uint64_t next = 0, word = 0, wait = requests.empty() ? 0 : requests[0].wait, cycle = 0, quiet = 0;
    int64_t to_write = 0;  // words may be taken before their request
    uint64_t initialized = 0, latency = 0, gap = 0, begun = 0, read_words = 0, reading = 0;
    top.request_valid = top.write_valid = top.read_ready = 0;
    auto half = [&](int level) { top.clk = level; top.eval(); };
    top.rst = 1;
    for (int n = 0; n < 4; n++) { half(1); half(0); }
    top.rst = 0;
    for (;; cycle++) {
        const bool requests_left = next < requests.size();
        const bool busy = requests_left || !pending.empty() || to_write > 0;
        if (!busy) break;
        if (++quiet > patience) { std::printf("stuck %llu\n", (unsigned long long)cycle); break; }
        if (!top.request_valid && requests_left && (wait == 0 || wait-- == 0)) {
            top.request_first = requests[next].first;
            top.request_last = requests[next].last;
            top.request_write = requests[next].write;
            top.request_valid = 1;
        }
        if (!top.write_valid && word < words.size() && !chance(write_stall)) {
            top.write_payload = words[word];
            top.write_valid = 1;
        }
        top.read_ready = !chance(read_stall);
        top.eval();
        const bool taken = top.request_valid && top.request_ready, written = top.write_valid && top.write_ready;
        const bool given = top.read_valid && top.read_ready;
        const uint64_t payload = top.read_payload;
        if (!initialized && top.initialized) initialized = cycle;
        half(1);
        half(0);
        if (taken) {
            const Request& r = requests[next];
            const uint64_t length = ((uint64_t(r.last) - r.first) & mask) + 1;
            if (!next) begun = cycle;
            if (r.write) to_write += length;
            else pending.push_back({length, cycle, 0, false});
            top.request_valid = 0;
            if (++next < requests.size()) wait = requests[next].wait;
            quiet = 0;
        }
        if (written) { top.write_valid = 0; word++; to_write--; quiet = 0; }
        if (given) {
            quiet = 0;
            std::fwrite(&payload, sizeof payload, 1, output);
            Pending& p = pending.front();
            const uint64_t since = p.begun ? cycle - p.last : cycle - p.taken;
            uint64_t& most = p.begun ? gap : latency;
            if (since > most) most = since;
            if (p.begun) reading += since;
            read_words++;
            p.begun = true;
            p.last = cycle;
            if (--p.left == 0) pending.pop_front();
        }
    }
    std::fclose(output);
    auto say = [](const char* name, uint64_t value) { std::printf("%s %llu\n", name, (unsigned long long)value); };
    say("cycles", cycle); say("initialized", initialized); say("begun", begun); say("ended", cycle);
    say("latency", latency); say("gap", gap); say("read_words", read_words); say("reading", reading);
    say("requests", next);
    say("first_kind", top.first_kind); say("first_cycle", top.first_cycle);
    for (int n = 0; n < 24; n++) std::printf("violation%d %u\n", n, top.counts[n]);
    return 0;
}
