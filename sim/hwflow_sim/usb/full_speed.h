// A host's port at full speed: the levels of D+ and D- in each cycle of a 48 MHz clock.
//
// The host has a clock of its own, some parts per million off, and begins at any time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>

#include "packets.h"

namespace usb {

enum class Level { J, K, SE0 };

class FullSpeedBus {
  public:
    // Runs a cycle of 48 MHz with the levels of D+ and D-, and gives what the device does then.
    struct Device {
        bool drives, d_p, d_n, pullup;
    };
    using Cycle = std::function<Device(bool d_p, bool d_n)>;

    static constexpr double CYCLES_A_BIT = 4, CYCLES_A_SECOND = 48e6;
    // A host gives up after 16 to 18 bit times: 7.1.19.1.
    static constexpr double TIMEOUT_BITS = 17, GAP_BITS = 3;
    static constexpr bool high_speed = false;

    FullSpeedBus(Cycle cycle, double ppm, uint64_t seed)
        : cycle_(std::move(cycle)), bit_(CYCLES_A_BIT * (1 + ppm * 1e-6)), random_(seed) {}

    uint64_t now = 0;
    // Cycles in which both sides drove; the shortest and the longest answer, in bit times from the end of EOP.
    uint64_t contention = 0, bad_endings = 0;
    double first_answer = 1e9, last_answer = 0;

    double seconds() const { return now / CYCLES_A_SECOND; }
    double bits_to(double second) const { return (second * CYCLES_A_SECOND - now) / bit_; }
    // Bit times of a packet on the wire, at most: sync, bytes with stuffing, end.
    static double duration(size_t bytes) { return 8 + bytes * 8 * 7 / 6.0 + 3; }

    void idle(double bits) {
        for (const uint64_t end = now + uint64_t(bits * bit_); now < end;) step(false, Level::J);
    }
    // Whether a device is there.
    bool reset(double milliseconds) {
        idle(100);
        const bool there = last_.pullup;
        at_ = now;
        drive(Level::SE0, milliseconds * 1e-3 * CYCLES_A_SECOND / bit_);
        idle(100);
        return there;
    }
    // `flips` are bits of the packet, with the stuffed ones, that go out wrong; `cut` ends it behind so many.
    void send(const Bytes& packet, const std::vector<size_t>& flips = {}, size_t cut = ~size_t(0)) {
        auto bits = stuffed(packet);
        for (const size_t at : flips)
            if (!bits.empty()) bits[at % bits.size()].flip();
        bits.resize(std::min(bits.size(), cut));
        at_ = now + std::uniform_real_distribution<>(0, 1)(random_);
        Level level = Level::J;
        for (int k = 0; k < 8; k++) toggle(level, k == 7);
        for (const bool bit : bits) toggle(level, bit);
        drive(Level::SE0, 2);
        ended_ = now;
        drive(Level::J, 1);
    }
    // What the device says; nothing where it says nothing in time.
    Bytes receive(double timeout = TIMEOUT_BITS) {
        const uint64_t end = now + uint64_t(timeout * bit_);
        while (step(false, Level::J) != Level::K)
            if (now >= end) return {};
        const double answer = (now - 1 - ended_) / bit_;
        first_answer = std::min(first_answer, answer);
        last_answer = std::max(last_answer, answer);
        return decode();
    }

  private:
    void toggle(Level& level, bool one) {
        if (!one) level = level == Level::J ? Level::K : Level::J;
        drive(level, 1);
    }
    void drive(Level level, double bits) {
        for (at_ += bits * bit_; now + 0.5 < at_;) step(true, level);
    }
    Level step(bool host, Level level) {
        const Level wire = host ? level : last_.drives ? seen(last_) : last_.pullup ? Level::J : Level::SE0;
        contention += host && last_.drives;
        last_ = cycle_(wire == Level::J, wire == Level::K);
        now++;
        return wire;
    }
    static Level seen(const Device& device) {
        return device.d_p == device.d_n ? Level::SE0 : device.d_p ? Level::J : Level::K;
    }
    // From the first K on: four samples a bit, the second behind an edge decides.
    Bytes decode() {
        std::vector<bool> bits;
        Level before = Level::J, now_at = Level::K;
        int phase = 0, ones = 0, zeros = 0, silent = 0;
        bool synced = false, broken = false;
        while (now_at != Level::SE0 && bits.size() < 20000 && silent < 40) {
            if (phase % 4 == 1) {
                const bool bit = now_at == before;
                before = now_at;
                silent = bit ? silent + 1 : 0;
                if (!synced) {
                    synced = bit && zeros >= 5;
                    zeros = bit ? 0 : zeros + 1;
                    ones = 1;
                } else if (ones == 6) {
                    broken |= bit;
                    ones = 0;
                } else {
                    bits.push_back(bit);
                    ones = bit ? ones + 1 : 0;
                }
            }
            const Level next = step(false, Level::J);
            phase = next == now_at ? phase + 1 : 0;
            now_at = next;
        }
        int low = 0;
        for (; now_at == Level::SE0 && low < 40; low++) now_at = step(false, Level::J);
        const bool ended = low >= 7 && low <= 9 && now_at == Level::J && bits.size() % 8 == 0;
        bad_endings += !ended;
        if (broken || !ended) return {0};  // no packet has this check of its PID
        Bytes packet(bits.size() / 8);
        for (size_t k = 0; k < bits.size(); k++) packet[k / 8] |= uint8_t(bits[k]) << k % 8;
        return packet;
    }

    Cycle cycle_;
    double bit_, at_ = 0;
    uint64_t ended_ = 0;
    Device last_{};
    std::mt19937_64 random_;
};

}  // namespace usb
