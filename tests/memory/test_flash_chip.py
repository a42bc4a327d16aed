"""The simulated flash: what is right passes, and each thing that is wrong is counted as what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_sim.memory_bench import BareFlash, Edge, compile_bare_flash

from tests.memory.flash_parts import QUAD

CELLS = np.random.default_rng(5).integers(0, 256, QUAD.bytes, dtype=np.uint8)
#: Which lines are driven: on one line, IO2 and IO3 are high; on all lines; nothing.
ONE, ALL, NONE = 0b1101, 0b1111, 0
HALF = 10_000
QE = {"asleep": 0, "qe": 1}
#: A clock: the levels of IO3 to IO0, and which of them are driven.
Clock = tuple[int, int]


def one_line(*octets: int) -> list[Clock]:
    return [(0b1100 | octet >> bit & 1, ONE) for octet in octets for bit in range(7, -1, -1)]


def two_lines(*octets: int) -> list[Clock]:
    return [(0b1100 | octet >> bit & 3, ALL) for octet in octets for bit in (6, 4, 2, 0)]


def four_lines(*octets: int) -> list[Clock]:
    return [(octet >> bit & 15, ALL) for octet in octets for bit in (4, 0)]


def listen(clocks: int, driven: int = NONE) -> list[Clock]:
    return [(0b1100, driven)] * clocks


@dataclass(frozen=True)
class Command:
    """Clocks, and times in ps: chip select high before it, from chip select to the first rising clock and from the last
    one to chip select, half a period, and how long before a rising clock the lines change."""

    clocks: Sequence[Clock]
    high: int = 70_000
    setup: int = HALF
    hold: int = HALF
    half: int = HALF
    ahead: int = HALF

    def events(self) -> list[tuple[int, str, int]]:
        """Times from chip select low, the name of a pin, its level."""
        found = [(0, "cs_n", 0)]
        for n, (levels, driven) in enumerate(self.clocks):
            rise = self.setup + 2 * self.half * n
            moves = rise - self.ahead if n else -1000
            found += [(moves, "io", levels), (moves, "driven", driven), (rise, "sck", 1), (rise + self.half, "sck", 0)]
        end = self.length
        return [*found, (end, "cs_n", 1), (end + 20_000, "driven", 0)]

    @property
    def length(self) -> int:
        return self.setup + 2 * self.half * (len(self.clocks) - 1) + self.hold


@dataclass(frozen=True)
class Seen:
    """What the chip showed at each rising clock, and what it counted."""

    lines: list[int]
    violations: dict[str, int]

    def octets(self, first: int, lines: int = 4) -> list[int]:
        """The bytes from a clock on; on one line they come on IO1."""
        found = [value & (1 << lines) - 1 if lines > 1 else value >> 1 & 1 for value in self.lines[first:]]
        many = 8 // lines
        return [sum(bits << lines * (many - 1 - k) for k, bits in enumerate(found[n:n + many]))
                for n in range(0, len(found) - many + 1, many)]


@pytest.fixture(scope="session")
def chip(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> BareFlash:
    return compile_bare_flash(QUAD, folder=tmp_path_factory.mktemp("flash"), cache=cache)


def run(chip: BareFlash, commands: Sequence[Command | Sequence[Clock]], **numbers: int) -> Seen:
    now, events = 0, []
    for each in commands:
        command = each if isinstance(each, Command) else Command(each)
        start = now + command.high
        events += [(start + time, name, level) for time, name, level in command.events()]
        now = start + command.length
    edges, rises, pins, last = [], [], Edge(0, 0, 1), 0
    for time, name, level in sorted(events, key=lambda event: event[0]):
        pins = replace(pins, **{"wait": time - last, name: level})
        last = time
        if name == "sck" and level:
            rises.append(len(edges))
        edges.append(pins)
    result = chip.run(edges, CELLS, numbers)
    return Seen(result.lines[rises].tolist(), dict(result.violations))


WAKE, ENABLE, QUAD_ON = one_line(0xAB), one_line(0x50), one_line(0x31, 2)


def quad_read(address: int, octets: int, *, mode: int = 0xA0, opcode: bool = True, dummies: int = 4) -> list[Clock]:
    *sent, last = four_lines(*address.to_bytes(3, "big"), mode)
    return [*(one_line(0xEB) if opcode else []), *sent, (last[0], NONE), *listen(dummies + 2 * octets)]


def test_what_a_controller_does_at_start(chip: BareFlash) -> None:
    """Asleep and without QE, as an iCE40 leaves it, to the first bytes and the next ones in continuous mode."""
    steps = [one_line(0xFF), WAKE, Command([*one_line(0x9F), *listen(24, ONE)], high=3_000_000), ENABLE, QUAD_ON,
             [*one_line(0x35), *listen(8, ONE)], quad_read(0x12344, 5), quad_read(0x00100, 3, opcode=False)]
    seen = run(chip, steps)
    assert seen.violations == {}
    assert seen.octets(8 + 8 + 8, 1)[:3] == [0xEF, 0x70, 0x18]
    assert seen.octets(8 + 8 + 32 + 8 + 16 + 8, 1)[0] == 0x02
    first = 8 + 8 + 32 + 8 + 16 + 16 + 20
    assert seen.octets(first)[:5] == CELLS[0x12344:0x12349].tolist()
    assert seen.octets(first + 10 + 12) == CELLS[0x100:0x103].tolist()


def test_two_lines(chip: BareFlash) -> None:
    seen = run(chip, [[*one_line(0xBB), *two_lines(0x01, 0x02, 0x03, 0xF0)[:-2], *listen(14, 0b1100)]], asleep=0)
    assert seen.violations == {}
    assert seen.octets(24, 2) == CELLS[0x10203:0x10206].tolist()


@pytest.mark.parametrize("ones", [one_line(0xFF), four_lines(0xFF, 0xFF, 0xFF, 0xFF)])
def test_ones_leave_continuous_mode(chip: BareFlash, ones: list[Clock]) -> None:
    """On IO0 alone, whatever the other lines are."""
    seen = run(chip, [ones, [*one_line(0x9F), *listen(24, ONE)]], continuous=4, **QE)
    assert (seen.violations, seen.octets(16, 1)) == ({}, [0xEF, 0x70, 0x18])


@pytest.mark.parametrize("numbers", [{"mute": 1}, {"mute": 2}])
def test_no_chip(chip: BareFlash, numbers: dict[str, int]) -> None:
    seen = run(chip, [[*one_line(0x9F), *listen(24, ONE)]], **numbers)
    assert (seen.violations, seen.octets(8, 1)) == ({}, [0xFF * (numbers["mute"] == 1)] * 3)


def test_qe_that_cannot_be_set(chip: BareFlash) -> None:
    seen = run(chip, [ENABLE, QUAD_ON, [*one_line(0x35), *listen(8, ONE)]], asleep=0, qe_writable=0)
    assert (seen.violations, seen.octets(32, 1)) == ({}, [0])


READ = quad_read(0x100, 8)
#: A command whose time is exactly what the data sheet allows, this time, and how often it is too short by 1 ps.
TIMES = {"clock period": (Command(READ, half=5000, ahead=5000), "t_c", 10_000, len(READ) - 1),
         "t_slch": (Command(READ, setup=4000), "t_slch", 4000, 1),
         "t_chsh": (Command(READ, hold=5000), "t_chsh", 5000, 1),
         "t_dvch": (Command(WAKE, ahead=1000), "t_dvch", 1000, 6),
         "t_chdx": (Command(WAKE, ahead=2 * HALF - 2000), "t_chdx", 2000, 6)}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", TIMES)
def test_one_picosecond_too_short_is_counted(chip: BareFlash, name: str) -> None:
    command, number, time, count = TIMES[name]
    assert run(chip, [command], **QE).violations == {}
    assert run(chip, [command], **QE, **{number: time + 1}).violations == {name: count}


def test_chip_select_high_and_the_release_from_power_down(chip: BareFlash) -> None:
    again = [READ, Command(quad_read(0, 1, opcode=False), high=69_999)]
    assert run(chip, again, **QE).violations == {"t_shsl": 1}
    wake = [WAKE, Command(READ, high=2_999_999)]
    assert run(chip, wake, qe=1).violations == {"t_res1": 1}


@pytest.mark.quick(6)
@pytest.mark.parametrize(("steps", "numbers", "expected"), [
    ([READ], {"qe": 1}, {"command in power-down": 1}),
    ([one_line(0xB9), READ], QE, {"command in power-down": 1}),
    ([one_line(0xEB)], {"asleep": 0}, {"quad read without QE": 1}),
    ([QUAD_ON], {"asleep": 0}, {"status write that was not enabled": 1}),
    ([ENABLE, WAKE, QUAD_ON, Command(QUAD_ON)], {"asleep": 0, "t_res1": 0}, {"status write that was not enabled": 1}),
    ([ENABLE, QUAD_ON[:-1]], {"asleep": 0}, {"command cut short": 1}),
    ([WAKE[:-1]], {}, {"command cut short": 1}),
    ([READ[:12]], QE, {"command cut short": 1}),
    ([one_line(0x03)], {"asleep": 0}, {"command that the model does not know": 1}),
    ([quad_read(0x102, 2)], QE, {"address": 1}),
    ([quad_read(0x3FFFC, 4)], QE, {}),
    ([quad_read(0x3FFFC, 5)], QE, {"address": 1}),
    ([quad_read(0x40000, 1)], QE, {"address": 1}),
    ([[*READ[:14], *listen(20)]], QE, {"input that nobody drives": 1}),
    ([[*READ[:8], (READ[8][0], 0b0111), *READ[9:]]], QE, {"input that nobody drives": 1}),
    ([[*READ[:-2], *listen(1, 0b0100), READ[-1]]], QE, {"both sides drive data": 1}),
    ([[(levels & 7, driven) for levels, driven in WAKE]], {}, {"hold line low": 8}),
    ([[(levels, 0b0101) for levels, driven in WAKE]], {}, {"hold line low": 8}),
])
def test_what_breaks_the_protocol_is_counted(chip: BareFlash, steps: list[Command | list[Clock]],
                                             numbers: dict[str, int], expected: dict[str, int]) -> None:
    assert run(chip, steps, **numbers).violations == expected


def test_data_are_noise_until_they_are_valid(chip: BareFlash) -> None:
    """A clock whose low half is shorter than t_clqv shows no data at its rising edge."""
    assert run(chip, [READ], **QE).octets(20) == CELLS[0x100:0x108].tolist()
    assert run(chip, [READ], **QE, t_clqv=HALF + 1).octets(20) != CELLS[0x100:0x108].tolist()
