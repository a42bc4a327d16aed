"""The flash controller with the simulated chip: every word, every rule of the data sheet, latency, rate, errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator, SimulatorContext
from hwflow_rtl.memory import FlashController, FlashError, FlashPads, FlashPart, MemoryPart, PartNumberError, flash_pins
from hwflow_sim.flash import FlashLimits
from hwflow_sim.memory_bench import FlashReads, TrafficResult, compile_reads

from tests.memory.flash_parts import DUAL, DUAL_CONTINUOUS, PARTS, PLAIN, QUAD, TIMING

Programs = Callable[[FlashPart], FlashReads]
CELLS = np.random.default_rng(7).integers(0, 256, QUAD.words * 4, dtype=np.uint8)
WORDS = CELLS[0::4] | CELLS[1::4].astype(np.int64) << 8 | CELLS[2::4].astype(np.int64) << 16 | (
    CELLS[3::4].astype(np.int64) << 24)
ONE_READ = [[0, 9, 0, 0]]


@pytest.fixture(scope="session")
def reads(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return lambda part: compile_reads(part, folder=tmp_path_factory.mktemp("reads"), cache=cache)


def random_reads(count: int, longest: int, seed: int, *, wait: int = 0, drops: bool = False) -> npt.NDArray[np.int64]:
    """Anywhere in the part, its first and last word included; some are dropped after some of their words."""
    source = np.random.default_rng(seed)
    length = source.integers(1, longest + 1, count)
    first = source.integers(0, QUAD.words - length + 1)
    first[:2] = 0, QUAD.words - length[1]
    drop = source.integers(1, length + 1) * source.integers(0, 2, count) if drops else np.zeros(count, dtype=np.int64)
    return np.stack([first, first + length - 1, source.integers(0, wait + 1, count), drop], axis=1)


def expected(requests: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([WORDS[first:last + 1][:drop or None] for first, last, _, drop in requests.tolist()])


def require_right(result: TrafficResult, wanted: npt.NDArray[np.int64]) -> None:
    assert result.violations == {}, result.first_violation
    assert (result.error, np.array_equal(result.words, wanted)) == (FlashError.NONE, True)


@pytest.mark.quick(3)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
@pytest.mark.parametrize(("longest", "wait", "stall", "drops"), [
    (1, 0, 0.0, False), (20, 30, 0.3, False), (100, 0, 0.95, False), (20, 5, 0.2, True)])
def test_reads_with_stalls_and_restarts(reads: Programs, part: FlashPart, longest: int, wait: int, stall: float,
                                        drops: bool) -> None:
    requests = random_reads(120, longest, longest + wait, wait=wait, drops=drops)
    result = reads(part).run(requests, CELLS, seed=3, stall=stall)
    require_right(result, expected(requests))
    if not stall:
        assert result.latency == part.clocks.worst_latency


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_rate_of_sequential_reads(reads: Programs, part: FlashPart) -> None:
    """A byte comes whenever the lines have brought one; between requests pass the clocks that `read_clocks` says."""
    one, more = (reads(part).run(np.array([[64, 64 + 4095, 0, 0]] * count), CELLS) for count in (1, 5))
    clocks = part.clocks
    assert (one.gap, clocks.worst_gap) == (clocks.octet, clocks.octet)
    assert more.reading - one.reading == 4 * clocks.read_clocks(4096)
    assert 4096 * clocks.word / clocks.read_clocks(4096) > 0.99


@pytest.mark.quick(3)
@pytest.mark.parametrize(("part", "numbers", "error"), [
    (QUAD, {"mute": 1}, FlashError.NO_ANSWER), (QUAD, {"mute": 2}, FlashError.NO_ANSWER),
    (DUAL, {"mute": 1}, FlashError.NO_ANSWER), (QUAD, {"id": 0xEF4018}, FlashError.WRONG_PART),
    (PLAIN, {"id": 0xC22018}, FlashError.WRONG_PART), (QUAD, {"qe_writable": 0}, FlashError.NOT_QUAD)],
    ids=lambda value: value.name if isinstance(value, FlashPart) else None)
def test_a_chip_that_does_not_answer_as_it_should(reads: Programs, part: FlashPart, numbers: dict[str, int],
                                                  error: FlashError) -> None:
    """No request is taken, and no word comes."""
    result = reads(part).run(ONE_READ, CELLS, numbers=numbers)
    assert result.violations == {}
    assert (result.error, result.initialized, result.requests, len(result.words)) == (error, 0, 0, 0)


@pytest.mark.quick(3)
@pytest.mark.parametrize(("part", "numbers"), [
    (QUAD, {"asleep": 0}), (QUAD, {"asleep": 0, "qe": 1, "continuous": 4}), (QUAD, {"qe": 1, "qe_writable": 0}),
    (DUAL_CONTINUOUS, {"asleep": 0, "continuous": 2}), (PLAIN, {"id": 0xEF4018}), (PLAIN, {"id": 0xEF7018})],
    ids=lambda value: value.name if isinstance(value, FlashPart) else None)
def test_the_state_that_the_chip_was_left_in(reads: Programs, part: FlashPart, numbers: dict[str, int]) -> None:
    """Awake, in continuous read mode after a reset of the FPGA alone, with a bit QE that is fixed at 1, either chip."""
    require_right(reads(part).run(ONE_READ, CELLS, numbers=numbers), WORDS[:10])


@pytest.mark.parametrize("late", [0, 10, QUAD.clocks.release - 1])
def test_a_reset_while_the_chip_wakes_up(late: int) -> None:
    """Chip select stays high for the whole time that the chip needs, counted from the release, not from the reset."""
    reset, controller = Signal(), FlashController(part=QUAD)
    sim = Simulator(ResetInserter(reset)(controller))
    sim.add_clock(1e-8)

    async def bench(ctx: SimulatorContext) -> None:
        for edge in (0, 1, 0, 1):  # around what leaves continuous read mode, then around the release
            await ctx.tick().until(controller.pins.cs_n == edge)
        for _ in range(late):
            await ctx.tick()
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        high = late + 1
        while ctx.get(controller.pins.cs_n):
            await ctx.tick()
            high += 1
        assert high >= QUAD.clocks.release

    sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize(("limit", "value", "violation"), [
    ("t_c", 20_001, "clock period"), ("t_shsl", 110_000, "t_shsl"), ("t_dvch", 10_001, "t_dvch"),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in (
        ("t_slch", 10_001, "t_slch"), ("t_chsh", 10_001, "t_chsh"), ("t_res1", 3_020_001, "t_res1"),
        ("t_chdx", 10_001, "t_chdx")))])
def test_each_number_of_the_timing_matters(reads: Programs, limit: str, value: int, violation: str) -> None:
    """A chip that wants one time longer than the controller gives it reports that time, and no other."""
    assert value > FlashLimits.of(QUAD).values.get(limit.upper(), 0)
    result = reads(QUAD).run(ONE_READ, CELLS, numbers={limit: value})
    assert list(result.violations) == [violation]


@pytest.mark.slow
def test_data_that_come_late_or_go_early_are_not_the_right_ones(reads: Programs) -> None:
    """Chip and pads have a whole period: 20 ns, 8 of them in the pads.  Data may go when the clock falls again."""
    values = FlashLimits.of(QUAD).values
    assert (values["T_CLQV"], values["T_PADS"], values["T_KEPT"]) == (7000, 8000, 1000)
    for right in ({"t_clqv": 12_000}, {"t_pads": 13_000}, {"t_kept": 0}):
        require_right(reads(QUAD).run(ONE_READ, CELLS, numbers=right), WORDS[:10])
    for wrong in ({"t_clqv": 12_001}, {"t_pads": 13_001}, {"t_kept": -1}):
        assert reads(QUAD).run(ONE_READ, CELLS, numbers=wrong).error == FlashError.WRONG_PART


@pytest.mark.parametrize("takes", [
    pytest.param(("fall",), id="late"), pytest.param(("fall", "sync"), id="early", marks=pytest.mark.slow)])
def test_another_moment_to_take_data_is_wrong(cache: Path, tmp_path: Path, takes: tuple[str, ...],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a period after the right one the chip has moved on, half a period before it the data are not there."""
    monkeypatch.setattr(FlashPads, "TAKES", takes)
    result = compile_reads(QUAD, folder=tmp_path, cache=cache).run(ONE_READ, CELLS)
    assert (result.violations, result.error) == ({}, FlashError.WRONG_PART)


# Numbers


def test_clocks_of_a_part() -> None:
    clocks = QUAD.clocks
    assert (clocks.word, clocks.lead, clocks.first_lead, clocks.deselect, clocks.release) == (8, 12, 20, 4, 150)
    assert (PLAIN.clocks.lead, PLAIN.clocks.first_lead) == (21, 21)
    assert (DUAL.clocks.word, DUAL.clocks.octet, DUAL.clocks.lead) == (16, 4, 24)
    assert replace(QUAD, clock_mhz=10).clocks.deselect == 4  # what was asked for must arrive
    part: MemoryPart = QUAD
    assert (part.width, part.piece, part.words, part.writable) == (32, 8, 49152, False)
    assert part.clocks.sustained_share == 1 / 8
    assert (QUAD.peak_bytes_per_second, DUAL.peak_bytes_per_second) == (25e6, 12.5e6)
    assert isinstance(part.controller(), FlashController)
    assert (QUAD.setup_margin(50), QUAD.setup_margin(40), QUAD.hold_margin) == (5, 10, 1)
    assert len(flash_pins(DUAL).create().io_o) == 2


@pytest.mark.parametrize(("values", "key", "rule"), [
    ({"lines": 1}, "lines", "must be 2 or 4, not 1"),
    ({"bytes": 1 << 25}, "bytes", "must be a power of two from 131072 to 16777216, not 33554432"),
    ({"offset": 0}, "offset", "must be a multiple of 65536 above 0 and below 262144, not 0"),
    ({"offset": 70_000}, "offset", "must be a multiple of 65536 above 0 and below 262144, not 70000"),
    ({"mode": 256}, "mode", "must be a byte, not 256"),
    ({"dummy_clocks": 17}, "dummy_clocks", "must be from 0 to 16, not 17"),
    ({"jedec_ids": ()}, "jedec_ids", "must be numbers of 24 bits that are neither all zeros nor all ones, at least "
                                     "one, not []"),
    ({"clock_mhz": 80}, "clock_mhz", "must be at most 66.6667, which t_clqv = 7 ns and 8 ns in the FPGA's pads allow, "
                                     "not 80"),
    ({"timing": replace(TIMING, t_chsh=12.5)}, "clock_mhz", "must be at most 40, which t_chsh = 12.5 ns allows, not "
                                                            "50")])
def test_parts_that_cannot_be(values: dict[str, object], key: str, rule: str) -> None:
    with pytest.raises(PartNumberError, match=f"^{re.escape(f'{key} {rule}')}$") as caught:
        replace(QUAD, **values)
    assert caught.value.key == key
