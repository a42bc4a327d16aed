"""Configuration flash: sequential reads through controller and simulated chip, by board."""

from __future__ import annotations

import numpy as np
from hwflow_rtl.memory import FlashPart
from hwflow_sim.memory_bench import compile_reads

from bench.sections import Bench, table
from hwflow.synth import load_board

BOARDS = ("icebreaker", "icesugar", "upduino3")
#: Of the weights, how often they are read, and words of a read where several streams share the flash.
IMAGE_BYTES, FRAMES, BURST = 200_000, 10, 200


def flash(bench: Bench) -> str:
    """Configuration flash of the boards: share of the bus that sequential reads get, violations, latency."""
    rows = []
    for board in BOARDS:
        part = load_board(board).memories[0].part
        frame, burst = ([[at, at + words - 1, 0, 0] for at in range(0, IMAGE_BYTES // 4, words)]
                        for words in (IMAGE_BYTES // 4, BURST))
        runs = [flash_reads(bench, part, requests) for requests in (frame * FRAMES, burst)]
        clocks, peak = part.clocks, part.peak_bytes_per_second
        bounds = [words * clocks.word / clocks.read_clocks(words) for words in (IMAGE_BYTES // 4, BURST)]
        if any(share < bound for (share, _), bound in zip(runs, bounds, strict=True)) or not all(r for _, r in runs):
            bench.failures.append(f"flash of {board}")
        rows.append([
            board, f"{part.lines} lines, {part.clock_mhz:g} MHz", "all, none" if all(r for _, r in runs) else "NOT ALL",
            *(f"{share * peak / 1e6:.2f} of {peak / 1e6:.1f} MB/s, {100 * share:.2f} %" for share, _ in runs),
            ", ".join(f"{100 * bound:.2f} %" for bound in bounds)])
    header = ("board", "flash", "words right, violations", f"{IMAGE_BYTES // 1000} kB as one read, {FRAMES} frames",
              f"in reads of {4 * BURST} bytes", "promised for both")
    return table(header, rows)


def flash_reads(bench: Bench, part: FlashPart, requests: list[list[int]]) -> tuple[float, bool]:
    """The share of the clocks that bring data, and whether every word was right without a violation."""
    reads = compile_reads(part, folder=bench.folder / "flash", cache=bench.folder / "cache")
    octets = np.random.default_rng(23).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    result = reads.run(requests, octets)
    words = octets.view("<u4").astype(np.int64)
    expected = np.concatenate([words[first:last + 1] for first, last, _, _ in requests])
    right = not result.violations and np.array_equal(result.words, expected)
    return (len(expected) * part.clocks.word - part.clocks.octet) / result.reading, right


FLASH_SECTIONS = {"flash": flash}
