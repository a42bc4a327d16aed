"""External memories: random accesses and streams of weights through controller and simulated chip, for each board."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import signed
from hwflow_rtl.memory import SdramPart, WeightMemory, WeightStream
from hwflow_sim.memory_bench import Taken, TrafficResult, WeightTrafficResult, compile_traffic, compile_weight_traffic

from bench.sections import Bench, table
from hwflow.synth import load_board
from tests.memory.loads import random_load

BOARDS = ("ulx3s_85f", "colorlight_i5", "tangnano20k")
ACCESSES = 1_000_000
#: Of the images of weights together, and how often each is read.
IMAGE_BYTES, FRAMES = 1_000_000, 10
READERS = (1, 2, 5)


def sdram(bench: Bench) -> str:
    """SDRAM of the boards: random accesses, sequential reads, streams of weights, violations of the data sheet."""
    rows, shared = [], []
    for board in BOARDS:
        part = load_board(board).memories[0].part
        random, right = random_accesses(bench, part)
        if random.violations or not right:
            bench.failures.append(f"random accesses of {board}")
        rows.append([
            board, f"{part.width} bits, {part.clock_mhz:g} MHz", f"{ACCESSES:,}", f"{random.cycles:,}",
            "all" if right else "NOT ALL", sum(random.violations.values()),
            f"{random.latency}, {part.clocks.worst_latency}"])
        shared += [shared_row(bench, board, part, count) for count in READERS]
    return "\n".join([
        table(("board", "memory", "random accesses", "in cycles", "words right", "violations",
               "longest latency, bound"), rows), "",
        table(("board", "streams", "words a burst", "words right", "violations", "weights read", "of peak", "promised",
               "longest gap"), shared)])


def shared_row(bench: Bench, board: str, part: SdramPart, count: int) -> list:
    """Streams of a word a beat that are always read, each half as long as the one before, the last two equal."""
    weights = [1 << count - min(n + 1, count - 1) for n in range(count)]
    lanes = part.width // 8
    streams = [WeightStream(signed(8), lanes, IMAGE_BYTES // lanes * weight // sum(weights)) for weight in weights]
    memory = WeightMemory(part=part, streams=streams)
    result, equal = streamed(bench, memory)
    share = sum(1 / cycles for cycles in result.cycles_a_beat)
    promised = sum(1 / cycles for cycles in memory.guaranteed())
    if result.violations or not equal or share < promised or share < 0.9:
        bench.failures.append(f"{count} streams of {board}")
    peak = part.peak_bytes_per_second / 1e6
    return [board, count, ", ".join(map(str, memory.sharing.bursts)), "all" if equal else "NOT ALL",
            sum(result.violations.values()), f"{share * peak:.1f} of {peak:.1f} MB/s", f"{100 * share:.1f} %",
            f"{100 * float(promised):.1f} %", max(result.gap)]


def random_accesses(bench: Bench, part: SdramPart) -> tuple[TrafficResult, bool]:
    """Single words at random places, half of them written."""
    load = random_load(part, ACCESSES, seed=17, pool=50_000)
    traffic = compile_traffic(part, folder=bench.folder / "sdram", cache=bench.folder / "cache")
    result = traffic.run(load.requests, load.words)
    return result, np.array_equal(result.words, load.expected)


def streamed(bench: Bench, memory: WeightMemory) -> tuple[WeightTrafficResult, bool]:
    """All streams at once, frame after frame; whether every beat is right."""
    part, count = memory.part, len(memory.streams)
    words = np.random.default_rng(19).integers(0, 1 << part.width, memory.words)
    traffic = compile_weight_traffic(memory, part, streams=count, folder=bench.folder / "sdram",
                                     cache=bench.folder / "cache")
    result = traffic.run([words], [Taken(FRAMES * each.beats) for each in memory.streams])
    images = np.split(words, memory.sharing.firsts[1:])
    return result, all(np.array_equal(beats[0], np.resize(image, len(beats[0])))
                       for beats, image in zip(result.beats, images, strict=True))


MEMORY_SECTIONS = {"sdram": sdram}
