"""Random choices that hypothesis makes smaller where the case of a seed fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import hypothesis
import numpy as np
from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase, choices_to_bytes
from hypothesis.internal.conjecture import engine

from hwflow.layers import LayerGraph
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from tests.strategies.described import describe, described

Case = TypeVar("Case")
#: What numpy makes a generator of.
Seed = int | Sequence[int]

#: numpy's numbers from 0 to 1 are whole numbers of this.
UNIT = 1 << 53

#: Seconds to look for a smaller case that fails.
engine.MAX_SHRINKING_SECONDS = 60


class Drawing:
    """Choices with the names of numpy's generator, which makes them.

    Single choices are written down; with `draw` they are those of hypothesis, which begins with what was written down
    for this seed, and then tries smaller ones.  Arrays and real numbers, which seldom make a case large, stay numpy's.
    """

    def __init__(self, seed: Seed, draw: Callable[[st.SearchStrategy[Any]], Any] | None = None) -> None:
        self.rng, self.draw, self.choices = np.random.default_rng(seed), draw, list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rng, name)

    def chosen(self, value: int, low: int, high: int) -> int:
        """numpy's `value` from `low` to `high`, or hypothesis'."""
        if self.draw is not None:
            return int(self.draw(st.integers(low, high)))
        self.choices.append(value)
        return value

    def integers(self, low: Any, high: Any = None, size: Any = None, **options: Any) -> Any:
        made = self.rng.integers(low, high, size, **options)
        if np.ndim(made) or np.ndim(low) or np.ndim(high):
            return made
        first, end = (0, low) if high is None else (low, high)
        return self.chosen(int(made), int(first), int(end) - 1)

    def random(self, size: Any = None, **options: Any) -> Any:
        """The simplest number is nearly 1: what `chance` asks for is left out."""
        made = self.rng.random(size, **options)
        return made if size is not None else 1 - (1 + self.chosen(UNIT - 1 - int(made * UNIT), 0, UNIT - 1)) / UNIT

    def choice(self, options: Any, size: Any = None, replace: bool = True, p: Sequence[float] | None = None) -> Any:
        if size is not None:
            return self.rng.choice(options, size, replace, p)
        values = np.arange(options) if isinstance(options, int) else np.asarray(options)
        return values[self.chosen(int(self.rng.choice(len(values), p=p)), 0, len(values) - 1)]


class Again:
    """Choices that one walk after another makes alike: `again` begins a walk."""

    def __init__(self, rng: Any) -> None:
        self.rng, self.made, self.place = rng, list[Any](), 0

    def again(self) -> Again:
        self.place = 0
        return self

    def __getattr__(self, name: str) -> Any:
        def made(*arguments: Any, **options: Any) -> Any:
            if self.place == len(self.made):
                self.made.append(getattr(self.rng, name)(*arguments, **options))
            self.place += 1
            return self.made[self.place - 1]

        return made


class Drawn(Generic[Case]):
    """A case, written as a person reads it."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def __repr__(self) -> str:
        model = getattr(self.case, "model", self.case)
        return described(model) if isinstance(model, Model) else describe(model) if isinstance(
            model, LayerGraph) else repr(model)


@st.composite
def drawn(draw: Any, make: Callable[[Any], Case], seed: Seed) -> Drawn[Case]:
    """The cases of a generator as a strategy of hypothesis."""
    return Drawn(make(Drawing(seed, draw)))


class Known(ExampleDatabase):
    """A database with the choices of one case, among those that are not yet the smallest."""

    def __init__(self, choices: Sequence[int]) -> None:
        super().__init__()
        self.choices = choices_to_bytes(tuple(choices))

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return [self.choices] if key.endswith(b".secondary") else []

    def save(self, key: bytes, value: bytes) -> None:
        """Nothing is kept."""

    def delete(self, key: bytes, value: bytes) -> None:
        """Nothing is kept."""


def search(make: Callable[[Any], Case], check: Callable[[Case], object], seeds: Iterable[Seed]) -> None:
    """`check` for the case of each seed; of one that fails hypothesis looks for the smallest that still does."""
    for seed in seeds:
        choices = Drawing(seed)
        case = make(choices)
        try:
            check(case)
        except Exception as error:
            error.add_note(f"seed {seed}: {Drawn(case)!r}")
            require_smaller(make, check, seed, choices.choices)
            raise


def require_smaller(make: Callable[[Any], Case], check: Callable[[Case], object], seed: Seed,
                    choices: Sequence[int]) -> None:
    """The error of the smallest case that is found, if the case of these choices fails again."""
    @hypothesis.settings(
        database=Known(choices), deadline=None, report_multiple_bugs=False, print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.reuse, hypothesis.Phase.shrink))  # fmt: skip
    @hypothesis.given(drawn(make, seed))
    def require(drawn: Drawn[Case]) -> None:
        check(drawn.case)

    require()


class Walk:
    """A model that grows by random steps."""

    def __init__(self, rng: Any, name: str) -> None:
        self.rng, self.b, self.count = rng, Builder(name), 0

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def normal(self, *shape: int, deviation: float = 1.0) -> np.ndarray:
        return self.rng.normal(0, deviation, shape).astype(np.float32)

    def new(self, wish: str) -> str:
        self.count += 1
        return f"{wish}{self.count}"


class ShapedWalk(Walk):
    """A walk that knows the shape of each tensor."""

    def __init__(self, rng: Any, name: str) -> None:
        super().__init__(rng, name)
        self.shapes: dict[str, tuple[int, ...]] = {}

    def input(self, *shape: int) -> str:
        name = self.b.input(self.new("input"), np.float32, shape)
        self.shapes[name] = shape
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        return self.b.constant(self.new("c"), np.asarray(value, dtype or np.asarray(value).dtype))

    def node(self, op: str, *inputs: Any, shape: tuple[int, ...] | None = None, **attributes: Any) -> str:
        """A node of tensors and constants; `shape` is that of its result, else of its first input."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        made = self.b.node(op, *names, name=self.new(op.lower()), **attributes)
        self.shapes[made] = shape if shape is not None else self.shapes[names[0]]
        return made

    def model(self, *outputs: str, opset: int = 21, **opsets: int) -> Model:
        for name in outputs:
            self.b.output(name)
        return self.b.model(opset=opset, **({"opsets": {"com.microsoft": 1}} if opsets else {}))


def of_seed(name: str, seed: int) -> list[int]:
    """What numpy makes a generator of for a kind of models."""
    return [31, seed, sum(map(ord, name))]
