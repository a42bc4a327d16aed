"""What is written and chosen at constant places is a map of elements: the same numbers, of Concat, Slice and Gather."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import hwflow
from hwflow.onnx import Model, dumps, evaluate, infer, simplify
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize
from hwflow.quantize.passes.streaming import keep_states
from hwflow.quantize.passes.tracing import traced_moves
from tests.quantize.played import check_played
from tests.random_cases import seeds

ENDS = {"ScatterND", "ScatterElements", "Where"}


class Chain:
    """A graph of random movements; `held` are its tensors with their shapes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.b, self.count = rng, Builder(), 0
        self.held: list[tuple[str, tuple[int, ...]]] = []
        shape = (1, *map(int, rng.integers(1, 5, rng.integers(1, 3))))
        for k in range(rng.integers(1, 4)):
            kind = shape if rng.integers(3) else (1, *map(int, rng.integers(1, 5, len(shape) - 1)))
            self.held.append((self.b.input(f"x{k}", np.float32, kind), kind))

    def constant(self, array: np.ndarray) -> str:
        self.count += 1
        return self.b.constant(f"c{self.count}", array)

    def other(self, shape: tuple[int, ...]) -> str:
        """A tensor of this shape: one that is there, or a constant."""
        fits = [name for name, kind in self.held if kind == shape]
        if fits and self.rng.integers(3):
            return str(self.rng.choice(fits))
        values = self.rng.integers(-2, 3, shape) if self.rng.integers(2) else np.full(shape, self.rng.integers(-1, 2))
        return self.constant(values.astype(np.float32))

    def step(self, kind: str) -> None:
        name, shape = self.held[self.rng.integers(len(self.held))]
        made = getattr(self, kind)(name, shape)
        self.held.append(made)

    def written(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """A part of the tensor, which is a box or any elements, is written with another one."""
        start = [int(self.rng.integers(size)) for size in shape]
        box = [int(self.rng.integers(1, size - at + 1)) for size, at in zip(shape, start, strict=True)]
        ranges = (np.arange(n) + at for n, at in zip(box, start, strict=True))
        places = np.stack(np.meshgrid(*ranges, indexing="ij"), -1)
        if self.rng.integers(2):
            size = int(self.rng.integers(1, np.prod(shape) + 1))
            flat = self.rng.permutation(int(np.prod(shape)))[:size]
            places, box = np.stack(np.unravel_index(flat, shape), -1)[None], [1, size]
        data = self.other(shape) if self.rng.integers(2) else name
        return self.b.node("ScatterND", data, self.constant(places), self.other(tuple(box))), shape

    def elements(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        places = np.argsort(self.rng.standard_normal(shape), axis=1)[:, : self.rng.integers(1, shape[1] + 1)]
        return self.b.node("ScatterElements", name, self.constant(places), self.other(places.shape), axis=1), shape

    def chosen(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        mask = self.rng.integers(0, 2, shape).astype(bool)
        return self.b.node("Where", self.constant(mask), name, self.other(shape)), shape

    def turned(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        order = [0, *(int(k) for k in self.rng.permutation(len(shape) - 1) + 1)]
        return self.b.node("Transpose", name, perm=order), tuple(shape[k] for k in order)

    def padded(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        pads = self.rng.integers(0, 2, 2 * len(shape))
        pads[[0, len(shape)]] = 0
        new = tuple(int(n + a + b) for n, a, b in zip(shape, pads, pads[len(shape):], strict=False))
        return self.b.node("Pad", name, self.constant(pads), self.constant(np.float32(self.rng.integers(2)))), new

    def cut(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        ends = [self.constant(np.array([value])) for value in (-1, -shape[1] - 1, 1, -1)]
        return self.b.node("Slice", name, *ends), shape


def chain(seed: int, length: int) -> Model:
    """A random graph whose last node writes or chooses."""
    rng = np.random.default_rng(seed)
    made = Chain(rng)
    for _ in range(length):
        made.step(str(rng.choice(["written", "elements", "chosen", "turned", "padded", "cut"])))
    made.step(str(rng.choice(["written", "elements", "chosen"])))
    name, shape = made.held[-1]
    y = made.b.node("Mul", name, made.b.constant("two", np.float32(2)), name="last")
    made.b.output(y, np.float32, shape)
    return made.b.model()


@seeds(range(40), range(40, 400))
def test_any_chain_is_a_map(seed: int) -> None:
    model = simplify(infer(chain(seed, seed % 7)))
    traced = traced_moves(model)
    dynamic = {value.name for value in traced.graph.inputs}
    for node in traced.graph.nodes:
        count = len(dynamic.intersection(node.inputs))
        assert node.op_type not in ENDS or count <= (node.op_type == "Where"), node
        dynamic.update(node.outputs)
    session = onnxruntime.InferenceSession(dumps(model), providers=["CPUExecutionProvider"])
    fed = {value.name: np.random.default_rng(1).standard_normal(value.tensor.shape).astype(np.float32)
           for value in model.graph.inputs}
    expected = session.run(None, {i.name: fed[i.name] for i in session.get_inputs()})[0]
    np.testing.assert_array_equal(evaluate(traced, fed)[traced.graph.outputs[0].name], expected)


def cached(written: bool) -> Model:
    """A convolution over what is written into zeros, as `w[:, :, :2] = cache; w[:, :, 2:] = x` is exported."""
    b, rng = Builder(), np.random.default_rng(2)
    x, cache = b.input("x", np.float32, (1, 3, 2)), b.input("cache", np.float32, (1, 3, 4))
    last = b.constant("zeros", np.zeros((1, 3, 6), np.float32))
    for name, source, at in (("old", cache, range(4)), ("new", x, range(4, 6))):
        places = np.stack(np.meshgrid([0], range(3), at, indexing="ij"), -1)
        last = b.node("ScatterND", last, b.constant(name, places), b.node("Relu", source) if written else source)
    y = b.node("Conv", last, b.constant("w", rng.standard_normal((4, 3, 3)).astype(np.float32)))
    b.output(b.node("Relu", y), np.float32, (1, 4, 4))
    return b.model()


@pytest.mark.parametrize("written", [False, True])
def test_slices_that_are_assigned_are_a_concat(written: bool) -> None:
    model = cached(written)
    rng = np.random.default_rng(3)
    rows = {v.name: rng.standard_normal((20, *v.tensor.shape)).astype(np.float32) for v in model.graph.inputs}
    quantized = quantize(model, rows)
    assert "Concat" in {type(layer).__name__ for layer in quantized.graph.layers}
    outputs = hwflow.run_golden(quantized, rows)
    expected = np.stack([evaluate(model, {n: a[k] for n, a in rows.items()})[model.graph.outputs[0].name][0]
                         for k in range(20)])
    (found,) = outputs.values()
    assert np.abs(found.reshape(expected.shape) - expected).max() < 0.1 * np.abs(expected).max()
    check_played(quantized.graph)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", ["input", "data"])
def test_limits_that_are_computed(kind: str, both: bool) -> None:
    """A Clip whose limits are inputs, or computed from data, is a Max and a Min."""
    b, rng = Builder("limits"), np.random.default_rng(4)
    x = b.input("x", np.float32, (1, 6))
    first = b.node("MatMul", x, b.constant("w", rng.standard_normal((6, 6)).astype(np.float32)))
    low = b.input("low", np.float32, ()) if kind == "input" else b.node("ReduceMin", b.node("Tanh", first), keepdims=0)
    high = b.constant("high", np.float32(1.5)) if both else ""
    clipped = b.node("Clip", first, low, high, name="clip")
    y = b.node("MatMul", clipped, b.constant("v", rng.standard_normal((6, 3)).astype(np.float32)), name="last")
    b.output(y, np.float32, (1, 3))
    model = infer(b.model())
    rows = {v.name: rng.standard_normal((40, *v.tensor.shape)).astype(np.float32) for v in model.graph.inputs}
    quantized = quantize(model, rows)
    assert "ReduceMin" not in {node.op_type for node in quantized.epilogue.graph.nodes}
    (found,) = hwflow.run_golden(quantized, rows).values()
    expected = np.stack([evaluate(model, {n: a[k] for n, a in rows.items()})[model.graph.outputs[0].name][0]
                         for k in range(40)])
    assert np.abs(found.reshape(expected.shape) - expected).max() < 0.15 * np.abs(expected).max()
    check_played(quantized.graph)


def test_a_cache_that_is_written_in_slices_is_a_state() -> None:
    """Found without a word: the next cache has elements of the cache, and of the input."""
    b, rng = Builder("cache"), np.random.default_rng(2)
    x, cache = b.input("x", np.float32, (1, 3, 1)), b.input("old", np.float32, (1, 3, 2))
    last = b.constant("zeros", np.zeros((1, 3, 3), np.float32))
    for name, source, at in (("kept", cache, range(2)), ("new", x, range(2, 3))):
        places = np.stack(np.meshgrid([0], range(3), at, indexing="ij"), -1)
        last = b.node("ScatterND", last, b.constant(name, places), source)
    w = b.constant("w", rng.standard_normal((4, 3, 3)).astype(np.float32))
    b.output(b.node("Relu", b.node("Conv", last, w), output="y"), np.float32, (1, 4, 1))
    ends = [b.constant(name, np.array([value])) for name, value in (("from", 1), ("to", 3), ("along", 2))]
    b.output(b.node("Slice", last, *ends, output="following"), np.float32, (1, 3, 2))
    model = keep_states(simplify(infer(b.model())))
    assert "input 'old' and output 'following' are a state" in model.notes[-1]
    rows = {"x": rng.standard_normal((40, 1, 3, 1)).astype(np.float32)}
    (found,) = hwflow.run_golden(quantize(model, rows), rows).values()
    state, expected = np.zeros((1, 3, 2), np.float32), []
    for row in rows["x"]:
        seen = np.concatenate([state, row], axis=2)
        expected.append(np.maximum(np.einsum("ock,nck->no", model.graph.initializers["w"], seen), 0))
        state = seen[:, :, 1:]
    noise = found.reshape(40, 4) - np.concatenate(expected)
    assert np.abs(noise).max() < 0.1 * np.abs(found).max()
