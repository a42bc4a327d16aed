// A host that keeps a device configured and carries bytes, as the driver of an operating system does; it runs beside a
// simulation that calls it once a cycle.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <ucontext.h>

#include "host.h"

namespace usb {

// A function that gives way in the middle, and goes on there when it is called again.
class Coroutine {
  public:
    template <class Function> explicit Coroutine(Function function) : function_(std::move(function)), stack_(1 << 20) {
        getcontext(&inside_);
        inside_.uc_stack.ss_sp = stack_.data();
        inside_.uc_stack.ss_size = stack_.size();
        // makecontext() passes no pointers.
        const auto here = reinterpret_cast<uintptr_t>(this);
        makecontext(&inside_, reinterpret_cast<void (*)()>(&Coroutine::begin), 2, unsigned(here),
                    unsigned(uint64_t(here) >> 32));
    }
    Coroutine(const Coroutine&) = delete;
    void go_on() { swapcontext(&outside_, &inside_); }
    void give_way() { swapcontext(&inside_, &outside_); }

  private:
    static void begin(unsigned low, unsigned high) {
        reinterpret_cast<Coroutine*>(uintptr_t(low | uint64_t(high) << 32))->function_();
        std::abort();  // it has no end
    }
    std::function<void()> function_;
    std::vector<char> stack_;
    ucontext_t inside_{}, outside_{};
};

// Requests without data to a device; whether it took them.
template <class Bus> bool request(Host<Bus>& host, uint8_t to, const Bytes& setup) {
    for (int k = 0; !is_handshake(host.transact(SETUP, to, 0, DATA0, setup), ACK);)
        if (++k == 3) return false;
    for (int k = 0; k < 100; k++) {
        const Bytes answer = host.transact(IN, to, 0, 0, {});
        if (answer.size() == 3 && is_data(answer)) return true;
    }
    return false;
}

// An address, the only configuration, and DTR.
template <class Bus> bool configure(Host<Bus>& host) {
    constexpr uint8_t ADDRESS = 3;
    const int speed = host.bus.reset(1.0);
    if (speed <= 0) return false;
    host.packet = speed == 2 ? 512 : 64;
    if (!request(host, 0, {0, 5, ADDRESS, 0, 0, 0, 0, 0})) return false;
    host.address = ADDRESS;
    host.restart();
    return request(host, ADDRESS, {0, 9, 1, 0, 0, 0, 0, 0}) && request(host, ADDRESS, {0x21, 0x22, 3, 0, 0, 0, 0, 0});
}

// Without an end: a device that does not answer any more is configured anew.
template <class Bus> void carry(Host<Bus>& host) {
    constexpr uint64_t SILENT = 100;
    while (true) {
        if (!configure(host)) {
            host.bus.idle(1000);
            continue;
        }
        for (host.silent = 0; host.silent < SILENT;) host.frame(SIZE_MAX, std::numeric_limits<double>::max());
    }
}

// What all lines of a simulated board have, of one on a `Bus`.
template <class Bus> class UsbLine {
  public:
    std::deque<uint8_t>& to_board = host_.to_send;
    Bytes& from_board = host_.received;

    template <class... Arguments> explicit UsbLine(Arguments... arguments) : bus_(arguments...), host_(bus_, 1) {}
    bool sending() const { return !host_.to_send.empty(); }
    // Whether data moved since the last call: a host asks all the time.
    bool busy() {
        const uint64_t moved = host_.counts.in + host_.counts.out;
        const bool answer = moved != moved_;
        moved_ = moved;
        return answer;
    }
    // The probability of a wrong bit: all that it does to a packet is that the packet is damaged.
    void noise(double rate, uint64_t) { host_.faults.damage = std::min(0.5, rate * 8 * 64); }
    uint64_t flips_to_board() const { return host_.counts.faults; }
    uint64_t flips_from_board() const { return 0; }
    uint64_t broken() const { return bus_.bad_endings; }

  protected:
    void give_way() { coroutine_.give_way(); }
    void go_on() { coroutine_.go_on(); }

  private:
    Bus bus_;
    Host<Bus> host_;
    uint64_t moved_ = 0;
    Coroutine coroutine_{[this] { carry(host_); }};
};

}  // namespace usb
