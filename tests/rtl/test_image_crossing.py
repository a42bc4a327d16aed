"""Bytes of an image to words of memory between two clocks, and the order to forget, at any moment."""

from __future__ import annotations

import random

import pytest
from hwflow_rtl.io.crossings import ImageCrossing

from tests.rtl.harness import run


@pytest.mark.quick(3)
@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("sync_us", [0.13, 1.0, 7.3])
def test_words_of_what_came_since_the_last_clear(width: int, sync_us: float) -> None:
    """Each round sends some bytes, the last ones unread, and clears; the memory stops in between."""
    unit, noise = ImageCrossing(width=width), random.Random(width)
    seen: list[list[int]] = [[]]
    sent = [noise.randbytes(noise.randrange(1, 7) * width // 8 + noise.choice((0, 1))) for _ in range(8)]

    async def line(ctx):
        for octets in sent:
            for octet in octets:
                ctx.set(unit.data.payload[0], octet)
                ctx.set(unit.data.valid, 1)
                for _ in range(60):
                    _, _, taken = await ctx.tick("line").sample(unit.data.ready)
                    if taken:
                        break
                ctx.set(unit.data.valid, 0)
                await ctx.tick("line").repeat(noise.randrange(1, 4))
                if not taken:
                    break  # the memory takes no more
            ctx.set(unit.clear, 1)
            await ctx.tick("line").until(unit.cleared)
            ctx.set(unit.clear, 0)
            await ctx.tick("line").until(~unit.cleared)

    async def memory(ctx):
        for limit in (3, 100, 0, 100, 2, 100, 100, 100):
            while not ctx.get(unit.forget):
                ctx.set(unit.words.ready, len(seen[-1]) < limit and noise.random() < 0.6)
                ctx.set(unit.filled, len(seen[-1]) == 2)
                _, _, valid, ready, word, forget = await ctx.tick("sync").sample(
                    unit.words.valid, unit.words.ready, unit.words.payload, unit.forget)
                if valid and ready and not forget:
                    seen[-1].append(word)
            seen.append([])
            ctx.set(unit.words.ready, 1)  # nothing comes while it forgets
            while ctx.get(unit.forget):
                _, _, valid = await ctx.tick("sync").sample(unit.words.valid)
                assert not valid

    run(unit, line, memory, clocks={"line": 1000, "sync": 1000 * sync_us})
    size = width // 8
    for octets, words in zip(sent, seen, strict=False):
        whole = [int.from_bytes(octets[k:k + size], "little") for k in range(0, len(octets) - size + 1, size)]
        assert words == whole[:len(words)]
    assert max(map(len, seen)) > 2


def test_words_are_whole_bytes() -> None:
    with pytest.raises(ValueError, match="width must be whole bytes, not 12 bits"):
        ImageCrossing(width=12)
