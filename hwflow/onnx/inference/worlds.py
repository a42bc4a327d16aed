"""Open sizes as numbers: a symbol has a number in each of nine trial worlds, and a size is the numbers it has there.

A rule on integer shapes is run in every world; two sizes are the same when they agree in all worlds, and a size is
shown as the constant, the symbol or the polynomial ("2*batch", "n + 1", "batch*seq") that explains its numbers.  A size
that nothing simple explains is shown as unknown, but still carried: the same rounding on two branches meets itself.

A world where a rule fails while it holds in enough others is one that the model cannot run in (an image smaller than
the kernel, a number that does not divide): it is left out from there on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import TypeAlias, Union

from hwflow.onnx.model import Dim

#: A size: a number, or its number in each world (any number in worlds that were left out).
Size: TypeAlias = Union[int, tuple[int, ...]]

WORLDS = 9
#: The first worlds have small numbers, which show limits: min(n, 10) looks like 10 from above.
SMALL = 3
#: Fewer worlds of large numbers than that say nothing.
ENOUGH = 3
#: An expression with two unknowns must hold in so many worlds, one more for another unknown.
_MIN_POINTS = 4
#: Symbols and degrees that explanations are made of.
_MAX_SYMBOLS, _MAX_DEGREE = 6, 3


def _numbers(k: int) -> tuple[int, ...]:
    """The numbers of symbol number `k`, all different and unrelated to those of others.

    Three worlds hold small ones, three numbers with many divisors, and the last three odd ones.
    """
    random = Random(k)
    large = (
        32 * random.randrange(1, 9), 48 * random.randrange(1, 12, 2), 96 * random.choice((3, 4, 5, 6, 7)),
        *random.sample(range(63, 900, 2), WORLDS - SMALL - 3),
    )  # fmt: skip
    return 1, 2 + k % 6, random.randrange(17, 62, 2), *large


@dataclass
class Worlds:
    """The symbols of one model and the worlds that are left.

    `given` are the symbols of the model's inputs, which mean the same everywhere.  Other names are those that a file
    gives to sizes that nothing explains, as long as it gives them to one size each.
    """

    alive: list[int] = field(default_factory=lambda: list(range(WORLDS)))
    symbols: dict[str, tuple[int, ...]] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    loose: set[str] = field(default_factory=set)
    #: How often operands were bent; see `by_rule`.
    bent: int = 0
    _taken: int = 0
    _fresh: set[tuple[int, ...]] = field(default_factory=set)
    _texts: dict[tuple[int, ...], str | None] = field(default_factory=dict)

    def symbol(self, name: str) -> Size:
        """The size that `name` stands for everywhere in the model."""
        if name in self.loose:
            return self.fresh()
        if name not in self.symbols:
            self._name(self.fresh(), name)
        return self.symbols[name]

    def fresh(self) -> tuple[int, ...]:
        """A size that is related to no other."""
        size = _numbers(self._taken)
        self._taken += 1
        self._fresh.add(size)
        return size

    @property
    def made(self) -> int:
        """How many unrelated sizes there are so far."""
        return self._taken

    def _name(self, size: tuple[int, ...], name: str) -> None:
        self.symbols[name] = size
        self._texts[self.key(size)] = name

    def call(self, size: Size, name: str) -> None:
        """A size that nothing explains goes by the name that the file gives it, unless that is another size's."""
        if not isinstance(size, tuple) or name in self.given or name in self.loose or self.text(size) is not None:
            return
        if name not in self.symbols:
            self._name(size, name)
        elif not self.same(self.symbols[name], size):
            self._texts.pop(self.key(self.symbols.pop(name)), None)
            self.loose.add(name)

    def large(self) -> list[int]:
        """Living worlds of large numbers."""
        return [world for world in self.alive if world >= SMALL]

    def at(self, size: Size, world: int) -> int:
        return size if isinstance(size, int) else size[world]

    def keep(self, worlds: Sequence[int]) -> None:
        """Only these worlds are left."""
        self.alive = list(worlds)
        self._texts = {self.key(size): name for name, size in reversed(self.symbols.items())}

    def gather(self, numbers: Mapping[int, int]) -> Size:
        """The size that has these numbers in the living worlds."""
        first = numbers[self.alive[0]]
        if all(numbers[world] == first for world in self.alive):
            return first
        return tuple(numbers.get(world, 0) for world in range(WORLDS))

    def key(self, size: Size) -> tuple[int, ...]:
        """Equal for sizes that are equal in all living worlds."""
        if isinstance(size, int):
            return (size,) * len(self.alive)
        return size if len(self.alive) == WORLDS else tuple(size[world] for world in self.alive)

    def same(self, a: Size, b: Size) -> bool:
        return a == b or self.key(a) == self.key(b)

    def reduced(self, size: Size) -> Size:
        """A number where the living worlds agree on it."""
        key = self.key(size)
        return key[0] if len(set(key)) == 1 else size

    def text(self, size: Size) -> Dim:
        """A number, an expression, or None."""
        if isinstance(size, int):
            return size
        key = self.key(size)
        if len(set(key)) == 1:
            return key[0]
        if key not in self._texts:
            self._texts[key] = None if size in self._fresh else self._explain(key)
        return self._texts[key]

    def _explain(self, key: tuple[int, ...]) -> str | None:
        earliest = itertools.islice(self.symbols.items(), _MAX_SYMBOLS)
        usable = [(name, numbers) for name, size in earliest if len(set(numbers := self.key(size))) > 1]
        if len(key) < _MIN_POINTS:
            return None
        for factors, numbers in _products(usable):
            if (text := _line(numbers, key)) is not None:
                return _sum([(text[0], factors)], text[1])
        for (name, first), (other, second) in itertools.combinations(usable, 2):
            if (plane := _plane(first, second, key)) is not None:
                return _sum([(plane[0], (name,)), (plane[1], (other,))], plane[2])
        return None


def _products(
    symbols: Sequence[tuple[str, tuple[int, ...]]],
) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Symbols, and products of up to three of them."""
    for degree in range(1, _MAX_DEGREE + 1):
        for chosen in itertools.combinations_with_replacement(symbols, degree):
            numbers = [1] * len(chosen[0][1])
            for _, factor in chosen:
                numbers = [a * b for a, b in zip(numbers, factor, strict=True)]
            yield tuple(name for name, _ in chosen), tuple(numbers)


def _line(x: Sequence[int], y: Sequence[int]) -> tuple[int, int] | None:
    """Integers a, b with y = a * x + b everywhere; None where there are none."""
    far = max(range(len(x)), key=lambda i: abs(x[i] - x[0]))
    if x[far] == x[0] or (y[far] - y[0]) % (x[far] - x[0]):
        return None
    a = (y[far] - y[0]) // (x[far] - x[0])
    b = y[0] - a * x[0]
    return (a, b) if a and all(a * p + b == q for p, q in zip(x, y, strict=True)) else None


def _plane(x: Sequence[int], y: Sequence[int], z: Sequence[int]) -> tuple[int, int, int] | None:
    """Integers a, b, c with z = a * x + b * y + c everywhere; more points than unknowns must say so."""
    n = len(x)
    for i, j, k in itertools.combinations(range(n), 3):
        x1, y1, z1 = x[j] - x[i], y[j] - y[i], z[j] - z[i]
        x2, y2, z2 = x[k] - x[i], y[k] - y[i], z[k] - z[i]
        if determinant := x1 * y2 - x2 * y1:
            a, b = Fraction(z1 * y2 - z2 * y1, determinant), Fraction(x1 * z2 - x2 * z1, determinant)
            if a.denominator != 1 or b.denominator != 1 or not a or not b or n <= _MIN_POINTS:
                return None
            c = z[i] - int(a) * x[i] - int(b) * y[i]
            fits = all(int(a) * p + int(b) * q + c == r for p, q, r in zip(x, y, z, strict=True))
            return (int(a), int(b), c) if fits else None
    return None


def _sum(terms: Sequence[tuple[int, tuple[str, ...]]], constant: int) -> str:
    """A text like "2*batch + 1", "n - 3"; terms with a plus stand first."""
    words: list[tuple[bool, str]] = []
    for factor, names in sorted(terms, key=lambda term: term[0] < 0):
        product = "*".join(name if len(names) == 1 and abs(factor) == 1 else _factor(name) for name in names)
        words.append((factor < 0, product if abs(factor) == 1 else f"{abs(factor)}*{product}"))
    if constant:
        words.insert(0 if words[0][0] and constant > 0 else len(words), (constant < 0, str(abs(constant))))
    text = ("-" if words[0][0] else "") + words[0][1]
    return text + "".join(f" {'-' if minus else '+'} {word}" for minus, word in words[1:])


def _factor(name: str) -> str:
    return name if name.isidentifier() else f"({name})"
