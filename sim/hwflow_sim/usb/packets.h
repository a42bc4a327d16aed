// Packets of USB 2.0 as a host makes and reads them: chapter 8, and the bits on the wire of 7.1.
//
// Written from the specification, and shares nothing with the gateware that it tests.
#pragma once

#include <cstdint>
#include <vector>

namespace usb {

using Bytes = std::vector<uint8_t>;

enum Pid : uint8_t { OUT = 1, ACK = 2, DATA0 = 3, PING = 4, SOF = 5, IN = 9, NAK = 10, DATA1 = 11, SETUP = 13, STALL = 14 };

inline uint8_t with_check(uint8_t pid) { return uint8_t(pid | (~pid & 15) << 4); }

// A CRC over bits in the order of the wire, as the register of the specification computes it; complemented.
inline unsigned crc(const std::vector<bool>& bits, unsigned width, unsigned polynomial) {
    const unsigned mask = (1u << width) - 1;
    unsigned rest = mask;
    for (const bool bit : bits) {
        const bool fold = (rest >> (width - 1) & 1) != bit;
        rest = (rest << 1 & mask) ^ (fold ? polynomial : 0);
    }
    // It goes out highest bit first; bytes go out lowest bit first.
    unsigned sent = 0;
    for (unsigned k = 0; k < width; k++) sent |= (~rest >> (width - 1 - k) & 1) << k;
    return sent;
}

inline std::vector<bool> bits_of(const uint8_t* bytes, size_t count) {
    std::vector<bool> bits;
    for (size_t k = 0; k < count; k++)
        for (int n = 0; n < 8; n++) bits.push_back(bytes[k] >> n & 1);
    return bits;
}

inline Bytes token(uint8_t pid, unsigned eleven) {
    const uint8_t plain[] = {uint8_t(eleven), uint8_t(eleven >> 8)};
    auto bits = bits_of(plain, 2);
    bits.resize(11);
    eleven |= crc(bits, 5, 0x05) << 11;
    return {with_check(pid), uint8_t(eleven), uint8_t(eleven >> 8)};
}

inline Bytes data(uint8_t pid, const Bytes& payload) {
    Bytes packet{with_check(pid)};
    packet.insert(packet.end(), payload.begin(), payload.end());
    const unsigned check = crc(bits_of(payload.data(), payload.size()), 16, 0x8005);
    packet.push_back(uint8_t(check));
    packet.push_back(uint8_t(check >> 8));
    return packet;
}

// Whether `packet` is a data packet with the right checksum.
inline bool is_data(const Bytes& packet) {
    if (packet.size() < 3 || (packet[0] & 3) != 3 || with_check(packet[0] & 15) != packet[0]) return false;
    return data(packet[0] & 15, Bytes(packet.begin() + 1, packet.end() - 2)) == packet;
}

inline bool is_handshake(const Bytes& packet, uint8_t pid) { return packet == Bytes{with_check(pid)}; }

// What goes through NRZI: behind six ones a zero is stuffed.  `stuffed` are those of bytes, without the sync.
inline std::vector<bool> stuffed(const Bytes& packet) {
    std::vector<bool> bits;
    int ones = 1;  // the last bit of the sync
    for (const bool bit : bits_of(packet.data(), packet.size())) {
        bits.push_back(bit);
        ones = bit ? ones + 1 : 0;
        if (ones == 6) {
            bits.push_back(false);
            ones = 0;
        }
    }
    return bits;
}

}  // namespace usb
