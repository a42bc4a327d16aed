// The two functions of LZ4 that Verilator's FST writer calls: a greedy compressor into the LZ4 block format
// (lz4_Block_format.md of the LZ4 project).  With this file waves need no library to be installed.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

namespace hwflow_lz4 {

constexpr int MIN_MATCH = 4;      // the shortest match that the format can name
constexpr int LAST_LITERALS = 5;  // a block ends with literals
constexpr int NO_MATCH_AFTER = 12;  // no match starts in the last 12 bytes
constexpr int FARTHEST = 65535;
constexpr int HASH_BITS = 13;

inline uint32_t word_at(const uint8_t* p) {
    uint32_t word;
    std::memcpy(&word, p, 4);
    return word;
}

inline uint8_t* put_length(uint8_t* out, int rest) {
    for (; rest >= 255; rest -= 255) *out++ = 255;
    *out++ = static_cast<uint8_t>(rest);
    return out;
}

// A sequence: literals, then a match unless `match` is 0.
inline uint8_t* put_sequence(uint8_t* out, const uint8_t* literals, int count, int offset, int match) {
    const int extra = match ? match - MIN_MATCH : 0;
    *out++ = static_cast<uint8_t>((count < 15 ? count : 15) << 4 | (extra < 15 ? extra : 15));
    if (count >= 15) out = put_length(out, count - 15);
    if (count) std::memcpy(out, literals, count);
    out += count;
    if (match == 0) return out;
    *out++ = offset & 0xFF;
    *out++ = offset >> 8;
    return extra >= 15 ? put_length(out, extra - 15) : out;
}

}  // namespace hwflow_lz4

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* target, int size, int room) {
    using namespace hwflow_lz4;
    if (room < LZ4_compressBound(size)) return 0;
    const uint8_t* const in = reinterpret_cast<const uint8_t*>(source);
    uint8_t* out = reinterpret_cast<uint8_t*>(target);
    std::vector<int> latest(1 << HASH_BITS, -1);  // where a four-byte word was seen last, by its hash
    int done = 0;
    for (int at = 0; at < size - NO_MATCH_AFTER;) {
        int& place = latest[word_at(in + at) * 2654435761u >> (32 - HASH_BITS)];
        const int before = place;
        place = at;
        if (before < 0 || at - before > FARTHEST || word_at(in + before) != word_at(in + at)) {
            at++;
            continue;
        }
        int match = MIN_MATCH;
        while (at + match < size - LAST_LITERALS && in[before + match] == in[at + match]) match++;
        out = put_sequence(out, in + done, at - done, at - before, match);
        at += match;
        done = at;
    }
    out = put_sequence(out, in + done, size - done, 0, 0);
    return static_cast<int>(out - reinterpret_cast<uint8_t*>(target));
}
