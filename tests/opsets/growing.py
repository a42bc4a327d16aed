"""A model in one operator set while it grows, and what it means: each node comes with its meaning in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hwflow.onnx import dumps, loads
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model

Array = np.ndarray


@dataclass(frozen=True)
class T:
    """A tensor.  `made`: it stands behind a product; `whole`: a quantizer was the last thing; `scale`: of that."""

    name: str
    shape: tuple[int, ...]
    made: bool = False
    whole: bool = False
    scale: float = 1.0

    @property
    def channels(self) -> int:
        return self.shape[1]

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class Step:
    """One node: what it gives, of which tensors and constants (arrays, None where left out), and its meaning.

    `chooses`: it gives places of elements, or ones where they are; `axis`: places along which axis.
    """

    outputs: tuple[str, ...]
    inputs: tuple[str | Array | None, ...]
    meaning: Callable[..., Any]
    chooses: bool = False
    axis: int | None = None

    def forgetting(self) -> Step:
        """The same node as if it gave its input."""
        return replace(self, meaning=lambda x, *_: (x,))


class Growing:
    """Builds nodes as operator set `opset` writes them.  `exact`: in numbers that float32 computes without rounding."""

    def __init__(self, seed: int, opset: int, exact: bool) -> None:
        self.seed = seed
        self.rng, self.opset, self.exact = np.random.default_rng([0x5E7, seed, opset, exact]), opset, exact
        self.b, self.steps, self.count = Builder("random"), list[Step](), 0
        self.probe: dict[str, Array] = {}
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.outputs: list[str] = []
        self.domains: dict[str, int] = {}

    # Random choices.

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def normal(self, *shape: int, deviation: float = 1.0) -> Array:
        """Random constants; of an exact model small multiples of a power of two."""
        if self.exact:
            return (self.rng.integers(-7, 8, shape) / 8).astype(np.float32)
        return self.rng.normal(0, deviation, shape).astype(np.float32)

    def factors(self, shape: tuple[int, ...]) -> Array:
        if self.exact:
            return (2.0 ** self.rng.integers(-1, 2, shape)).astype(np.float32)
        return self.rng.uniform(0.4, 1.6, shape).astype(np.float32)

    # Parts of the model.

    def new(self, wish: str) -> str:
        self.count += 1
        return f"{wish.lower()}{self.count}"

    def input(self, shape: tuple[int, ...]) -> T:
        name = self.new("input")
        self.b.input(name, np.float32, shape)
        self.inputs[name] = shape
        self.probe[name] = self.rng.standard_normal(shape)
        return T(name, shape)

    def constant(self, value: Array) -> str:
        """An initializer, or a node Constant."""
        name, value = self.new("c"), np.asarray(value)
        if self.chance(0.15):
            return self.b.nodes("Constant", outputs=(name,), name=f"{name}.node", value=value)[0]
        return self.b.constant(name, value)

    def consumed(self, count: int = 1) -> dict[str, Any]:
        """The hint that operator sets before 6 allow, about memory that may be used again."""
        return {"consumed_inputs": (0,) * count} if self.opset < 6 and self.chance(0.3) else {}

    def several(
        self, op: str, meaning: Callable[..., Any], *inputs: T | Array | None, outputs: int, named: int | None = None,
        domain: str = "", chooses: bool = False, along: int | None = None, **attributes: Any,
    ) -> tuple[T, ...]:  # fmt: skip
        """A node with several outputs, whose `meaning` takes the values of all inputs and gives all outputs.

        Of `outputs` outputs in the file the first `named` have a meaning.
        """
        names, parts = list[str](), list[str | Array | None]()
        for value in inputs:
            if isinstance(value, T):
                names.append(value.name)
                parts.append(value.name)
            elif value is None:
                names.append("")
                parts.append(None)
            else:
                names.append(self.constant(value))
                parts.append(value if value.dtype.kind != "f" else value.astype(np.float64))
        while names and not names[-1]:
            names.pop()
        label = self.new(op)
        results = tuple(f"{label}.out{k}" for k in range(outputs))
        self.b.nodes(op, *names, outputs=results, name=label, domain=domain, **attributes)
        step = Step(results[:outputs if named is None else named], tuple(parts), meaning, chooses, along)
        self.steps.append(step)
        play(step, self.probe)
        source = next((value for value in inputs if isinstance(value, T)), None)
        made = any(value.made for value in inputs if isinstance(value, T))
        return tuple(T(name, self.probe[name].shape, made, False, source.scale if source else 1.0)
                     for name in step.outputs)  # fmt: skip

    def node(self, op: str, meaning: Callable[..., Any], *inputs: T | Array | None, **rest: Any) -> T:
        return self.several(op, lambda *values: (meaning(*values),), *inputs, outputs=1, **rest)[0]

    def output(self, t: T) -> None:
        """With the type that an old file says, too."""
        self.outputs.append(t.name)
        value = self.probe[t.name]
        self.b.output(t.name, np.int64 if value.dtype.kind == "i" else np.float32, value.shape)

    def model(self) -> Model:
        """Half of those up to operator set 8 as files of that time: IR version 3, constants among the inputs."""
        model = self.b.model(opset=self.opset, opsets=self.domains)
        if self.opset > 8 or self.seed % 2 or self.domains:
            return model
        return loads(dumps(replace(model, ir_version=3)))

    # What it means.

    def mean(
        self, rows: Mapping[str, Array], noise: np.random.Generator | None = None, bits: int = 8, alike: bool = False
    ) -> list[dict[str, Array]]:
        """Every tensor of every row of `rows` (each [n, *shape]).

        With `noise` each result is off by up to half a step of 1 / (2**bits - 1) of its range, and weights, too.
        `alike`: all elements of a tensor are off by as much, as where two steps are nearly the same.
        """
        count = len(next(iter(rows.values())))
        found = [{name: np.asarray(array[k], np.float64) for name, array in rows.items()} for k in range(count)]
        if noise is not None:
            for name in rows:
                _blur(found, name, noise, bits, alike)
        for plain in self.steps:
            step = plain if noise is None else _blurred(plain, noise, bits)
            for values in found:
                play(step, values)
            for name in step.outputs if noise is not None and not step.chooses else ():
                _blur(found, name, noise, bits, alike)
        return found


def play(step: Step, values: dict[str, Array]) -> None:
    """Compute the outputs of a node."""
    given = [values[part] if isinstance(part, str) else part for part in step.inputs]
    for name, value in zip(step.outputs, step.meaning(*given), strict=True):
        values[name] = np.asarray(value)


def _blurred(step: Step, noise: np.random.Generator, bits: int) -> Step:
    """Weights have steps on both sides of 0."""

    def blurred(part: str | Array | None) -> str | Array | None:
        if not isinstance(part, np.ndarray) or part.dtype.kind != "f" or part.ndim < 2:
            return part
        half = np.abs(part).max() / (2 ** (bits - 1) - 1) / 2
        return part + noise.uniform(-half, half, part.shape)

    return replace(step, inputs=tuple(map(blurred, step.inputs)))


def _blur(found: list[dict[str, Array]], name: str, noise: np.random.Generator, bits: int, alike: bool) -> None:
    """Half a step of the range that the tensor has over all rows, to both sides."""
    every = np.stack([values[name] for values in found])
    if every.dtype.kind == "f":
        half = (max(every.max(), 0.0) - min(every.min(), 0.0)) / (2**bits - 1) / 2
        for values in found:
            values[name] = values[name] + noise.uniform(-half, half, () if alike else values[name].shape)
