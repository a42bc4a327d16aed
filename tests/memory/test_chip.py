"""The simulated chip: what is right passes, and each thing that is wrong by one clock is counted as what it is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest
from hwflow_sim.memory_bench import BareSdram, BareSdramResult, Command, Pins

REFRESH, SET_MODE, STOP = Pins(Command.REFRESH), Pins(Command.SET_MODE, address=2 << 4), Pins(Command.STOP_BURST)
CLOSE_ALL = Pins(Command.PRECHARGE, address=1 << 10)


def activate(bank: int, row: int = 0) -> Pins:
    return Pins(Command.ACTIVATE, bank, row)


def close(bank: int) -> Pins:
    return Pins(Command.PRECHARGE, bank)


def read(bank: int, column: int = 0, mask: int = 0) -> Pins:
    return Pins(Command.READ, bank, column, mask=mask)


def write(bank: int, column: int, data: int | None, mask: int = 0) -> Pins:
    return Pins(Command.WRITE, bank, column, data, mask)


def after(clocks: int, pins: Pins) -> list[Pins]:
    """`pins`, so many clocks after the command before."""
    return [*[Pins()] * (clocks - 1), pins]


def power_up(delay: int = 100, refreshes: int = 3, mode: Pins = SET_MODE) -> list[Pins]:
    """Ends with the command that sets the mode register; the chip's first edge is number 1."""
    steps = [*after(delay, CLOSE_ALL), *after(2, REFRESH)]
    for _ in range(refreshes - 1):
        steps += after(9, REFRESH)
    return [*steps, *after(9, mode)]


READY = power_up() + [Pins()] * 3


def run(chip: BareSdram, cycles: Sequence[Pins], **limits: int) -> BareSdramResult:
    return chip.run([*cycles, *[Pins()] * 8], limits)


def test_words_come_back_two_clocks_after_the_read(chip: BareSdram) -> None:
    steps = [*READY, activate(1, 5), *after(3, write(1, 7, 0xBEEF)), write(1, 8, 0x1234), write(1, 8, 0x5678, mask=2)]
    steps += [read(1, 7), read(1, 8)]
    at = len(steps) - 2
    result = run(chip, [*steps, *after(2, close(1))])
    assert result.violations == {}
    assert result.data[at + 2:at + 4].tolist() == [0xBEEF, 0x1278]  # a masked byte stays as it was
    # In the first half of the period, while the access time lasts, there is something else.
    assert all(result.early[at + 1:at + 3] != result.data[at + 2:at + 4])
    assert 0xBEEF not in result.data[:at + 2].tolist()


def test_three_clocks_with_the_other_cas_latency(chip: BareSdram) -> None:
    ready = power_up(mode=Pins(Command.SET_MODE, address=3 << 4)) + [Pins()] * 3
    steps = [*ready, activate(0), *after(3, write(0, 0, 0xCAFE)), read(0, 0)]
    result = run(chip, steps)
    assert result.violations == {}
    assert result.data[len(steps) - 1 + 3] == 0xCAFE
    assert result.data[len(steps) - 1 + 2] != 0xCAFE


def test_a_masked_read_gives_nothing(chip: BareSdram) -> None:
    steps = [*READY, activate(0), *after(3, write(0, 0, 0xCAFE)), read(0, 0, mask=3)]
    assert run(chip, steps).data[len(steps) - 1 + 2] != 0xCAFE


PAIRS = {
    "t_rcd": lambda n: [*READY, activate(0), *after(n, read(0))],
    "t_ras": lambda n: [*READY, activate(0), *after(n, close(0))],
    "t_rp": lambda n: [*READY, activate(0), *after(9, close(0)), *after(n, activate(0))],
    "t_rc": lambda n: [*READY, activate(0), *after(5, close(0)), *after(n - 5, activate(0))],
    "t_rrd": lambda n: [*READY, activate(0), *after(n, activate(1))],
    "t_rfc": lambda n: [*READY, REFRESH, *after(n, activate(0))],
    "t_wr": lambda n: [*READY, activate(0), *after(5, write(0, 0, 1)), *after(n, close(0))],
    "t_mrd": lambda n: [*power_up(), *after(n, REFRESH)],
    "command before the end of power-up": lambda n: power_up(delay=n),
}


@pytest.mark.parametrize(("name", "clocks"), [
    ("t_rcd", 3), ("t_ras", 5), ("t_rp", 2), ("t_rc", 8), ("t_rrd", 2), ("t_rfc", 9), ("t_wr", 2), ("t_mrd", 4),
    ("command before the end of power-up", 100)])
def test_one_clock_too_early_is_counted(chip: BareSdram, name: str, clocks: int) -> None:
    assert run(chip, PAIRS[name](clocks)).violations == {}
    early = run(chip, PAIRS[name](clocks - 1))
    assert early.violations == {name: 1}


@pytest.mark.parametrize(("name", "limit"), [("t_wr", "c_wr"), ("t_rrd", "c_rrd")])
def test_times_in_clocks_count_beside_those_in_ns(chip: BareSdram, name: str, limit: str) -> None:
    assert run(chip, PAIRS[name](2), **{limit: 3}).violations == {name: 1}
    assert run(chip, PAIRS[name](3), **{limit: 3}).violations == {}


@pytest.mark.parametrize(("steps", "expected"), [
    (power_up(refreshes=2) + after(4, activate(0)), {"access before the end of the power-up sequence": 1}),
    ([*[Pins()] * 100, *after(4, SET_MODE), *after(9, REFRESH), *after(9, REFRESH), *after(9, REFRESH),
      *after(9, activate(0))], {"access before the end of the power-up sequence": 1}),
    (power_up()[:-1] + after(9, activate(0)), {"access before the end of the power-up sequence": 1}),
    ([*READY, read(2)], {"access to a closed bank": 1}),
    ([*READY, activate(0), *after(5, close(0)), *after(5, write(0, 0, 1))], {"access to a closed bank": 1}),
    ([*READY, activate(0), *after(9, activate(0, 1))], {"activate of an open bank": 1}),
    ([*READY, activate(0), *after(9, REFRESH)], {"refresh or mode with an open bank": 1}),
    ([*READY, activate(0), *after(9, SET_MODE)], {"refresh or mode with an open bank": 1}),
    ([*READY, activate(0), *after(9, close(0)), REFRESH], {"t_rp": 1}),
    ([*READY, activate(0), *after(5, close(0)), *after(2, REFRESH)], {"t_rc": 1}),
    ([*READY, activate(0), *after(3, read(0)), *after(3, write(0, 0, 1))], {}),
    ([*READY, activate(0), *after(3, read(0)), *after(2, write(0, 0, 1))], {"both sides drive data": 1}),
    ([*READY, activate(0), *after(3, read(0)), *after(1, write(0, 0, 1))], {"both sides drive data": 1}),
    ([*READY, activate(0), *after(3, write(0, 0, None))], {"write without data": 1}),
    (power_up(mode=Pins(Command.SET_MODE, address=2 << 4 | 3)), {"mode register": 1}),
    (power_up(mode=Pins(Command.SET_MODE, address=1 << 4)), {"mode register": 1}),
    (power_up(mode=Pins(Command.SET_MODE, bank=1, address=2 << 4)), {"mode register": 1}),
    ([*READY, activate(0, 64)], {"address outside of the chip": 1}),
    ([*READY, activate(0), *after(3, read(0, 64))], {"address outside of the chip": 1}),
    ([*READY, Pins(cke=0)], {"cke low": 1}),
    ([*READY, activate(0), *after(3, STOP)], {"command that the model does not know": 1}),
    ([*READY, activate(0), *after(3, read(0, 1 << 10))], {"command that the model does not know": 1}),
    ([*READY, Pins(Command.READ, cs_n=1), Pins(Command.REFRESH, cke=1, cs_n=1)], {}),  # not selected
])
def test_what_breaks_the_protocol_is_counted(chip: BareSdram, steps: list[Pins], expected: dict[str, int]) -> None:
    assert run(chip, steps).violations == expected


def test_a_clock_that_is_too_fast_for_the_cas_latency(chip: BareSdram) -> None:
    assert run(chip, READY, t_ck2=10_000).violations == {}
    assert run(chip, READY, t_ck2=10_001).violations == {"clock period": 1}
    assert run(chip, READY, t_ck3=10_001).violations == {}


def test_a_row_that_stays_open_for_too_long(chip: BareSdram) -> None:
    assert run(chip, [*READY, activate(0), *after(2000, close(0))]).violations == {}
    assert run(chip, [*READY, activate(0), *after(2001, close(0))]).violations == {"t_ras_max": 1}


def test_the_first_violation_is_told_with_its_cycle(chip: BareSdram) -> None:
    assert run(chip, [*READY, read(2), read(3)]).first_cycle == len(READY) + 1


def test_refreshes_may_be_owed_but_not_many(chip: BareSdram) -> None:
    mode = power_up()
    assert run(chip, [*mode, *[Pins()] * (300 * 9 - 10)]).violations == {}
    assert run(chip, [*mode, *[Pins()] * (300 * 9 + 1)]).violations == {"more than 8 refreshes owed": 1}


def test_every_row_wants_its_refresh_within_the_retention_time(chip: BareSdram) -> None:
    """64 rows, 300 clocks for each: a row's second refresh comes at most 19 200 clocks after its first."""
    even = [after(300, REFRESH) for _ in range(130)]
    assert run(chip, [*power_up(), *chain(*even)]).violations == {}
    late = [*even[:70], after(330, REFRESH), *even[71:]]
    assert run(chip, [*power_up(), *chain(*late)]).violations == {"retention time": 60}
