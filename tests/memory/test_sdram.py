"""The SDRAM controller with the simulated chip: every word, every rule of the data sheet, latency and bandwidth."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hwflow_rtl.memory import SdramController, SdramPart, sdram_pins
from hwflow_sim.memory_bench import Request, Traffic
from hwflow_sim.sdram import SdramLimits

from hwflow.synth import load_board
from tests.memory.loads import load, random_load, require_right
from tests.memory.parts import BYTES, SMALL, TIMING

Programs = Callable[..., Traffic]
ULX3S = load_board("ulx3s_85f").memories[0].part
BOARDS = ["ulx3s_85f", *(pytest.param(name, marks=pytest.mark.slow) for name in ("colorlight_i5", "tangnano20k"))]
PARTS = [SMALL, pytest.param(BYTES, marks=pytest.mark.slow)]


def part_of(board: str) -> SdramPart:
    return load_board(board).memories[0].part


def sequential(part: SdramPart, words: int) -> np.ndarray:
    """One read of so many words after they were written, at a place where it goes round the end of the memory."""
    first = part.words - words // 2 // part.columns * part.columns
    return np.array([[first, (first + words - 1) % part.words, write, 0] for write in (1, 0)])


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
def test_random_accesses(traffic: Programs, board: str) -> None:
    part = part_of(board)
    wanted = random_load(part, 20_000, seed=1)
    result = traffic(part).run(wanted.requests, wanted.words)
    require_right(result, wanted)
    assert result.latency <= part.clocks.worst_latency


@pytest.mark.quick(3)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
@pytest.mark.parametrize(("longest", "wait", "write_stall", "read_stall"), [
    (1, 0, 0, 0), (1, 30, 0, 0), (3, 0, 0.5, 0.5), (300, 0, 0, 0), (300, 9, 0.2, 0.2), (300, 0, 0.9, 0.02),
    (40, 3, 0.02, 0.9)])
def test_requests_of_any_length_with_stalls(traffic: Programs, part: SdramPart, longest: int, wait: int,
                                            write_stall: float, read_stall: float) -> None:
    """On a small memory requests meet each other in rows and banks, and go round its end."""
    count = 2000 if longest < 300 else 300
    wanted = random_load(part, count, seed=longest + wait, longest=longest, wait=wait, pool=500)
    result = traffic(part).run(wanted.requests, wanted.words, seed=7, write_stall=write_stall, read_stall=read_stall)
    require_right(result, wanted)
    if not read_stall:
        assert result.latency <= part.clocks.worst_latency


def test_requests_at_the_edges_of_rows(traffic: Programs) -> None:
    """Beginning with the last column, ending with the first, exactly a row, the whole memory."""
    columns, words = SMALL.columns, SMALL.words
    spans = [(columns - 1, columns), (columns - 1, columns - 1), (0, columns - 1), (0, words - 1), (words - 1, 0),
             (columns, 3 * columns), (5, 4), (words - columns, 0), (7 * columns - 1, 9 * columns)]
    wanted = load(SMALL, np.array([[a, b, write, 0] for a, b in spans for write in (1, 0)]), seed=3)
    require_right(traffic(SMALL).run(wanted.requests, wanted.words), wanted)


@pytest.mark.parametrize("board", BOARDS)
def test_a_sequential_read_keeps_nine_tenths_of_the_bandwidth(traffic: Programs, board: str) -> None:
    part = part_of(board)
    wanted = load(part, sequential(part, 200_000), seed=5)
    result = traffic(part).run(wanted.requests, wanted.words)
    require_right(result, wanted)
    share = 1 / result.cycles_a_word
    assert share >= part.clocks.sustained_share > 0.9
    assert share < 1
    assert result.gap <= part.clocks.worst_gap


#: Numbers of the timing, a worse value of each, and what the part then says; most of them are slow tests.
TIMINGS = (
    ("t_rc", 110_000, "t_rc"), ("t_ras", 60_001, "t_ras"), ("t_rp", 40_001, "t_rp"), ("t_rcd", 40_001, "t_rcd"),
    ("t_rrd", 40_001, "t_rrd"), ("c_rrd", 3, "t_rrd"), ("t_rfc", 80_001, "t_rfc"), ("t_wr", 40_001, "t_wr"),
    ("c_wr", 3, "t_wr"), ("c_mrd", 8, "t_mrd"), ("t_refi", 7_500_000, "more than 8 refreshes owed"),
    ("t_ras_max", 5_000_000, "t_ras_max"), ("t_power_up", 201_000_000, "command before the end of power-up"),
    ("power_up_refreshes", 9, "access before the end of the power-up sequence"), ("t_ck2", 20_001, "clock period"))
OFTEN = ("t_rcd", "t_refi", "t_power_up", "t_ck2")


@pytest.mark.quick(1)
@pytest.mark.parametrize(("limit", "value", "violation"), [
    pytest.param(*each, marks=[] if each[0] in OFTEN else [pytest.mark.slow]) for each in TIMINGS])
def test_each_number_of_the_timing_matters(traffic: Programs, limit: str, value: int, violation: str) -> None:
    """A chip that wants one number longer than the controller was told reports that number, and no other."""
    wanted = random_load(ULX3S, 20_000, seed=2, longest=20)
    told = SdramLimits.of(ULX3S).values[limit.upper()]
    assert value > told or limit == "t_refi" or limit == "t_ras_max"
    result = traffic(ULX3S).run(wanted.requests, wanted.words, numbers={limit: value})
    assert list(result.violations) == [violation]


def test_the_latency_is_reached_within_a_few_clocks(traffic: Programs) -> None:
    """The bound is no guess far away: refreshes come at all moments of requests that cross ends of rows."""
    wanted = random_load(SMALL, 20_000, seed=9, longest=70, wait=5)
    result = traffic(SMALL).run(wanted.requests, wanted.words)
    assert SMALL.clocks.worst_latency - 5 <= result.latency <= SMALL.clocks.worst_latency


@pytest.mark.parametrize("words", [1, 8, 33, 300])
def test_reads_that_wait_for_each_other(traffic: Programs, words: int) -> None:
    """In two rows of one bank in turn: no read takes more clocks than the part says, refreshes included."""
    clocks, count = SMALL.clocks, 400
    turn = SMALL.columns * SMALL.banks * (1 + -(-words // SMALL.columns // SMALL.banks))
    first = SMALL.columns // 2 + turn * (np.arange(count) % 2)
    zero = np.zeros(count, dtype=np.int64)
    wanted = load(SMALL, np.stack([first, first + words - 1, zero, zero], axis=1), seed=13)
    result = traffic(SMALL).run(wanted.requests, wanted.words)
    require_right(result, wanted)
    most = clocks.with_pauses(count * clocks.read_clocks(words)) + clocks.worst_latency
    assert 0.65 * most <= result.busy <= most


def test_nothing_is_asked_before_the_power_up_sequence(traffic: Programs) -> None:
    result = traffic(ULX3S).run([Request(0, 9, True), Request(0, 9)], range(10))
    assert result.words.tolist() == list(range(10))
    assert 10_000 <= result.initialized <= 10_000 + 8 * 5 + 10  # 200 us at 50 MHz, eight refreshes


@pytest.mark.slow
@pytest.mark.parametrize("board", ["ulx3s_85f", "colorlight_i5", "tangnano20k"])
def test_a_million_random_accesses(traffic: Programs, board: str) -> None:
    """A hundred ms and more of the chip's time: every row's retention time passes twice."""
    part = part_of(board)
    wanted = random_load(part, 1_000_000, seed=11, pool=50_000)
    result = traffic(part).run(wanted.requests, wanted.words)
    require_right(result, wanted)
    assert result.cycles > 2 * part.rows * part.clocks.refi


# Numbers


def test_clocks_of_a_part() -> None:
    clocks = SMALL.clocks
    assert (clocks.rc, clocks.ras, clocks.rp, clocks.rcd, clocks.rrd, clocks.rfc, clocks.wr) == (8, 5, 2, 3, 2, 9, 2)
    assert (clocks.mrd, clocks.refi, clocks.power_up, clocks.cas) == (4, 300, 100, 2)
    assert replace(SMALL, timing=replace(TIMING, t_wr_clocks=4, t_rrd_clocks=3)).clocks.wr == 4
    assert replace(SMALL, clock_mhz=33.3).clocks.rcd == 1
    assert replace(SMALL, clock_mhz=33.4).clocks.rcd == 2  # 30 ns are more than a period of 29.94
    assert clocks.refresh_interval + clocks.refresh_lateness == 300


def test_what_a_part_holds() -> None:
    assert (ULX3S.words, ULX3S.bytes, ULX3S.peak_bytes_per_second) == (2**24, 2**25, 100e6)
    assert len(sdram_pins(ULX3S).create().a) == 13
    assert len(sdram_pins(SMALL).create().a) == 11  # A10 is a part of commands


@pytest.mark.parametrize(("values", "message"), [
    ({"t_rc": 60}, "t_rc must be at least t_ras + t_rp = 65 ns, not 60: a row is open for t_ras and closes in t_rp"),
    ({"t_rp": -1}, "t_rp must be a number of ns above 0, not -1"),
    ({"cas_latency": 1}, "cas_latency must be 2 or 3, not 1"),
    ({"t_wr_clocks": 0}, "t_wr_clocks must be a whole number of at least 1, not 0")])
def test_timing_that_cannot_be(values: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(TIMING, **values)


def test_a_queue_that_is_too_short() -> None:
    message = "queue_depth must be at least 6, the cycles from a read to its place in the queue, not 5"
    with pytest.raises(ValueError, match=f"^{message}$"):
        SdramController(part=SMALL, queue_depth=5)
