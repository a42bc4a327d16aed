"""Ranges: what the constants of a requantizer mean for its hardware: exact ranges, widths, and which constants vary."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Const, Shape, Value, signed, unsigned

#: Bits of a multiplier.
MULTIPLIER_BITS = 32
LARGEST_SHIFT = 62


class RequantizerRounding(enum.Enum):
    """To the nearest integer, ties to the even one, up or down; or always down or up.  Up is towards +infinity."""

    HALF_EVEN = "half_even"
    HALF_UP = "half_up"
    HALF_DOWN = "half_down"
    FLOOR = "floor"
    CEIL = "ceil"

    @property
    def needs_rest(self) -> bool:
        """The bits below the half matter."""
        return self not in (RequantizerRounding.FLOOR, RequantizerRounding.HALF_UP)

    def up(self, half: Value, odd: Value, rest: Value) -> Value:
        """Whether a number is rounded up: `odd` is the lowest bit of its integer part, `half` the bit below it, and
        `rest` says that a still lower bit is set.
        """
        kinds = RequantizerRounding
        if self is kinds.FLOOR:
            return Const(0, 1)
        return {
            kinds.HALF_EVEN: half & (rest | odd), kinds.HALF_UP: half, kinds.HALF_DOWN: half & rest,
            kinds.CEIL: half | rest,
        }[self]

    def of_quotient(self, numbers: npt.NDArray[np.int64], shift: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """numbers / 2**shift as integers.  All int64: numbers of less than 2**62, shifts from 0 to 62."""
        unit = np.int64(1) << shift
        half = unit >> 1
        added = {RequantizerRounding.FLOOR: 0, RequantizerRounding.CEIL: unit - 1,
                 RequantizerRounding.HALF_DOWN: np.maximum(half - 1, 0)}
        total = numbers + added.get(self, half)
        rounded: npt.NDArray[np.int64] = total >> shift
        if self is RequantizerRounding.HALF_EVEN:
            tie = (shift > 0) & ((total & (unit - 1)) == 0)
            rounded = np.where(tie, rounded & ~1, rounded)
        return rounded


def shape_range(shape: Shape) -> tuple[int, int]:
    """The lowest and the highest integer of `shape`."""
    return (-1 << (shape.width - 1), (1 << (shape.width - 1)) - 1) if shape.signed else (0, (1 << shape.width) - 1)


def signed_width(low: int, high: int) -> int:
    """Bits of a two's complement number that holds `low` to `high`."""
    return max((~low if low < 0 else low).bit_length(), (~high if high < 0 else high).bit_length()) + 1


@dataclass(frozen=True)
class RequantizerRoom:
    """The widths that a requantizer is made for, so that other constants can take the places of those in its ROM.

    Biases of `bias_bits` bits with their sign; multipliers of up to `factor_bits` bits, or 0 for none at all; shifts
    from `base` to `base + extra`.  With `outward` (see `RequantizerRanges`) some channels' products move.
    """

    bias_bits: int
    factor_bits: int
    base: int
    extra: int
    outward: int = 0

    def expressed(self, factor: int, shift: int, moves: bool = False) -> tuple[int, int]:
        """The same ratio with a shift and a factor that there is room for.  ValueError where there are none.

        Where products move, both stay as they are: `outward` is one of their bits.
        """
        if moves and factor >> self.factor_bits == 0 and self.base <= shift <= self.base + self.extra:
            return factor, shift
        if not factor and self.factor_bits and not moves:
            return 0, self.base
        for k in range(self.base, self.base + self.extra + 1 if not moves else self.base):
            wide = factor << max(0, k - shift)
            narrow = wide >> max(0, shift - k)
            if narrow << max(0, shift - k) == wide and narrow >> self.factor_bits == (not self.factor_bits):
                return narrow, k
        raise ValueError(f"a ratio of {factor} / 2**{shift} must have a multiplier of up to {self.factor_bits} bits "
                         f"and a shift from {self.base} to {self.base + self.extra}")


@dataclass(frozen=True, eq=False)
class RequantizerRanges:
    """y = clamp(round((a * 2**fraction + bias) * factor / 2**(base + extra)) + zero_point, low, high), in lowest terms.

    With `outward`, a power of two, products move so far away from zero before they are rounded to the nearest integer,
    in channels where that is less than half a step of the result; terms stay as they are given then.

    Made by `of()`; ranges are Python integers and exact.  `factor` is 1 everywhere where there is nothing to multiply;
    `extra` is at least 0, and 0 in some channel.  With a `room`, ranges and widths are those of any constants that it
    has room for, and all constants are stored.
    """

    accumulator: Shape
    bias: tuple[int, ...]
    factor: tuple[int, ...]
    base: int
    extra: tuple[int, ...]
    zero_point: int
    low: int
    high: int
    output: Shape
    fraction: int
    rounding: RequantizerRounding
    room: RequantizerRoom | None = None
    outward: int = 0

    @staticmethod
    def of(*, accumulator: Shape, bias: npt.NDArray[np.int64], multiplier: npt.NDArray[np.int64],
           shift: npt.NDArray[np.int64], zero_point: int, low: int, high: int, output: Shape, fraction: int = 0,
           rounding: RequantizerRounding = RequantizerRounding.HALF_EVEN,
           room: RequantizerRoom | None = None, outward: int = 0) -> RequantizerRanges:
        """Raises ValueError for constants that are out of range."""
        biases, factors, shifts = (tuple(np.atleast_1d(values).tolist()) for values in (bias, multiplier, shift))
        return RequantizerRanges.of_numbers(accumulator, biases, factors, shifts, zero_point, low, high, output,
                                            fraction, rounding, room, outward)

    @staticmethod
    @lru_cache(maxsize=1 << 9)  # the solver asks for the same constants again and again
    def of_numbers(accumulator: Shape, biases: tuple[int, ...], factors: Sequence[int], shifts: Sequence[int],
                   zero_point: int, low: int, high: int, output: Shape, fraction: int, rounding: RequantizerRounding,
                   room: RequantizerRoom | None, outward: int) -> RequantizerRanges:
        """Find the ranges for a number for each channel."""
        if not len(biases) == len(factors) == len(shifts) > 0:
            raise ValueError(f"bias, multiplier and shift of a Requantizer must have one entry for each channel, not "
                             f"{len(biases)}, {len(factors)} and {len(shifts)}")
        if min(factors) < 0 or max(factors) >> MULTIPLIER_BITS:
            raise ValueError(f"multiplier of a Requantizer must be from 0 to {(1 << MULTIPLIER_BITS) - 1}, not "
                             f"{min(factors)} to {max(factors)}")
        if min(shifts) < 0 or max(shifts) > LARGEST_SHIFT:
            raise ValueError(f"shift of a Requantizer must be from 0 to {LARGEST_SHIFT}, not {min(shifts)} to "
                             f"{max(shifts)}")
        least, most = shape_range(output)
        if not least <= low <= high <= most:
            raise ValueError(f"low and high of a Requantizer must be in order and in the range of its output, {least} "
                             f"to {most}, not {low} and {high}")
        if fraction < 0:
            raise ValueError(f"fraction of a Requantizer must be at least 0 bits, not {fraction}")
        if room is not None:
            require_bits("bias of a Requantizer", biases, room.bias_bits)
            factors, shifts = zip(*(room.expressed(m, k, bool(outward)) for m, k in zip(factors, shifts, strict=True)),
                                  strict=True)
        elif not outward:
            factors, shifts = lowest_terms(factors, shifts)
        base = min(shifts) if room is None else room.base
        return RequantizerRanges(accumulator, biases, tuple(factors), base, tuple(k - base for k in shifts),
                                 zero_point, low, high, output, fraction, rounding, room, outward)

    def outwards(self, products: npt.NDArray[np.int64], shift: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Products with these shifts after they moved away from zero."""
        half = np.int64(1) << np.maximum(shift - 1, 0)
        far: npt.NDArray[np.int64] = np.where(half > self.outward, self.outward, 0)
        return products + far * np.where(products < 0, -1, 1)

    @cached_property
    def aligned(self) -> RequantizerRanges:
        """The same function with `extra` 0 everywhere: smaller shifts become larger factors.  With room, itself."""
        if self.room is not None or self.outward:
            return self
        most = max(self.extra)
        factor = tuple(m << (most - e) for m, e in zip(self.factor, self.extra, strict=True))
        return replace(self, factor=factor, base=self.base + most, extra=(0,) * len(factor))

    @property
    def channels(self) -> int:
        return len(self.bias)

    @property
    def multiplies(self) -> bool:
        return self.room.factor_bits > 0 if self.room else any(m != 1 for m in self.factor)

    @property
    def most_extra(self) -> int:
        """The largest `extra` there can be."""
        return self.room.extra if self.room else max(self.extra)

    @cached_property
    def factor_bits(self) -> int:
        if self.room is not None:
            return max(1, self.room.factor_bits)
        return max(1, max(self.factor).bit_length())

    @property
    def drop(self) -> int:
        """Low bits of the product of which only matters whether they are all zero: those below the half."""
        return max(0, self.base - 1)

    @property
    def moving_bit(self) -> int:
        """The place of the bit that `outward` is."""
        return self.outward.bit_length() - 1

    @property
    def moves(self) -> tuple[bool, ...]:
        """The channels whose products move."""
        return tuple(bool(self.outward) and self.base + e > self.moving_bit + 1 for e in self.extra)

    @cached_property
    def sums(self) -> list[tuple[int, int]]:
        """Range of a * 2**fraction + bias, per channel; with room for others one for all."""
        low, high = (end << self.fraction for end in shape_range(self.accumulator))
        if self.room is not None:
            reach = 1 << (self.room.bias_bits - 1)
            return [(low - reach, high + reach - 1)]
        return [(low + b, high + b) for b in self.bias]

    @cached_property
    def products(self) -> list[tuple[int, int]]:
        factors = self.factor if self.room is None else [max(1, (1 << self.room.factor_bits) - 1)]
        return [(low * m - self.outward, high * m + self.outward)
                for (low, high), m in zip(self.sums, factors, strict=True)]

    @cached_property
    def halves(self) -> list[tuple[int, int]]:
        """Range of the product in halves of the result's unit, before `extra`, rounded down."""
        if self.base == 0:
            return [(2 * low, 2 * high) for low, high in self.products]
        return [(low >> self.drop, high >> self.drop) for low, high in self.products]

    def halves_after(self, bits: int) -> Shape:
        """Shape of the halves when the shifts that the low `bits` bits of `extra` ask for are done; 2 bits at least."""
        done = [e & ((1 << bits) - 1) for e in self.least_extras]
        shape = union([(low >> e, high >> e) for (low, high), e in zip(self.halves, done, strict=True)])
        return signed(max(2, shape.width))

    @property
    def least_extras(self) -> tuple[int, ...]:
        """The shift at which each of `halves` is largest."""
        return self.extra if self.room is None else (0,)

    @cached_property
    def sum_shape(self) -> Shape:
        return union(self.sums)

    @cached_property
    def product_shape(self) -> Shape:
        return union(self.products)

    @cached_property
    def above_low(self) -> tuple[int, int]:
        """Range of the rounded result with its zero point, counted from `low`."""
        ranges = [(low >> e >> 1, (high >> e >> 1) + 1)
                  for (low, high), e in zip(self.halves, self.least_extras, strict=True)]
        offset = self.zero_point - self.low
        return min(low for low, _ in ranges) + offset, max(high for _, high in ranges) + offset

    @cached_property
    def fields(self) -> dict[str, tuple[Shape, tuple[int, ...]]]:
        """Shape and values of each constant."""
        return {
            "bias": (signed(self.room.bias_bits) if self.room else union([(b, b) for b in self.bias]), self.bias),
            "factor": (unsigned(self.factor_bits), self.factor),
            "extra": (unsigned(self.most_extra.bit_length()), self.extra),
            "moves": (unsigned(int(self.outward > 0)), tuple(map(int, self.moves))),
        }

    @cached_property
    def stored(self) -> dict[str, Shape]:
        """The constants that differ between channels, in the order of their bits in the ROM's word."""
        if self.room is not None:
            used = {"bias": True, "factor": self.multiplies, "extra": self.room.extra > 0,
                    "moves": self.outward > 0}
            return {name: shape for name, (shape, _) in self.fields.items() if used[name]}
        return {name: shape for name, (shape, values) in self.fields.items() if len(set(values)) > 1}

    @property
    def tag_bits(self) -> int:
        """Bits of a channel's constants that are needed behind the product."""
        return sum(shape.width for name, shape in self.stored.items() if name in ("extra", "moves"))

    @property
    def word_bits(self) -> int:
        return sum(shape.width for shape in self.stored.values())

    def rom(self) -> npt.NDArray[np.uint8]:
        """One word for each channel."""
        rows = np.zeros((self.channels, -(-self.word_bits // 8)), dtype=np.uint8)
        for channel, row in enumerate(rows):
            word = place = 0
            for name, shape in self.stored.items():
                word |= (self.fields[name][1][channel] & ((1 << shape.width) - 1)) << place
                place += shape.width
            row[:] = np.frombuffer(word.to_bytes(len(row), "little"), dtype=np.uint8)
        return rows


def require_bits(what: str, values: Sequence[int], bits: int) -> None:
    """ValueError where a value does not fit into `bits` bits with its sign."""
    reach = 1 << (bits - 1)
    if min(values) < -reach or max(values) >= reach:
        raise ValueError(f"{what} must be from {-reach} to {reach - 1}, not {min(values)} to {max(values)}")


def union(ranges: list[tuple[int, int]]) -> Shape:
    """The signed shape that holds all `ranges`."""
    return signed(signed_width(min(low for low, _ in ranges), max(high for _, high in ranges)))


def lowest_terms(factors: Sequence[int], shifts: Sequence[int]) -> tuple[list[int], list[int]]:
    """Equal ratios: powers of two become 1, else common factors of two go; a zero has the least shift there is."""
    used = [(m, k) for m, k in zip(factors, shifts, strict=True) if m]
    if not used:
        return [0] * len(factors), [0] * len(factors)
    if all(m & (m - 1) == 0 and m.bit_length() - 1 <= k for m, k in used):
        pairs = [(min(m, 1), k - max(0, m.bit_length() - 1)) for m, k in zip(factors, shifts, strict=True)]
    else:
        common = min(min((m & -m).bit_length() - 1, k) for m, k in used)
        pairs = [(m >> common, k - common) for m, k in zip(factors, shifts, strict=True)]
    least = min(k for m, k in pairs if m)
    return [m for m, _ in pairs], [k if m else least for m, k in pairs]
