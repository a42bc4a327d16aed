// An SPI bus on the pins spi_sck, spi_mosi, spi_cs_n and spi_miso of the top, as its master sees it, in mode 0.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <random>
#include <vector>

namespace {

// Bits that have the wrong level, each with the same probability.
class Flips {
  public:
    void set(double rate, uint64_t seed) {
        rate_ = rate;
        random_.seed(seed);
    }
    bool operator()(bool bit) {
        if (rate_ <= 0 || std::uniform_real_distribution<>()(random_) >= rate_) return bit;
        count++;
        return !bit;
    }
    uint64_t count = 0;

  private:
    double rate_ = 0;
    std::mt19937_64 random_;
};

class Line {
  public:
    std::deque<uint8_t> to_board;
    std::vector<uint8_t> from_board;

    // Clock cycles of a bit; whether the master asks for bytes all the time, with flags, and keeps only one of a row of
    // flags that come: else each byte to the board brings one back.
    explicit Line(const char* arguments) { std::sscanf(arguments, "%lf %d", &bit_cycles_, &asks_); }
    template <class Top> void begin(Top& top) {
        top.spi_sck = top.spi_mosi = 0;
        top.spi_cs_n = 1;
    }
    template <class Top> void drive(Top& top) {
        while (now >= next_) step(top);
    }
    template <class Top> void half(Top&) {}
    template <class Top> void sample(Top&) {}
    bool sending() const { return !to_board.empty() || (selected_ && given_); }
    bool busy() const { return sending() || now - heard_ < quiet(); }
    void noise(double rate, uint64_t seed) {
        flips_to_board_.set(rate, 2 * seed);
        flips_from_board_.set(rate, 2 * seed + 1);
    }
    uint64_t flips_to_board() const { return flips_to_board_.count; }
    uint64_t flips_from_board() const { return flips_from_board_.count; }
    uint64_t broken() const { return 0; }

  private:
    static constexpr uint8_t FLAG = 0x7E;
    // Bytes in which cs_n stays low; bits from its edges to those of sck.
    static constexpr int MOST = 64, LEAD = 1;

    uint64_t quiet() const { return uint64_t(16 * bit_cycles_); }
    void in(double bits) {
        at_ += bits * bit_cycles_;
        next_ = uint64_t(std::ceil(at_));
    }
    template <class Top> void step(Top& top) {
        if (!selected_) {
            at_ = double(now);
            if (to_board.empty() && !asks_) {
                next_ = now + 1;
                return;
            }
            selected_ = true;
            top.spi_cs_n = 0;
            bytes_ = 0;
            bit_ = -1;
            in(LEAD);
        } else if (bit_ < 0) {  // between two bytes, or before cs_n rises
            if (bytes_ == MOST || (to_board.empty() && !asks_)) {
                if (!ending_) {
                    ending_ = true;
                    given_ = false;
                    top.spi_sck = 0;
                    in(LEAD);
                    return;
                }
                ending_ = selected_ = false;
                top.spi_cs_n = 1;
                in(2 * LEAD);
                return;
            }
            given_ = !to_board.empty();
            out_ = given_ ? to_board.front() : FLAG;
            if (given_) to_board.pop_front();
            bit_ = 7;
            bytes_++;
            fall(top);
        } else if (high_) {
            fall(top);
        } else {
            high_ = true;
            top.spi_sck = 1;
            got_ = uint8_t(got_ << 1 | flips_from_board_(top.spi_miso & 1));
            if (bit_-- == 0) take();
            in(0.5);
            if (bit_ < 0) high_ = false;
        }
    }
    template <class Top> void fall(Top& top) {
        high_ = false;
        top.spi_sck = 0;
        top.spi_mosi = flips_to_board_(out_ >> bit_ & 1);
        in(0.5);
    }
    void take() {
        if (got_ != FLAG) heard_ = now;
        if (!asks_ || got_ != FLAG || last_ != FLAG) from_board.push_back(got_);
        last_ = got_;
    }

    double bit_cycles_ = 8, at_ = 0;
    int asks_ = 1, bytes_ = 0, bit_ = -1;
    bool selected_ = false, ending_ = false, given_ = false, high_ = false;
    uint8_t out_ = FLAG, got_ = 0, last_ = FLAG;
    uint64_t next_ = 0, heard_ = 0;
    Flips flips_to_board_, flips_from_board_;
};

}  // namespace
