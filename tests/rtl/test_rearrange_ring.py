"""The memories of the ring of a `RearrangeStage`: which they are, and that they are one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwflow_rtl.rearrange.rearrange import Ring, RingShape, counters_of, ring_parts
from hwflow_rtl.vendor import ECP5, Generic, Timing

from tests.rtl.harness import run
from tests.rtl.test_rearrange import random_shape


@pytest.mark.parametrize(("words", "width", "parts", "blocks"), [
    (5000, 1, (8192,), 1), (8192, 36, (8192,), 16), (5000, 36, (4096, 904), 10), (6272, 64, (6144, 128), 26),
    (12544, 64, (12288, 256), 50), (4200, 64, (4096, 104), 18), (94088, 8, (94088,), 48), (3136, 64, (3072, 64), 14)])
def test_a_ring_is_no_power_of_two_where_that_saves_blocks(words: int, width: int, parts: tuple[int, ...],
                                                           blocks: int) -> None:
    """Of an ECP5: 2048 x 9, 1024 x 18 or 512 x 36 bits, and up to four of them one after the other."""
    assert ring_parts(words, width, ECP5()) == parts
    assert sum(ECP5().ram_cost(width=width, depth=depth).ram for depth in parts) == blocks


@pytest.mark.quick(6)
@pytest.mark.parametrize("latency", [1, 2, 3])
@pytest.mark.parametrize("parts", [(8,), (7,), (6, 1), (6, 2), (4, 3), (2, 1)])
def test_two_memories_are_one(parts: tuple[int, ...], latency: int) -> None:
    """What is read is what was written last, whatever is written elsewhere."""
    ring = Ring(shape=RingShape(width=8, parts=parts), technology=Generic(timing=Timing(multiply=1, ram=latency)),
                name="ring")
    rng, depth = np.random.default_rng(latency), sum(parts)
    words, asked = [0] * depth, []

    async def drive(ctx):
        for _ in range(300):
            write, read, data, enable = (int(n) for n in rng.integers(0, (depth, depth, 256, 2)))
            enable &= write != read
            for port, value in ((ring.write_addr, write), (ring.read_addr, read), (ring.write_data, data),
                                (ring.write_en, enable)):
                ctx.set(port, value)
            asked.append(words[read])
            if enable:
                words[write] = data
            given = (await ctx.tick().sample(ring.read_data))[-1]
            if len(asked) > latency:
                assert given == asked[-1 - latency]

    run(ring, drive)


def test_rows_that_come_often_need_no_larger_ring() -> None:
    """Of rows that follow each other three times or more, two say how large ring and counters are."""
    found = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        shape = random_shape(rng)
        if any((table < 0).all() for table in (shape.rows, shape.columns, shape.groups)):
            continue
        shape = replace(shape, rows=np.repeat(shape.rows, rng.integers(1, 6, len(shape.rows))))
        whole = replace(shape)
        whole.__dict__["essential"] = whole
        found += len(shape.essential.rows) < len(shape.rows)
        assert shape.ring_words >= whole.ring_words
        depth = shape.ring_words
        for counter, needed in zip(counters_of(shape, depth), counters_of(whole, depth), strict=True):
            assert counter.width >= needed.width
    assert found > 200
