"""How many bytes a cycle pass a host link and its crossing, in both directions."""

from __future__ import annotations

import random

import pytest
from hwflow_rtl.io.link.shape import LinkShape

from .link_bench import Bench
from .link_host import DATA, RESET, RESULT, packet, packets_in

PACKETS = 3


def data_in(shape: LinkShape) -> float:
    """Bytes of payload a cycle that a core which takes all gets from packets without gaps."""
    data = random.Random(1).randbytes(shape.payload * PACKETS)
    bench, took = Bench(frame=shape.payload, out=10, shape=shape), []

    async def host(ctx) -> None:
        await bench.ask(ctx, packet(RESET, 1))
        begun = bench.cycles
        for k in range(PACKETS):
            await bench.send(ctx, packet(DATA, k, 0, data[shape.payload * k:shape.payload * (k + 1)]))
        took.append(bench.cycles - begun)
        await bench.quiet(ctx)

    bench.run(host)
    assert bench.seen == data
    assert packets_in(bench.came)[1] == 0
    return len(data) / took[0]


def results_out(shape: LinkShape) -> float:
    """Bytes of payload a cycle of results that are there, up to the window."""
    bench, took = Bench(frame=1, out=6 * shape.payload, shape=shape), []

    async def host(ctx) -> None:
        await bench.ask(ctx, packet(RESET, 1))
        bench.came.clear()
        await bench.send(ctx, packet(DATA, 0, 0, b"a"))
        ends = []
        while len(ends) < PACKETS:
            await ctx.tick()
            seen = sum(found.kind == RESULT for found in packets_in(bench.came)[0]) if bench.came[-1:] == b"\x7e" else 0
            ends += [bench.cycles] * (seen - len(ends))
        took.append(ends[-1] - ends[0])

    bench.run(host)
    return (PACKETS - 1) * shape.payload / took[0]


@pytest.mark.parametrize("shape, least", [
    (LinkShape(payload=256, room=1024, fast=True), 0.9),
    pytest.param(LinkShape(payload=1463, room=8192, fast=True), 0.98, marks=pytest.mark.slow)])
def test_a_byte_in_every_cycle(shape: LinkShape, least: float) -> None:
    """But for the headers, checksums, flags and what is decided between two packets."""
    rates = data_in(shape), results_out(shape)
    print(f"{shape.payload} bytes of payload: {rates[0]:.4f} bytes a cycle in, {rates[1]:.4f} out")
    assert min(rates) > least
