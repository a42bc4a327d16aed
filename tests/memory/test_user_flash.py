"""The flash inside of a Gowin FPGA: its controller with the simulated cell, at every distance of requests, and what the
cell counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_rtl.memory import FlashError, PartNumberError, UserFlashPart, UserFlashTiming
from hwflow_sim.memory_bench import compile_reads

from hwflow.synth import load_board

#: 25 ns and 10 ns for wires are 4 clocks of 8.8 ns, with one for the pause 5 for a word.
PART = UserFlashPart(name="FLASH608K", bytes=77824, clock_mhz=114, timing=UserFlashTiming(t_acc=25, t_pws=5))
MARK = b"designed"


def requests_of(source: np.random.Generator, words: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Random reads, some of them dropped halfway, and which words come."""
    first, length = source.integers(0, words - 1, count), source.integers(0, 90, count)
    last = np.minimum(first + length, words - 1)
    drop = np.where(source.integers(0, 4, count) == 0, (last - first) // 2 + 1, 0)
    requests = np.stack([first, last, source.integers(0, 9, count), drop], axis=1)
    places = [np.arange(a, b + 1)[:d or None] for a, b, _, d in requests.tolist()]
    return requests, np.concatenate(places)


@pytest.mark.parametrize("part", [
    pytest.param(PART, id="114 MHz"), pytest.param(replace(PART, clock_mhz=27), marks=pytest.mark.slow, id="27 MHz"),
    pytest.param(replace(PART, clock_mhz=200, timing=UserFlashTiming(t_acc=21.5, t_pws=5)), marks=pytest.mark.slow,
                 id="200 MHz")])
def test_every_word_comes_as_fast_as_the_cell_gives_it(part: UserFlashPart, tmp_path: Path, cache: Path) -> None:
    source = np.random.default_rng(3)
    octets = source.integers(0, 256, part.bytes, dtype=np.uint8)
    words = octets.view("<u4").astype(np.int64)
    reads = compile_reads(part, folder=tmp_path, cache=cache)
    whole = reads.run([[0, part.words - 1, 0, 0]], octets)
    assert (whole.violations, whole.error) == ({}, FlashError.NONE)
    assert np.array_equal(whole.words, words)
    assert whole.reading == (part.words - 1) * part.clocks.word
    assert (whole.latency, whole.gap) == (part.clocks.worst_latency, part.clocks.worst_gap)
    requests, expected = requests_of(source, part.words, 300)
    for stall in (0.0, 0.5):
        result = reads.run(requests, octets, seed=7, stall=stall)
        assert result.violations == {}
        assert np.array_equal(result.words, words[expected])


@pytest.mark.parametrize(("number", "value", "violation"), [
    ("t_pws", 8_773, "sense enable low too short"), ("t_acc", 25_089, None)])
def test_a_slower_cell_is_noticed(number: str, value: int, violation: str | None, tmp_path: Path, cache: Path) -> None:
    """The slowest times that the clocks bear, and a picosecond more: a violation, or other words."""
    octets = np.random.default_rng(5).integers(0, 256, 400, dtype=np.uint8)
    words = octets.view("<u4").astype(np.int64)
    reads = compile_reads(PART, folder=tmp_path, cache=cache)
    fits = reads.run([[0, 99, 0, 0]], octets, numbers={number: value - 1})
    assert fits.violations == {}
    assert np.array_equal(fits.words, words)
    fails = reads.run([[0, 99, 0, 0]], octets, numbers={number: value})
    assert fails.first_violation == violation
    assert np.array_equal(fails.words, words) is (violation is not None)


def test_the_board_has_the_flash_of_its_chip() -> None:
    memory = load_board("tangnano9k").memories[0]
    assert memory.part == PART
    assert (str(memory), memory.pins) == ("76 KiB of user flash", {})
    assert memory.facts()["peak_bytes_per_second"] == pytest.approx(91.2e6)


@pytest.mark.parametrize(("changes", "message"), [
    ({"bytes": 1000}, "bytes must be a multiple of 256"), ({"clock_mhz": 0}, "clock_mhz must be a number above 0"),
    ({"clock_mhz": 201}, "clock_mhz must be at most 200, which t_pws = 5 ns allows, not 201")])
def test_numbers_that_cannot_be(changes: dict, message: str) -> None:
    with pytest.raises(PartNumberError, match=message):
        replace(PART, **changes)
