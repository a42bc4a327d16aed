// A host's transactions on one bus: control, and bulk in frames; packets that get lost, damaged or come twice.
#pragma once

#include <cstdint>
#include <deque>
#include <random>

#include "packets.h"

namespace usb {

// Probabilities of a packet in either direction to be lost or to have a wrong bit, and of a transaction to come twice.
struct Faults {
    double loss = 0, damage = 0, twice = 0;
};

struct Counts {
    uint64_t frames = 0, out = 0, in = 0, refused = 0, empty = 0, unanswered = 0, repeated = 0, faults = 0, stalled = 0;
};

template <class Bus> class Host {
  public:
    explicit Host(Bus& bus, uint64_t seed) : bus(bus), random_(seed) {}

    Bus& bus;
    Faults faults;
    Counts counts;
    uint8_t address = 0, endpoint = 1;
    size_t packet = 64;
    unsigned most = 1000;  // transactions in a frame, besides what its time allows
    std::deque<uint8_t> to_send;
    Bytes received;
    bool reading = true;
    uint64_t silent = 0;  // transactions without any answer, one after the other

    void restart() { out_toggle_ = in_toggle_ = false; }

    // One transaction: the packet with which the device answered, or nothing.  `payload` is sent behind OUT and SETUP.
    Bytes transact(uint8_t pid, uint8_t to, uint8_t where, uint8_t data_pid, const Bytes& payload) {
        send(token(pid, unsigned(to | where << 7)));
        if (pid != IN && pid != PING) {
            bus.idle(Bus::GAP_BITS);
            send(data(data_pid, payload));
        }
        Bytes answer = bus.receive();
        silent = answer.empty() ? silent + 1 : 0;
        if (!answer.empty() && chance(faults.loss)) answer.clear();
        if (!answer.empty() && chance(faults.damage)) answer[random_() % answer.size()] ^= uint8_t(1u << random_() % 8);
        if (pid == IN && is_data(answer)) {
            bus.idle(Bus::GAP_BITS);
            send({with_check(ACK)});
        }
        bus.idle(Bus::GAP_BITS);
        return answer;
    }

    // Frames until so many bytes have come, or a time has passed.
    void run(size_t wanted, double until) {
        while (received.size() < wanted && bus.seconds() < until) frame(wanted, until);
    }

    // What is left of a frame, or the next one.
    void frame(size_t wanted, double until) {
        if (bus.seconds() >= next_) {  // else a frame goes on that another call began
            while (next_ <= bus.seconds()) next_ += FRAME;
            number_++;
            done_ = 0;
            counts.frames++;
            send(token(SOF, number_ / (Bus::high_speed ? 8 : 1) & 0x7FF));
            bus.idle(Bus::GAP_BITS);
        }
        const double whole = Bus::duration(3) + Bus::duration(packet + 3) + Bus::duration(1) + 3 * Bus::GAP_BITS + 8;
        while (done_ < most && bus.bits_to(next_) > whole) {
            if (received.size() >= wanted || bus.seconds() >= until) return;
            if (!to_send.empty()) done_ += out();
            if (reading && done_ < most && bus.bits_to(next_) > whole) done_ += in();
            if (!reading && to_send.empty()) break;
        }
        if (bus.seconds() < next_) bus.idle(bus.bits_to(next_) + 1);
    }

    void send(const Bytes& packet) {
        if (chance(faults.loss)) return;
        if (chance(faults.damage)) {
            bus.send(packet, {size_t(random_())});
        } else {
            bus.send(packet);
        }
    }

  private:
    static constexpr double FRAME = Bus::high_speed ? 125e-6 : 1e-3;

    bool chance(double rate) {
        const bool hit = rate > 0 && std::uniform_real_distribution<>()(random_) < rate;
        counts.faults += hit;
        return hit;
    }

    bool out() {
        if (waits_for_room_) {
            const Bytes answer = transact(PING, address, endpoint, 0, {});
            if (is_handshake(answer, NAK)) counts.refused++;
            if (!is_handshake(answer, ACK)) return false;
            waits_for_room_ = false;
        }
        const Bytes payload(to_send.begin(), to_send.begin() + std::min(packet, to_send.size()));
        const Bytes answer = transact(OUT, address, endpoint, out_toggle_ ? DATA1 : DATA0, payload);
        if (is_handshake(answer, ACK)) {
            if (chance(faults.twice)) return true;  // as if the acknowledgement had been lost
            out_toggle_ = !out_toggle_;
            to_send.erase(to_send.begin(), to_send.begin() + payload.size());
            counts.out++;
        } else if (is_handshake(answer, NAK)) {
            counts.refused++;
            waits_for_room_ = Bus::high_speed;
        } else {
            counts.unanswered++;
            counts.stalled += is_handshake(answer, STALL);
        }
        return true;
    }

    bool in() {
        const Bytes answer = transact(IN, address, endpoint, 0, {});
        if (is_data(answer)) {
            if (answer[0] != with_check(in_toggle_ ? DATA1 : DATA0)) {
                counts.repeated++;
                return true;
            }
            in_toggle_ = !in_toggle_;
            received.insert(received.end(), answer.begin() + 1, answer.end() - 2);
            counts.in++;
            counts.empty += answer.size() == 3;
            return true;
        }
        if (is_handshake(answer, NAK)) return false;
        counts.unanswered++;
        counts.stalled += is_handshake(answer, STALL);
        return true;
    }

    bool out_toggle_ = false, in_toggle_ = false, waits_for_room_ = false;
    unsigned number_ = 0, done_ = 0;
    double next_ = 0;
    std::mt19937_64 random_;
};

}  // namespace usb
