// What all programs around a simulated memory chip have in common: random numbers of a seed, and numbers by name.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace bench {

static uint64_t state;

inline void seed(const char* text) {
    state = 0x9E3779B97F4A7C15ULL ^ (std::strtoull(text, nullptr, 10) * 0xD1342543DE82EF95ULL);
}

inline uint32_t random16() {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return state >> 20 & 65535;
}

inline bool chance(uint32_t of256) { return (random16() & 255) < of256; }

template <typename T> std::vector<T> read_file(const char* name) {
    std::vector<T> data;
    std::FILE* file = std::fopen(name, "rb");
    if (!file) { std::perror(name); std::exit(2); }
    for (T item; std::fread(&item, sizeof item, 1, file) == 1;) data.push_back(item);
    std::fclose(file);
    return data;
}

inline void say(const char* name, uint64_t value) { std::printf("%s %llu\n", name, (unsigned long long)value); }

// The counters of the chip.
template <class Top> void say_violations(Top& top) {
    say("first_kind", top.first_kind);
    for (size_t n = 0; n < sizeof top.counts / 4; n++) std::printf("violation%zu %u\n", n, top.counts[n]);
}

}  // namespace bench
