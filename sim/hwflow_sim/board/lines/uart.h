// A serial line on the pins rx and tx of the top, as the other end sees it.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

namespace {

double bit_cycles = 0;

// Bit times in which the line has the wrong level, each with the same probability.
class Noise {
  public:
    void set(double rate, uint64_t seed) {
        rate_ = rate;
        random_.seed(seed);
        level = false;
        plan();
    }
    void step() {
        if (now < next_) return;
        level = !level;
        if (level) {
            next_ = now + std::llround(bit_cycles);
            flips++;
        } else {
            plan();
        }
    }
    bool level = false;
    uint64_t flips = 0;

  private:
    void plan() {
        if (rate_ <= 0) {
            next_ = NEVER;
            return;
        }
        const double slots = std::floor(std::log1p(-std::uniform_real_distribution<>()(random_)) / std::log1p(-rate_));
        next_ = now + std::llround(slots * bit_cycles);
    }
    double rate_ = 0;
    uint64_t next_ = NEVER;
    std::mt19937_64 random_;
};

// Bytes to the board: a start bit, eight data bits, a stop bit, at the exact rate.
class Sender {
  public:
    std::deque<uint8_t> bytes;
    bool level = true;
    bool busy() const { return next_ != NEVER || !bytes.empty() || now < low_until_; }
    // From now on, between two bytes, the line is low for so many cycles, and then idle for a bit.
    void low(uint64_t cycles) { low_until_ = now + cycles; }
    void step() {
        if (next_ == NEVER) {
            level = now >= low_until_;
            if (now < low_until_ + uint64_t(bit_cycles) || bytes.empty()) return;
            shift_ = bytes.front() << 1 | 0x200u;
            bytes.pop_front();
            bit_ = 0;
            began_ = now;
        } else if (now < next_) {
            return;
        } else if (++bit_ == 10) {
            next_ = NEVER;
            step();
            return;
        }
        level = shift_ >> bit_ & 1;
        next_ = began_ + std::llround((bit_ + 1) * bit_cycles);
    }

  private:
    unsigned shift_ = 0, bit_ = 0;
    uint64_t began_ = 0, next_ = NEVER, low_until_ = 0;
};

// Bytes from the board, sampled in the middle of their bits.  A byte whose stop bit is low is passed on as a terminal in
// raw mode does.
class Receiver {
  public:
    std::vector<uint8_t> bytes;
    uint64_t broken = 0;
    bool busy() const { return next_ != NEVER; }
    void step(bool level) {
        if (next_ == NEVER) {
            if (level) {
                idle_ = true;
            } else if (idle_) {
                began_ = now;
                bit_ = 0;
                shift_ = 0;
                idle_ = false;
                plan();
            }
            return;
        }
        if (now < next_) return;
        if (bit_ == 0 && level) {
            next_ = NEVER;
        } else if (bit_ == 9) {
            bytes.push_back(shift_ >> 1);
            broken += !level;
            next_ = NEVER;
        } else {
            shift_ |= unsigned(level) << bit_++;
            plan();
        }
    }

  private:
    void plan() { next_ = began_ + std::llround((bit_ + 0.5) * bit_cycles); }
    unsigned shift_ = 0, bit_ = 0;
    bool idle_ = false;
    uint64_t began_ = 0, next_ = NEVER;
};

class Line {
  public:
    // Bytes to the board, and from it.
    std::deque<uint8_t>& to_board = sender_.bytes;
    std::vector<uint8_t>& from_board = receiver_.bytes;

    // Clock cycles of a bit.
    explicit Line(const char* arguments) { bit_cycles = std::atof(arguments); }
    template <class Top> void begin(Top& top) { top.rx = 1; }
    // Before a cycle of the board's clock.
    template <class Top> void drive(Top& top) {
        sender_.step();
        noise_to_board_.step();
        noise_from_board_.step();
        top.rx = sender_.level ^ noise_to_board_.level;
    }
    // After each half of it: lines with a clock of their own have edges there.
    template <class Top> void half(Top&) {}
    // After it.
    template <class Top> void sample(Top& top) { receiver_.step(top.tx ^ noise_from_board_.level); }
    // `rate CYCLES`: another length of a bit, for both directions; `break CYCLES`.  Both between two bytes.
    void set(const char* text) {
        double cycles = 0;
        if (std::sscanf(text, "rate %lf", &cycles) == 1) bit_cycles = cycles;
        if (std::sscanf(text, "break %lf", &cycles) == 1) sender_.low(uint64_t(cycles));
    }
    // Whether bytes to the board are on their way; whether anything moves.
    bool sending() const { return sender_.busy(); }
    bool busy() const { return sender_.busy() || receiver_.busy(); }
    // Wrong levels at this rate, from this seed, in both directions, and how many there were.
    void noise(double rate, uint64_t seed) {
        noise_to_board_.set(rate, 2 * seed);
        noise_from_board_.set(rate, 2 * seed + 1);
    }
    uint64_t flips_to_board() const { return noise_to_board_.flips; }
    uint64_t flips_from_board() const { return noise_from_board_.flips; }
    // Bytes from the board that were no bytes of such a line.
    uint64_t broken() const { return receiver_.broken; }

  private:
    Sender sender_;
    Receiver receiver_;
    Noise noise_to_board_, noise_from_board_;
};

}  // namespace
