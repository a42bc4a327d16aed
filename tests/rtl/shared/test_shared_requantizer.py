"""The requantizer whose constants come with each value, against exact fractions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from amaranth.hdl import Cat, signed
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.ranges import RequantizerRoom, RequantizerRounding, shape_range
from hwflow_rtl.shared.results import SharedRequantizer, SharedRequantizerShape
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Technology

from tests.rtl.harness import run
from tests.rtl.oracles import rescaled

DSP, FABRIC = RequantizerStyle.DSP, RequantizerStyle.FABRIC


@dataclass(frozen=True)
class Burst:
    """Values (value, bias, factor, extra, moves) that have zero point and clamp in common."""

    zero_point: int
    low: int
    high: int
    values: Sequence[tuple[int, int, int, int, int]]


#: Of a step: all of an element, an empty range, and each kind of end and sign.
STEPS = ((0, -128, 127), (-256, -128, 127), (255, -128, 127), (3, 0, 0), (-128, -128, 127), (-7, -100, -99),
         (100, 17, 127), (1, -128, -128), (-1, 127, 127))


ROOM, GENERIC = RequantizerRoom(bias_bits=18, factor_bits=18, base=17, extra=9), Generic()


def made(technology: Technology = GENERIC, *, style: RequantizerStyle = FABRIC, interval: int = 1, bits: int = 20,
         room: RequantizerRoom = ROOM, fraction: int = 0,
         rounding: RequantizerRounding = RequantizerRounding.HALF_EVEN) -> SharedRequantizer:
    shape = SharedRequantizerShape(accumulator=signed(bits), room=room, fraction=fraction, rounding=rounding,
                                   interval=interval, style=style)
    return shape.build(technology)


def exact(unit: SharedRequantizer, burst: Burst, value: int, bias: int, factor: int, extra: int, moves: int) -> int:
    ranges, room = unit.plan.ranges, unit.room
    return rescaled(value * 2**ranges.fraction + bias, factor if room.factor_bits else 1, room.base + extra,
                    zero_point=burst.zero_point, low=burst.low, high=burst.high, rounding=ranges.rounding,
                    outward=room.outward * moves)


def near_rounding(source: random.Random, unit: SharedRequantizer, burst: Burst, bias: int, factor: int, extra: int
                  ) -> int:
    """A value whose result is near the middle of two results, or near an end of the clamp."""
    centre = source.choice([burst.low, burst.high, source.randint(burst.low, burst.high)]) - burst.zero_point
    ratio = Fraction(2 * centre + source.choice([-1, 0, 1]), 2) * 2**(unit.room.base + extra) / max(1, factor)
    return math.floor((ratio - bias) / 2**unit.plan.ranges.fraction) + source.choice([0, 0, 0, 1])


def bursts_of(source: random.Random, unit: SharedRequantizer, count: int) -> list[Burst]:
    """Of each step `count` values: the ends of all ranges, values near the points of rounding, and any."""
    room, (least, most) = unit.room, shape_range(unit.plan.ranges.accumulator)
    reach, factors = 1 << (room.bias_bits - 1), 1 << room.factor_bits
    bursts = []
    for step in STEPS:
        burst, values = Burst(*step, []), []
        for _ in range(count):
            bias = source.choice([-reach, reach - 1, 0, source.randint(-reach, reach - 1)])
            factor = min(source.choice([0, 1, 1, 2, factors - 1, source.randrange(factors)]), factors - 1)
            extra = source.choice([0, room.extra, source.randint(0, room.extra)])
            value = source.choice([least, most, source.randint(least, most),
                                   *[near_rounding(source, unit, burst, bias, factor, extra)] * 3])
            moves = int(2 * room.outward < 1 << (room.base + extra) and room.outward and source.random() < 0.7)
            values.append((min(max(value, least), most), bias, factor, extra, moves))
        bursts.append(Burst(*step, values))
    return bursts


def play(unit: SharedRequantizer, bursts: Sequence[Burst], interval: int, source: random.Random | None
         ) -> tuple[list[int], list[int]]:
    """Results and latencies.  Values come every `interval` cycles, or with a `source` at random, no faster.

    In all other cycles there is noise on value and constants; between two bursts the unit gets empty.
    """
    noise, ports = random.Random(1), Cat(unit.i_value, unit.bias, unit.factor, unit.extra, unit.moves)
    count, starts, ends, results = sum(len(burst.values) for burst in bursts), [], [], []

    async def feed(ctx):
        cycle, ticks = 0, aiter(ctx.tick())

        async def idle(cycles: int) -> None:
            for _ in range(cycles):
                ctx.set(Cat(ports, unit.i_valid), noise.getrandbits(len(ports)))
                await anext(ticks)

        for burst in bursts:
            for port, value in ((unit.zero_point, burst.zero_point), (unit.low, burst.low), (unit.high, burst.high)):
                ctx.set(port, value)
            for values in burst.values:
                ctx.set(unit.i_valid, 1)
                given = zip((unit.i_value, unit.bias, unit.factor, unit.extra, unit.moves), values, strict=True)
                for port, value in given:
                    ctx.set(port, value)
                starts.append(cycle)
                await anext(ticks)
                wait = interval - 1 + (source.choice([0, 0, 1, 2, 5]) if source else 0)
                await idle(wait)
                cycle += wait + 1
            await idle(unit.latency)
            cycle += unit.latency

    async def watch(ctx):
        ticks = aiter(ctx.tick().sample(unit.o_valid, unit.o_value))
        for cycle in range((interval + 6) * count + (len(bursts) + 1) * unit.latency + 10):
            _, _, valid, value = await anext(ticks)
            if valid:
                results.append(value)
                ends.append(cycle)
            if len(starts) == count and cycle > starts[-1] + unit.latency + 10:
                return

    run(unit, feed, watch)
    return results, [end - begin for begin, end in zip(starts, ends, strict=True)]


def check(unit: SharedRequantizer, bursts: Sequence[Burst], interval: int, source: random.Random | None = None) -> None:
    expected = [exact(unit, burst, *values) for burst in bursts for values in burst.values]
    by_model = [unit.model(*np.array(burst.values).T[:4], burst.zero_point, burst.low, burst.high,
                           np.array(burst.values).T[4]) for burst in bursts]
    assert np.concatenate(by_model).tolist() == expected
    results, latencies = play(unit, bursts, interval, source)
    assert results == expected
    assert set(latencies) == {unit.latency}


#: The timing of both families' multipliers and ROMs, and what they multiply with in logic, in portable units.
TECHNOLOGIES = {family.__name__: Generic(timing=family().timing, like=family()) for family in (ECP5, ICE40)}


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", TECHNOLOGIES)
@pytest.mark.parametrize("style", RequantizerStyle)
@pytest.mark.parametrize("interval", [1, 2, 4])
def test_any_constants_of_a_room(interval, style, name) -> None:
    source = random.Random(f"{interval}{style}{name}")
    unit = made(TECHNOLOGIES[name], style=style, interval=interval)
    check(unit, bursts_of(source, unit, 24), interval, source if interval == 4 else None)


@pytest.mark.parametrize("style", RequantizerStyle)
@pytest.mark.parametrize("interval", [1, 4])
def test_products_that_move_outward_among_others_that_do_not(interval, style) -> None:
    source = random.Random(f"{interval}{style}")
    unit = made(style=style, interval=interval, room=RequantizerRoom(18, 18, base=15, extra=12, outward=1 << 17))
    check(unit, bursts_of(source, unit, 30), interval, source)


@pytest.mark.parametrize(("style", "interval", "bits", "factor_bits"), [
    (DSP, 1, 14, 22), (DSP, 1, 20, 26), (DSP, 2, 20, 32), (DSP, 3, 14, 26), (DSP, 4, 20, 26), (FABRIC, 4, 20, 26)])
def test_wide_factors(interval, style, bits, factor_bits) -> None:
    """Of more bits than an operand of a block has, in as many passes as there is time for."""
    source = random.Random(f"{interval}{style}{bits}{factor_bits}")
    room = RequantizerRoom(bias_bits=bits - 2, factor_bits=factor_bits, base=factor_bits - 1, extra=9)
    unit = made(TECHNOLOGIES["ECP5"], style=style, interval=interval, bits=bits, room=room)
    check(unit, bursts_of(source, unit, 16), interval, source)


@pytest.mark.quick(3)
@pytest.mark.parametrize("style", RequantizerStyle)
@pytest.mark.parametrize("rounding", RequantizerRounding)
def test_every_rounding_of_wide_sums_with_a_fraction(rounding, style) -> None:
    source = random.Random(f"{rounding}{style}")
    unit = made(style=style, interval=2, bits=24, rounding=rounding, fraction=3,
                room=RequantizerRoom(bias_bits=29, factor_bits=17, base=20, extra=6))
    check(unit, bursts_of(source, unit, 30), 2, source)


ROOMS = {
    "no shift": RequantizerRoom(1, 2, 0, 0), "halves": RequantizerRoom(3, 3, 1, 1),
    "wide": RequantizerRoom(9, 6, 2, 20), "no factor": RequantizerRoom(4, 0, 0, 5),
    "far": RequantizerRoom(4, 4, 55, 7)}


@pytest.mark.quick(16)
@pytest.mark.parametrize("name", ROOMS)
@pytest.mark.parametrize("style", RequantizerStyle)
@pytest.mark.parametrize("rounding", RequantizerRounding)
def test_ties_of_every_small_sum(rounding, style, name) -> None:
    """All sums of 6 bits with the same constants: with few bits dropped most of them are ties."""
    room = ROOMS[name]
    unit = made(style=style, bits=6, room=room, rounding=rounding)
    reach, factors = 1 << (room.bias_bits - 1), 1 << room.factor_bits
    bursts = [Burst(*step, [(value, bias, factor, extra, 0) for value in range(-32, 32)])
              for step, bias, factor, extra in zip(
                  STEPS, itertools.cycle((0, reach - 1, -reach)), itertools.cycle((factors - 1, 1 % factors, 0)),
                  itertools.cycle((0, room.extra, room.extra // 2, min(1, room.extra))))]
    check(unit, bursts, 1)


def test_the_latency_is_known_without_a_unit() -> None:
    latencies = set()
    for style, interval, bits in itertools.product(RequantizerStyle, (1, 2, 4, 8), (12, 24)):
        technology, shape = ECP5(), SharedRequantizerShape(
            accumulator=signed(bits), room=ROOM, fraction=0, rounding=RequantizerRounding.HALF_EVEN, interval=interval,
            style=style)
        latencies.add(shape.latency(technology))
        assert shape.build(technology).latency == shape.latency(technology)
        blocks = 0 if style is FABRIC else 2 if interval == 1 else 1  # a sum of 12 bits has 19 with its bias
        assert shape.cost(technology).dsp == blocks
        assert shape.cost(technology).ram == 0
    assert len(latencies) > 3


@pytest.mark.parametrize(("arguments", "message"), [
    ({"interval": 0}, "interval of a SharedRequantizer must be at least 1 cycle, not 0"),
    ({"fraction": -1}, "fraction of a Requantizer must be at least 0 bits, not -1"),
    ({"style": DSP, "bits": 35}, "must be at most 35 bits for two multiplier operands, not 36"),
    ({"room": RequantizerRoom(0, 1, 0, 0)}, "bias_bits of a room must be at least 1, not 0"),
    ({"room": RequantizerRoom(1, 33, 0, 0)}, "factor_bits of a room must be from 0 to 32, not 33"),
    ({"room": RequantizerRoom(1, 1, 60, 3)}, "shifts of a room must be in order and from 0 to 62, not from 60 to 63"),
])
def test_refused(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        made(**arguments)
