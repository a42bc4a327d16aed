// The two functions of zlib that Verilator's FST writer calls, with its data stored instead of compressed (RFC 1950 and
// RFC 1951, section 3.2.4).  The writer keeps the plain data where compression does not make it smaller, so nothing is
// lost but size.  With this file waves need no library to be installed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

typedef unsigned char Bytef;
typedef unsigned long uLong;
typedef unsigned long uLongf;

enum { Z_OK = 0, Z_BUF_ERROR = -5 };

inline uLong compressBound(uLong size) { return size + 5 * (size / 65535 + 1) + 6; }

inline int compress2(Bytef* target, uLongf* target_size, const Bytef* source, uLong size, int /* level */) {
    if (*target_size < compressBound(size)) return Z_BUF_ERROR;
    Bytef* out = target;
    *out++ = 0x78;  // deflate with a 32 kByte window
    *out++ = 0x01;
    uint32_t a = 1, b = 0;  // Adler-32
    uLong at = 0;
    do {
        const uLong length = size - at < 65535 ? size - at : 65535;
        *out++ = at + length == size;  // last block?  type 00: stored
        *out++ = length & 0xFF;
        *out++ = length >> 8;
        *out++ = ~length & 0xFF;
        *out++ = (~length >> 8) & 0xFF;
        if (length) std::memcpy(out, source + at, length);
        out += length;
        for (uLong n = at; n < at + length; n++) {
            a = (a + source[n]) % 65521;
            b = (b + a) % 65521;
        }
        at += length;
    } while (at < size);
    const uint32_t sum = b << 16 | a;
    for (int shift = 24; shift >= 0; shift -= 8) *out++ = sum >> shift & 0xFF;
    *target_size = out - target;
    return Z_OK;
}
