"""Sums of several numbers in a pipeline: a tree of adders, and what its leaves are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from amaranth.hdl import Cat, Module, Shape, Signal, Value, signed, unsigned

from ..stream.pipeline import adder_luts
from ..vendor.base import Resources, Technology


def holding(low: int, high: int) -> Shape:
    """The narrowest shape, of one bit at least, that holds `low` to `high`."""
    if low < 0:
        return signed(max((-low - 1).bit_length(), max(high, 0).bit_length()) + 1)
    return unsigned(max(1, high.bit_length()))


def trailing_zeros(numbers: Iterable[int]) -> int:
    """The trailing zeros of all `numbers` that are not 0; 0 where there are none."""
    together = 0
    for number in numbers:
        together |= number
    return (together & -together).bit_length() - 1 if together else 0


def signed_digits(number: int) -> list[tuple[int, int]]:
    """Pairs (place, +1 or -1) of the canonical signed digits, lowest first: as few as there can be.

    No two of them are neighbours (Reitwiesner 1960).
    """
    digits, place = [], 0
    while number:
        if number & 1:
            digit = 2 - (number & 3)
            digits.append((place, digit))
            number -= digit
        number >>= 1
        place += 1
    return digits


@dataclass(frozen=True)
class Term:
    """A number from `low` to `high` that counts 2**place, with `negative` -2**place."""

    low: int
    high: int
    place: int = 0
    negative: bool = False

    @property
    def shape(self) -> Shape:
        return holding(self.low, self.high)

    @property
    def width(self) -> int:
        return self.shape.width

    @property
    def ends(self) -> tuple[int, int]:
        """The range of what it adds."""
        low, high = self.low << self.place, self.high << self.place
        return (-high, -low) if self.negative else (low, high)


@dataclass(frozen=True)
class _Sum:
    """The sum of two terms.  `passes` low bits of the first go past the adder; `swapped`: second - first."""

    first: Term
    second: Term

    @property
    def swapped(self) -> bool:
        return self.first.negative and not self.second.negative

    @property
    def gap(self) -> int:
        return self.second.place - self.first.place

    @property
    def passes(self) -> int:
        return 0 if self.swapped else min(self.gap, self.first.width - 1)

    @cached_property
    def result(self) -> Term:
        low, high = self.second.low << self.gap, self.second.high << self.gap
        if self.swapped:
            return Term(low - self.first.high, high - self.first.low, self.first.place)
        if self.first.negative == self.second.negative:
            return Term(self.first.low + low, self.first.high + high, self.first.place, self.first.negative)
        return Term(self.first.low - high, self.first.high - low, self.first.place)

    def value(self, first: Value, second: Value) -> Value:
        if self.swapped:
            return (second << self.gap) - first
        second = second << (self.gap - self.passes)
        upper = first.shift_right(self.passes)
        upper = upper + second if self.first.negative == self.second.negative else upper - second
        return Cat(first[:self.passes], upper).as_signed() if self.passes else upper


@dataclass(frozen=True)
class SumPlan:
    """Adds `terms`, of which one at least is not negative or which are two at least; a level of adders in each cycle.

    Latency `latency`; a sum in every cycle.
    """

    terms: tuple[Term, ...]

    @cached_property
    def levels(self) -> list[list[_Sum | Term]]:
        """The levels: what each cycle makes of the terms before it: neighbours become sums, one without a neighbour
        waits."""
        levels, terms = [], self.in_order(self.terms)
        while len(terms) > 1:
            nodes: list[_Sum | Term] = [_Sum(*pair) for pair in zip(terms[::2], terms[1::2], strict=False)]
            nodes += terms[len(terms) - len(terms) % 2:]
            levels.append(nodes)
            terms = [node.result if isinstance(node, _Sum) else node for node in nodes]
        return levels

    @staticmethod
    def in_order(terms: Sequence[Term]) -> list[Term]:
        return sorted(terms, key=lambda term: (term.place, term.width))

    @property
    def latency(self) -> int:
        return len(self.levels)

    @cached_property
    def result(self) -> Term:
        """The sum.  Where all terms are negative, so is it."""
        if not self.levels:
            return self.terms[0]
        (node,) = self.levels[-1]
        assert isinstance(node, _Sum)
        return node.result

    def cost(self, technology: Technology | None) -> Resources:
        """LUT estimated."""
        total = Resources()
        for node in (node for level in self.levels for node in level):
            if isinstance(node, Term):
                total += Resources(ff=node.width)
            else:
                width = node.result.width
                total += Resources(lut=adder_cells(width - node.passes, technology), ff=width)
        return total

    def build(self, m: Module, values: Sequence[Value], name: str) -> Value:
        """The sum of `values`, which are the terms' numbers, `latency` cycles later."""
        order = sorted(range(len(self.terms)), key=lambda k: (self.terms[k].place, self.terms[k].width))
        terms = [values[k] for k in order]
        for depth, nodes in enumerate(self.levels):
            sums = []
            for n, node in enumerate(nodes):
                term = node.result if isinstance(node, _Sum) else node
                register = Signal(term.shape, name=f"{name}_{depth}_{n}", reset_less=True)
                m.d.sync += register.eq(
                    node.value(terms[2 * n], terms[2 * n + 1]) if isinstance(node, _Sum) else terms[2 * n])
                sums.append(register)
            terms = sums
        return terms[0]


def adder_cells(width: int, technology: Technology | None) -> int:
    """Logic cells of an adder; without a technology in none in particular, for choices that all families share."""
    return width + 4 if technology is None else adder_luts(width, technology)

