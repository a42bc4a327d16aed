"""Requests for a memory, and what must come of them, from an array in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hwflow_rtl.memory import SdramPart, WeightStream
from hwflow_sim.memory_bench import TrafficResult, WeightTrafficResult

Integers = npt.NDArray[np.int64]
#: Marks a word that was never written.
UNKNOWN = -1


@dataclass(frozen=True)
class Load:
    """`requests` are [count, 4]: first, last, write, wait; `words` are written, `expected` must be read where `known`.

    Words that were never written are random in the simulated chip.
    """

    requests: Integers
    words: Integers
    expected: Integers
    known: npt.NDArray[np.bool_]


def load(part: SdramPart, requests: Integers, seed: int) -> Load:
    """Random words for the writes among `requests`; a word that was never written may be anything."""
    source = np.random.default_rng(seed)
    lengths = (requests[:, 1] - requests[:, 0]) % part.words + 1
    writes = requests[:, 2] == 1
    words = source.integers(0, 1 << part.width, int(lengths[writes].sum()))
    memory, read, used = np.full(part.words, UNKNOWN, dtype=np.int64), [np.zeros(0, dtype=np.int64)], 0
    for (first, _, write, _), length in zip(requests.tolist(), lengths.tolist(), strict=True):
        places = slice(first, first + length) if first + length <= part.words else (
            first + np.arange(length)) % part.words
        if write:
            memory[places] = words[used:used + length]
            used += length
        else:
            read.append(memory[places].copy())
    expected = np.concatenate(read)
    return Load(requests, words, expected, expected != UNKNOWN)


def random_load(part: SdramPart, count: int, seed: int, *, longest: int = 1, wait: int = 0, pool: int = 4096) -> Load:
    """Half reads, half writes at `pool` places, so that what was written is read again and banks have many rows."""
    source = np.random.default_rng(seed)
    first = source.integers(0, part.words, pool)[source.integers(0, pool, count)]
    last = (first + source.integers(0, longest, count)) % part.words
    columns = [first, last, source.integers(0, 2, count), source.integers(0, wait + 1, count)]
    return load(part, np.stack(columns, axis=1), seed + 1)


def require_right(result: TrafficResult, wanted: Load) -> None:
    """Every word, and nothing that the chip counts."""
    assert result.violations == {}, result.first_violation
    assert len(result.words) == len(wanted.expected)
    assert np.array_equal(result.words[wanted.known], wanted.expected[wanted.known])


def require_beats(result: WeightTrafficResult, streams: Sequence[WeightStream], weights: Sequence[Sequence[Integers]]
                  ) -> None:
    """Every beat of every stream: frame after frame of one of `weights`, from a frame's first beat on."""
    assert result.violations == {}
    for n, (stream, stretches) in enumerate(zip(streams, result.beats, strict=True)):
        mask, places = (1 << stream.shape.width) - 1, np.arange(stream.lanes) * stream.shape.width
        frames = [((each[n] & mask) << places).sum(axis=1) for each in weights]
        for stretch, beats in stretches.items():
            assert any(np.array_equal(beats, np.resize(frame, len(beats))) for frame in frames), (n, stretch)
