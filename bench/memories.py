"""External memories: random accesses and sequential reads through controller and simulated chip, for each board."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import signed
from hwflow_rtl.memory import SdramPart, WeightReader
from hwflow_sim.sdram import Request, TrafficResult, compile_traffic

from bench.sections import Bench, table
from hwflow.synth import load_board
from tests.memory.loads import random_load

BOARDS = ("ulx3s_85f", "colorlight_i5", "tangnano20k")
ACCESSES = 1_000_000
#: Of an image of weights, and how often it is read.
IMAGE_BYTES, FRAMES = 1_000_000, 10


def sdram(bench: Bench) -> str:
    """SDRAM of the boards: random accesses, sequential reads, violations of the data sheet, latency."""
    rows = []
    for board in BOARDS:
        part = load_board(board).memories[0].part
        random, right = random_accesses(bench, part)
        weights, equal, rate = sequential(bench, part)
        violations = sum(random.violations.values()) + sum(weights.violations.values())
        if violations or not right or not equal or rate < part.sustained_bytes_per_second:
            bench.failures.append(f"sdram of {board}")
        clocks, peak = part.clocks, part.peak_bytes_per_second
        rows.append([
            board, f"{part.width} bits, {part.clock_mhz:g} MHz", f"{ACCESSES:,}", f"{random.cycles:,}",
            "all" if right and equal else "NOT ALL", violations, f"{random.latency}, {clocks.worst_latency}",
            f"{rate / 1e6:.1f} of {peak / 1e6:.1f} MB/s", f"{100 * rate / peak:.1f} %",
            f"{100 * part.sustained_bytes_per_second / peak:.1f} %", f"{weights.gap}, {clocks.worst_latency}"])
    header = ("board", "memory", "random accesses", "in cycles", "words right", "violations", "longest latency, bound",
              "weights read", "of peak", "promised", "longest gap, bound")
    return table(header, rows)


def random_accesses(bench: Bench, part: SdramPart) -> tuple[TrafficResult, bool]:
    """Single words at random places, half of them written."""
    load = random_load(part, ACCESSES, seed=17, pool=50_000)
    traffic = compile_traffic(part, folder=bench.folder / "sdram", cache=bench.folder / "cache")
    result = traffic.run(load.requests, load.words)
    return result, np.array_equal(result.words, load.expected)


def sequential(bench: Bench, part: SdramPart) -> tuple[TrafficResult, bool, float]:
    """An image through the reader of weights, frame after frame; the rate is in bytes a second."""
    lanes = part.width // 8
    reader = WeightReader(part=part, shape=signed(8), lanes=lanes, beats=IMAGE_BYTES // lanes)
    image = np.random.default_rng(19).integers(0, 1 << part.width, reader.words)
    traffic = compile_traffic(part, folder=bench.folder / "sdram", cache=bench.folder / "cache", reader=reader)
    result = traffic.run([Request(0, reader.words - 1, write=True)], image, beats=FRAMES * reader.beats)
    rate = (len(result.beats) - 1) * lanes / (result.beat_cycles / part.clock_mhz / 1e6)
    return result, np.array_equal(result.beats, np.tile(image, FRAMES)), rate


MEMORY_SECTIONS = {"sdram": sdram}
