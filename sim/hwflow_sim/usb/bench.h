// Commands from `bench.py` to a host on a bus, and answers; all numbers little-endian, as in `struct`.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "host.h"

namespace usb {

inline bool read_all(void* place, size_t size) {
    auto* at = static_cast<char*>(place);
    while (size > 0) {
        const ssize_t got = read(0, at, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        size -= size_t(got);
    }
    return true;
}

inline void write_all(const void* place, size_t size) {
    const auto* at = static_cast<const char*>(place);
    while (size > 0) {
        const ssize_t put = write(1, at, size);
        if (put < 0 && errno != EINTR) std::exit(1);  // nobody listens any more
        if (put > 0) {
            at += put;
            size -= size_t(put);
        }
    }
}

template <class T> T number() {
    T value;
    if (!read_all(&value, sizeof value)) std::exit(0);
    return value;
}

inline Bytes octets() {
    Bytes bytes(number<uint64_t>());
    if (!read_all(bytes.data(), bytes.size())) std::exit(0);
    return bytes;
}

template <class Bus> void answer(Host<Bus>& host, const Bytes& bytes) {
    const Counts& c = host.counts;
    const double times[] = {host.bus.seconds(), host.bus.first_answer, host.bus.last_answer};
    const uint64_t facts[] = {bytes.size(), c.frames, c.out, c.in, c.refused, c.empty, c.unanswered, c.repeated,
                              c.faults, c.stalled, host.bus.contention, host.bus.bad_endings, host.to_send.size()};
    write_all(times, sizeof times);
    write_all(facts, sizeof facts);
    write_all(bytes.data(), bytes.size());
}

template <class Bus> void obey(Host<Bus>& host) {
    char command;
    while (read_all(&command, 1)) {
        Bytes bytes;
        if (command == 'R') {  // a reset of the bus: whether a device is there
            bytes.push_back(host.bus.reset(number<double>()));
            host.restart();
        } else if (command == 'I') {
            host.bus.idle(number<double>());
        } else if (command == 'T') {  // one transaction
            uint8_t head[4];
            if (!read_all(head, sizeof head)) return;
            const Bytes payload = octets();
            bytes = host.transact(head[0], head[1], head[2], head[3], payload);
        } else if (command == 'P') {  // any packet, with wrong bits, perhaps cut; what comes back
            const Bytes packet = octets();
            std::vector<size_t> flips(number<uint64_t>());
            for (size_t& flip : flips) flip = number<uint64_t>();
            host.bus.send(packet, flips, number<uint64_t>());
            bytes = host.bus.receive();
            host.bus.idle(Bus::GAP_BITS);
        } else if (command == 'F') {
            host.faults = {number<double>(), number<double>(), number<double>()};
        } else if (command == 'C') {  // the device was configured: where its data endpoint is
            host.address = uint8_t(number<uint64_t>());
            host.packet = number<uint64_t>();
            host.reading = number<uint64_t>();
            host.restart();
        } else if (command == 'X') {  // frames
            const Bytes payload = octets();
            host.to_send.insert(host.to_send.end(), payload.begin(), payload.end());
            const auto wanted = number<uint64_t>();
            const auto seconds = number<double>();
            host.run(wanted, host.bus.seconds() + seconds);
            bytes.swap(host.received);
        } else {
            std::fprintf(stderr, "unknown command %d\n", command);
            std::exit(1);
        }
        answer(host, bytes);
    }
}

}  // namespace usb
