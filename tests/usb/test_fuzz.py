"""Whatever comes on the bus: the device never hangs, and works when it is enumerated again."""

from __future__ import annotations

import random

import pytest
from hwflow_sim.usb import UsbBench, enumerate_device

from tests.random_cases import seeds
from tests.usb.test_device import noise

ADDRESS = 5
SETUP, IN, OUT, SOF, PING = 13, 9, 1, 5, 4
#: Packets between two enumerations.
ROUND = 1000
TRIES = 3


def checked(pid: int) -> int:
    return pid | (~pid & 15) << 4


def crc(octets: bytes, bits: int, width: int, polynomial: int) -> int:
    """Over the low `bits` of `octets`, complemented, as it goes out."""
    rest = (1 << width) - 1
    for k in range(bits):
        fold = (rest & 1) ^ (octets[k // 8] >> k % 8 & 1)
        rest = rest >> 1 ^ (polynomial if fold else 0)
    return rest ^ (1 << width) - 1


def token(chance: random.Random) -> bytes:
    eleven = chance.choice((0, ADDRESS, chance.randrange(128))) | chance.choice((0, 1, 2, chance.randrange(16))) << 7
    plain = eleven.to_bytes(2, "little")
    both = eleven | crc(plain, 11, 5, 0x14) << 11
    return bytes([checked(chance.choice((SETUP, IN, OUT, SOF, PING)))]) + both.to_bytes(2, "little")


def data(chance: random.Random, payload: bytes) -> bytes:
    return (bytes([checked(chance.choice((3, 3, 11, 11, 7, 15)))]) + payload
            + crc(payload, 8 * len(payload), 16, 0xA001).to_bytes(2, "little"))


def setup(chance: random.Random) -> bytes:
    kind, request = chance.choice((0, 0x80, 0x21, 0xA1, 2, chance.randrange(256))), chance.choice(
        (1, 5, 6, 9, 0x20, 0x21, 0x22, chance.randrange(256)))
    return bytes([kind, request]) + chance.randbytes(4) + chance.choice((0, 7, 64, 255)).to_bytes(2, "little")


def any_packet(chance: random.Random) -> bytes:
    size = chance.choice((0, 1, 8, 63, 64, 65, chance.randrange(600)))
    return chance.choice((
        lambda: token(chance), lambda: token(chance), lambda: data(chance, chance.randbytes(size)),
        lambda: data(chance, setup(chance)), lambda: bytes([checked(chance.randrange(16))]),
        lambda: chance.randbytes(1 + size % 70)))()


def disturb(bench: UsbBench, chance: random.Random, packets: int) -> None:
    for _ in range(packets):
        packet = any_packet(chance)
        flips = [chance.randrange(8 * len(packet))] if chance.random() < 0.3 else []
        cut = {"cut": chance.randrange(8 * len(packet))} if chance.random() < 0.1 else {}
        bench.packet(packet, flips=flips, **cut)


def works(bench: UsbBench) -> bool:
    """After a reset: an enumeration, and bytes through the device."""
    found = enumerate_device(bench, ADDRESS)
    while bench.exchange(b"", 1, 2e-3):  # what came before
        pass
    sent = noise(500)
    return found.serial == "board-7" and bench.exchange(sent, len(sent), 50e-3) == sent


@pytest.mark.parametrize("kind", ["full_speed", "ulpi"])
@seeds(quick=range(1), slow=range(1, 102))
def test_any_packets(kind: str, seed: int, request: pytest.FixtureRequest) -> None:
    """Random ones, right ones in the wrong order, cut ones and ones with wrong bits."""
    with UsbBench(request.getfixturevalue(kind), seed=seed + 1) as bench:
        bench.idle(2000)
        chance = random.Random(seed)
        assert works(bench)
        disturb(bench, chance, ROUND)
        assert works(bench)
