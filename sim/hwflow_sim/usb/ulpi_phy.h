// A PHY with ULPI, and a host's port behind it, in cycles of 60 MHz: UTMI+ Low Pin Interface 1.1, and USB 2.0, 7.1.7.5.
//
// The PHY has the registers that a device writes, takes and gives packets at the speed of the wire, stuffed bits
// included, and tells the state of the lines.  The host answers the device's chirp where it knows high speed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>

#include "packets.h"

namespace usb {

template <bool HIGH> class UlpiBus {
  public:
    // Runs a cycle with the PHY's outputs, and gives the device's at its end.
    struct Link {
        uint8_t data;
        bool stp;
    };
    using Cycle = std::function<Link(bool dir, bool nxt, uint8_t data)>;

    static constexpr bool high_speed = HIGH;
    static constexpr double CYCLES_A_SECOND = 60e6, CYCLES_A_BIT = HIGH ? 0.125 : 5;
    static constexpr unsigned CYCLES_A_BYTE = HIGH ? 1 : 40;
    static constexpr unsigned SYNC_CYCLES = HIGH ? 4 : 40, END_CYCLES = HIGH ? 1 : 15;
    // A host waits between two of its packets, and for an answer: 7.1.18.2, 7.1.19.2.
    static constexpr double GAP_BITS = HIGH ? 88 : 3, TIMEOUT_BITS = HIGH ? 800 : 17;

    explicit UlpiBus(Cycle cycle, uint64_t seed) : cycle_(std::move(cycle)), random_(seed) {}

    uint64_t now = 0, contention = 0, bad_endings = 0;
    double first_answer = 1e9, last_answer = 0;

    double seconds() const { return now / CYCLES_A_SECOND; }
    double bits_to(double second) const { return (second * CYCLES_A_SECOND - now) / CYCLES_A_BIT; }
    static double duration(size_t bytes) {
        return (SYNC_CYCLES + END_CYCLES) / CYCLES_A_BIT + bytes * 8 * 7 / 6.0;
    }

    void idle(double bits) { rest(uint64_t(bits * CYCLES_A_BIT) + 1); }

    // 0 without a device, 1 where it is at full speed then, 2 at high speed.
    int reset(double milliseconds) {
        const uint64_t limit = now + 600'000;
        while (!(function_ & TERMINATED) && now < limit) quiet();
        if (!(function_ & TERMINATED)) return 0;
        tell(J);
        rest(10'000);
        tell(SE0);
        const uint64_t end = now + uint64_t(std::max(milliseconds, 8.0) * 60e3);
        chirp_ = 0;
        while (now < end && chirp_ < 60'000) quiet();  // 1 ms
        if (HIGH && chirp_ >= 60'000) {
            rest(2'000);
            for (int k = 0; k < 6; k++) {
                tell(K);
                rest(3'000);
                tell(J);
                rest(3'000);
            }
            tell(SE0);
            rest(10'000);
            return function_ % 32 == 0 ? 2 : -1;  // high speed, its termination, normal
        }
        while (now < end) quiet();
        tell(J);
        rest(10'000);
        return function_ % 32 == 5 ? 1 : -1;  // full speed, its pull-up, normal
    }

    void send(Bytes packet, const std::vector<size_t>& flips = {}, size_t cut = ~size_t(0)) {
        for (const size_t at : flips)
            if (!packet.empty()) packet[at / 8 % packet.size()] ^= uint8_t(1u << at % 8);
        packet.resize(std::min(packet.size(), cut / 8));
        quiet();
        const uint8_t idle = HIGH ? SE0 : J, active = uint8_t(VBUS | 0x10 | J);
        step(true, true, 0);
        for (unsigned k = 0; k < SYNC_CYCLES; k++) step(true, false, active);
        unsigned ones = 1, stuffed = 0;
        for (const uint8_t octet : packet) {
            for (unsigned k = 1; k < CYCLES_A_BYTE; k++) step(true, false, active);
            step(true, true, octet);
            stuff(octet, ones, stuffed);
            for (; stuffed >= 8; stuffed -= 8)
                for (unsigned k = 0; k < CYCLES_A_BYTE; k++) step(true, false, active);
        }
        for (unsigned k = 0; k < END_CYCLES; k++) step(true, false, active);
        step(true, false, VBUS | idle);
        step(false, false, 0);
        told_ = idle;
        ended_ = now;
    }
    Bytes receive(double timeout = TIMEOUT_BITS) {
        const uint64_t end = now + std::max<uint64_t>(uint64_t(timeout * CYCLES_A_BIT), 2);
        said_.clear();
        while (said_.empty() && now < end) quiet();
        Bytes packet;
        packet.swap(said_);
        if (!packet.empty()) {
            first_answer = std::min(first_answer, (began_ - ended_) / CYCLES_A_BIT);
            last_answer = std::max(last_answer, (began_ - ended_) / CYCLES_A_BIT);
        }
        return packet;
    }

  private:
    enum : uint8_t { SE0 = 0, J = 1, K = 2, VBUS = 0x0C, TERMINATED = 4 };
    enum : uint8_t { TRANSMIT = 1, WRITE = 2, READ = 3 };  // the upper bits of a command

    Link step(bool dir, bool nxt, uint8_t data) {
        now++;
        return cycle_(dir, nxt, data);
    }
    void rest(uint64_t cycles) {
        for (const uint64_t end = now + cycles; now < end;) quiet();
    }
    // A cycle in which the host does nothing; what the link begins in it is done to its end.
    void quiet() {
        const Link link = step(false, false, 0);
        if (link.data >> 6 == TRANSMIT) transmit(link.data & 63);
        if (link.data >> 6 == WRITE) write(link.data & 63);
        if (link.data >> 6 == READ) read(link.data & 63);
    }
    // The state of the lines, where it is a new one.
    void tell(uint8_t state) {
        if (state == told_) return;
        told_ = state;
        quiet();
        step(true, false, 0);
        step(true, false, VBUS | state);
        step(false, false, 0);
    }
    void write(uint8_t address) {
        step(false, true, 0);
        const uint8_t value = step(false, true, 0).data;
        bad_endings += !step(false, false, 0).stp;
        if (address == 4) function_ = value;
    }
    void read(uint8_t address) {
        step(false, true, 0);
        step(true, false, 0);
        step(true, false, address == 4 ? function_ : 0);
        step(false, false, 0);
    }
    void transmit(uint8_t pid) {
        began_ = now;
        step(false, true, 0);
        if (pid == 0) {  // a chirp
            for (chirp_ = 0; !step(false, true, 0).stp && chirp_ < 1'000'000;) chirp_++;
            return;
        }
        Bytes packet{with_check(pid)};
        const uint64_t first = now + SYNC_CYCLES + CYCLES_A_BYTE;
        unsigned ones = 1, stuffed = 0;
        stuff(packet[0], ones, stuffed);
        uint64_t next = first;
        while (packet.size() < 4096) {
            const bool takes = now + 1 >= next;
            const Link link = step(false, takes, 0);
            if (link.stp) break;
            if (!takes) continue;
            packet.push_back(link.data);
            stuff(link.data, ones, stuffed);
            next = now + CYCLES_A_BYTE + stuffed / 8 * CYCLES_A_BYTE;
            stuffed %= 8;
        }
        const uint64_t end = std::max(now, first) + END_CYCLES;
        while (now < end) step(false, false, 0);
        said_.swap(packet);
    }
    static void stuff(uint8_t octet, unsigned& ones, unsigned& stuffed) {
        for (int n = 0; n < 8; n++) {
            ones = octet >> n & 1 ? ones + 1 : 0;
            if (ones == 6) {
                stuffed++;
                ones = 0;
            }
        }
    }

    Cycle cycle_;
    uint8_t function_ = 0x41, told_ = 0xFF;
    uint64_t ended_ = 0, began_ = 0, chirp_ = 0;
    Bytes said_;
    std::mt19937_64 random_;
};

}  // namespace usb
