// A PHY of gigabit Ethernet with its RGMII pins on the top, and the frames of the network behind it.
//
// Bytes to the board are frames one after the other: their length (two bytes, low first), the cycles of the gap before
// them (one byte), and all their bytes from the preamble to the FCS.  Bytes from it are frames with their length alone.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

namespace {

// Bits of the pins with the wrong level, each with the same probability.
class Noise {
  public:
    void set(double rate, uint64_t seed) {
        rate_ = rate;
        random_.seed(seed);
        plan();
    }
    // Four bits of data and one of control.
    uint8_t flipped(uint8_t pins) {
        for (; left_ < 5; plan(left_ + 1)) {
            pins ^= 1u << left_;
            flips++;
        }
        if (left_ != NEVER) left_ -= 5;
        return pins;
    }
    uint64_t flips = 0;

  private:
    void plan(uint64_t from = 0) {
        left_ = rate_ <= 0 ? NEVER : from + uint64_t(std::floor(
            std::log1p(-std::uniform_real_distribution<>()(random_)) / std::log1p(-rate_)));
    }
    double rate_ = 0;
    uint64_t left_ = NEVER;
    std::mt19937_64 random_;
};

class Line {
  public:
    std::deque<uint8_t> to_board;
    std::vector<uint8_t> from_board;

    // Cycles of the PHY's clock in one of the board's.
    explicit Line(const char* arguments) : ratio_(std::atof(arguments)) {}
    template <class Top> void begin(Top& top) { top.udp_rxc = top.udp_rxd = top.udp_rx_ctl = 0; }
    template <class Top> void drive(Top&) {}
    template <class Top> void half(Top& top) {
        for (time_ += ratio_; time_ >= 1; time_ -= 1) {
            if (!top.udp_reset_n) continue;  // a PHY in reset stops its clock
            if (!top.udp_rxc) next();
            top.udp_rxc = !top.udp_rxc;
            const uint8_t pins = noise_to_board_.flipped(
                (top.udp_rxc ? byte_ & 15 : byte_ >> 4) | uint8_t(valid_) << 4);
            top.udp_rxd = pins & 15;
            top.udp_rx_ctl = pins >> 4;
            top.eval();
            receive(top);
        }
    }
    template <class Top> void sample(Top&) {}
    bool sending() const { return !to_board.empty() || valid_; }
    bool busy() const { return sending() || !frame_.empty(); }
    void noise(double rate, uint64_t seed) {
        noise_to_board_.set(rate, 2 * seed);
        noise_from_board_.set(rate, 2 * seed + 1);
    }
    uint64_t flips_to_board() const { return noise_to_board_.flips; }
    uint64_t flips_from_board() const { return noise_from_board_.flips; }
    // Edges at which the board's clock was not there, or an error was signalled.
    uint64_t broken() const { return broken_; }

  private:
    uint8_t take() {
        const uint8_t byte = to_board.front();
        to_board.pop_front();
        return byte;
    }
    void next() {
        valid_ = false;
        byte_ = 0;
        if (gap_ > 0) {
            gap_--;
            return;
        }
        if (left_ == 0) {
            if (to_board.size() < 3) return;
            left_ = take();
            left_ |= unsigned(take()) << 8;
            gap_ = take();
            if (gap_ > 0) {
                gap_--;
                return;
            }
        }
        if (left_ == 0 || to_board.empty()) return;
        left_--;
        byte_ = take();
        valid_ = true;
    }
    // The board's clock has its edges with this one: in its first half the low nibble, in its second the high one.
    template <class Top> void receive(Top& top) {
        const uint8_t pins = noise_from_board_.flipped(top.udp_txd | top.udp_tx_ctl << 4);
        broken_ += top.udp_txc != top.udp_rxc;
        if (top.udp_rxc) {
            low_ = pins;
            return;
        }
        broken_ += (low_ >> 4) != (pins >> 4);
        if (low_ >> 4) {
            frame_.push_back(uint8_t((low_ & 15) | pins << 4));
        } else if (!frame_.empty()) {
            from_board.push_back(uint8_t(frame_.size()));
            from_board.push_back(uint8_t(frame_.size() >> 8));
            from_board.insert(from_board.end(), frame_.begin(), frame_.end());
            frame_.clear();
        }
    }

    double ratio_, time_ = 0;
    unsigned left_ = 0, gap_ = 0;
    uint8_t byte_ = 0, low_ = 0;
    bool valid_ = false;
    uint64_t broken_ = 0;
    std::vector<uint8_t> frame_;
    Noise noise_to_board_, noise_from_board_;
};

}  // namespace
