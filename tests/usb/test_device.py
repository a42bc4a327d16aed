"""A device in gateware with a host written from the specification: enumeration, packets, and what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hwflow_sim.usb import Enumeration, Faults, UsbBench, enumerate_after_reset, enumerate_device
from hwflow_sim.usb.bench import CompiledBench
from hwflow_sim.usb.enumerate import Refused, control

from tests.usb.designs import BUFFERS, HELD, IDENTITY

#: The longest answer of a device at full speed, and the shortest, bit times: USB 2.0, 7.1.18.1.
ANSWER = (2, 6.5)
#: The same at high speed, to where the PHY is asked to send.
FAST_ANSWER = (8, 192)
#: Parts per million by which a full-speed host may be off: 7.1.11.
WORST_PPM = 2500
GET_DESCRIPTOR, GET_LINE_CODING, SET_CONFIGURATION = 6, 0x21, 9
IN, OUT, NAK, ACK = 9, 1, b"\x5a", b"\xd2"
SECONDS = 0.2


def noise(count: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(count)


@contextmanager
def enumerated(compiled: CompiledBench, **options) -> Iterator[tuple[UsbBench, Enumeration]]:
    with UsbBench(compiled, **options) as bench:
        bench.idle(2000)
        yield bench, enumerate_device(bench)


def comes_back(bench: UsbBench, data: bytes) -> bool:
    got = bench.exchange(data, len(data), SECONDS)
    return got == data and bench.exchange(b"", 1, 2e-3) == b""


def reading(bench: UsbBench, found: Enumeration, wanted: bool) -> None:
    """From now on the host reads, or not; what waits in the device stays."""
    control(found.device, 0, SET_CONFIGURATION, 1, 0)
    bench.configured(found.device.address, found.bulk_packet, reading=wanted)


@pytest.mark.parametrize("ppm", [0, WORST_PPM, pytest.param(-WORST_PPM, marks=pytest.mark.slow)])
def test_full_speed(full_speed: CompiledBench, ppm: int) -> None:
    with enumerated(full_speed, ppm=ppm, line_mhz=25) as (bench, found):
        assert (found.vendor, found.product, found.serial) == (IDENTITY.vendor, IDENTITY.product, IDENTITY.serial)
        assert (found.manufacturer, found.name) == (IDENTITY.manufacturer, IDENTITY.name)
        ends = [(interface.number, interface.kind, [(end.address, end.attributes, end.packet)
                                                    for end in interface.endpoints]) for interface in found.interfaces]
        assert ends == [(0, 2, [(0x82, 3, 8)]), (1, 10, [(1, 2, 64), (0x81, 2, 64)])]
        assert comes_back(bench, noise(5000))
        facts = bench.facts
    assert ANSWER[0] <= facts.first_answer <= facts.last_answer <= ANSWER[1]
    assert (facts.contention, facts.bad_endings, facts.unanswered, facts.repeated, facts.stalled) == (0, 0, 0, 0, 0)


@pytest.mark.slow
def test_high_speed(ulpi: CompiledBench) -> None:
    with UsbBench(ulpi) as bench:
        assert bench.reset() == 2
        found = enumerate_after_reset(bench)
        assert found.bulk_packet == 512
        assert comes_back(bench, noise(40_000))
        facts = bench.facts
        # What it would be at full speed.
        qualifier = control(found.device, 0x80, GET_DESCRIPTOR, 6 << 8, 0, length=10)
        other = control(found.device, 0x80, GET_DESCRIPTOR, 7 << 8, 0, length=255)
    assert (qualifier[0], other[1], len(other)) == (10, 7, len(found.raw[1]))
    assert FAST_ANSWER[0] <= facts.first_answer <= facts.last_answer <= FAST_ANSWER[1]
    assert (facts.bad_endings, facts.unanswered, facts.repeated) == (0, 0, 0)


@pytest.mark.slow
def test_a_phy_at_a_host_without_high_speed(ulpi: CompiledBench) -> None:
    """The descriptors are those of high speed; a host then takes 64 bytes, and so does the device."""
    with UsbBench(ulpi, high_speed=False) as bench:
        assert bench.reset() == 1
        enumerate_after_reset(bench)
        bench.configured(5, 64)
        assert comes_back(bench, noise(3000))


@pytest.mark.parametrize("kind", ["full_speed", "ulpi"])
def test_packets_that_are_lost_damaged_or_come_twice(kind: str, request: pytest.FixtureRequest) -> None:
    """The protocol of the bus repairs all of it: every byte comes, once, in order."""
    with enumerated(request.getfixturevalue(kind), seed=5) as (bench, found):
        bench.inject(Faults(0.02, 0.02, 0.02))
        data = noise(600 * found.bulk_packet, 2)
        assert bench.exchange(data, len(data), SECONDS) == data
        facts = bench.facts
    assert min(facts.faults, facts.unanswered, facts.repeated) > 20
    assert facts.contention == 0


@pytest.mark.parametrize("kind", ["full_speed", "ulpi"])
def test_toggles_begin_anew(kind: str, request: pytest.FixtureRequest) -> None:
    """With a reset of the bus, and with a configuration: else the first packet is taken for one that came before."""
    with enumerated(request.getfixturevalue(kind)) as (bench, found):
        for k in range(3):
            assert comes_back(bench, noise(10, k))  # an odd number of packets
            control(found.device, 0, SET_CONFIGURATION, 1, 0)
            bench.configured(5, found.bulk_packet)
        assert comes_back(bench, noise(10))
        enumerate_device(bench, address=9)
        assert comes_back(bench, noise(10, 7))


def test_an_empty_packet_behind_a_full_one(full_speed: CompiledBench) -> None:
    """Once: the host knows then that no more comes for the moment."""
    with enumerated(full_speed) as (bench, found):
        for count, empty in ((64, 1), (63, 1), (128, 2)):
            reading(bench, found, False)
            assert bench.exchange(noise(count), 1, 2e-3) == b""
            reading(bench, found, True)
            assert bench.exchange(b"", count, 2e-3) == noise(count)
            assert bench.exchange(b"", 1, 3e-3) == b""
            assert bench.facts.empty == empty


@pytest.mark.parametrize("kind", ["full_speed", "ulpi"])
def test_a_host_that_does_not_read(kind: str, request: pytest.FixtureRequest) -> None:
    with enumerated(request.getfixturevalue(kind)) as (bench, found):
        reading(bench, found, False)
        data = noise(2 * (HELD + BUFFERS), 3)
        assert bench.exchange(data, 1, 20e-3) == b""
        assert bench.facts.refused > 10
        held = len(data) - bench.facts.waiting
        # A packet of high speed has room, or none is taken.
        assert HELD + BUFFERS - 512 - found.bulk_packet <= held <= HELD + BUFFERS + 16
        reading(bench, found, True)
        assert bench.exchange(b"", len(data), SECONDS) == data


def test_19_packets_in_a_frame(full_speed: CompiledBench) -> None:
    """As many of 64 bytes as the specification says that a frame has time for (5.8.4), in either direction alone."""
    with enumerated(full_speed) as (bench, found):
        for frames in (2, 3):
            data = noise(frames * 19 * 64)
            reading(bench, found, False)
            assert bench.exchange(data, 1, frames * 1e-3) == b""
            assert bench.facts.waiting == 0
            reading(bench, found, True)
            before = bench.facts.seconds
            assert bench.exchange(b"", len(data), SECONDS) == data
            # The first frame had begun before.
            assert bench.facts.seconds - before <= (frames + 0.1) * 1e-3


def test_requests(full_speed: CompiledBench) -> None:
    with enumerated(full_speed) as (bench, found):
        device = found.device
        assert control(device, 0xA1, GET_LINE_CODING, 0, 0, length=7) == b"\x00\xc2\x01\x00\x00\x00\x08"
        # A device that is never at high speed has no qualifier; there is no fourth string, and no such request.
        for kind, request, value in ((0x80, GET_DESCRIPTOR, 6 << 8), (0x80, GET_DESCRIPTOR, 3 << 8 | 4),
                                     (0xC0, 0x77, 0), (0xA1, 0x77, 0)):
            with pytest.raises(Refused):
                control(device, kind, request, value, 0, length=18)
        assert comes_back(bench, noise(100))
        # The endpoint of notifications has none; there is no endpoint 3.
        assert bench.transact(IN, 5, 2) == NAK
        assert bench.transact(IN, 5, 3) == b""
        assert bench.transact(IN, 6, 1) == b""


def test_nothing_before_a_configuration(full_speed: CompiledBench) -> None:
    with UsbBench(full_speed) as bench:
        bench.idle(2000)
        assert bench.reset() == 1
        assert bench.transact(IN, 0, 1) == b""
        assert bench.transact(OUT, 0, 1, 3, b"x") == b""


def test_suspended_and_resumed(full_speed: CompiledBench) -> None:
    with enumerated(full_speed) as (bench, _):
        assert comes_back(bench, noise(100))
        bench.idle(12_000 * 8)
        assert comes_back(bench, noise(100, 2))


def test_too_long_a_packet_is_not_taken(full_speed: CompiledBench) -> None:
    with enumerated(full_speed) as (bench, found):
        assert bench.transact(OUT, found.device.address, 1, 3, noise(65)) == b""
        assert bench.transact(OUT, found.device.address, 1, 3, noise(64)) == ACK
        assert bench.exchange(b"", 64, 2e-3) == noise(64)
