"""Operators of a float model on many rows at once, and their derivatives.

Tensors have the axes of the model, and behind them one for rows: [*shape, n] float32.  So what moves elements copies
runs of n, and a product of all rows is one product of matrices.  A `Rule` takes the operands of a node, constants
without the axis of rows, and gives its result and a `Pull`: from the derivative of a number by the result to those by
the operands.

What a node does is found by evaluating it where that can be: where elements go by sending their numbers through, slopes
of functions by differences.  Every rule is compared with the node itself, on values of its own, before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array, Model, Node
from hwflow.onnx.operators import CLAMPS, ELEMENTWISE, JOINS
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.streams import runner
from hwflow.quantize.graphs import as_ints, attribute, is_layer, shape_of

Stack: TypeAlias = npt.NDArray[Any]
Pull: TypeAlias = Callable[[Stack], Sequence[Stack | None]]
Rule: TypeAlias = Callable[[Sequence[Stack]], tuple[Stack, Pull]]

#: Numbers of elements stay exact in float32.
_MOST_ELEMENTS = 1 << 24

#: How far to each side a slope looks, as a share of the value, at least of 1.
_STEP = 2.0**-7


@dataclass(frozen=True)
class Step:
    """One node: `operands` are the tensors that it computes with, `rule` how, `output` its result."""

    operands: tuple[str, ...]
    output: str
    rule: Rule


def step_of(node: Node, model: Model) -> Step | None:
    """The step of `node`, which reads something computed; None where there is no rule for what it does."""
    graph = model.graph
    if sum(map(bool, node.outputs)) != 1:
        return None
    operands = tuple(name for name in dict.fromkeys(node.inputs) if name and name not in graph.initializers)
    kinds = [graph.tensor_type(name) for name in (*operands, node.outputs[0])]
    if any(kind is None or kind.dtype.kind != "f" for kind in kinds):
        return None
    shapes = [shape_of(graph, name) for name in (*operands, node.outputs[0])]
    if any(shape is None for shape in shapes) or not operands:
        return None
    one = _One(node, model, operands, tuple(shape for shape in shapes if shape is not None))
    if is_layer(node, graph.initializers):
        operands = (operands[0], *node.inputs[1:3])
    for make in _RULES:
        try:
            rule = make(one)
            if rule is not None and one.agrees(rule):
                return Step(operands, node.outputs[0], rule)
        except HwflowError:  # the node cannot be evaluated on numbers of elements, or on float32
            continue
    return None


class _One:
    """A node with what rules ask about it; `shapes` are those of its `operands` and of its result."""

    def __init__(
        self, node: Node, model: Model, operands: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]
    ) -> None:
        self.node, self.operands, self.shapes, self.result = node, operands, shapes[:-1], shapes[-1]
        self.constants = {name: model.graph.initializers[name] for name in node.inputs
                          if name in model.graph.initializers}
        self.opsets, self.is_layer = model.opsets, is_layer(node, self.constants)
        self._run = runner(node, model.opsets, self.constants)

    def run(self, *values: Array) -> Stack:
        return self._run(dict(zip(self.operands, values, strict=True)))[self.node.outputs[0]]

    def on_stacks(self) -> Callable[[Sequence[Stack]], Stack]:
        """A node that computes element by element, on stacks."""
        wide = {name: array[..., None] if array.ndim else array for name, array in self.constants.items()}
        run = runner(self.node, self.opsets, wide)
        return lambda values: run(dict(zip(self.operands, values, strict=True)))[self.node.outputs[0]]

    def agrees(self, rule: Rule) -> bool:
        """Whether `rule` gives what the node gives, on two rows of made-up values."""
        generator = np.random.default_rng(0)
        values = [generator.normal(size=(*shape, 2)).astype(np.float32) for shape in self.shapes]
        constants = [self.constants[name] for name in self.node.inputs[1:3]] if self.is_layer else []
        found, _ = rule([*values, *constants])
        wanted = [self.run(*(np.ascontiguousarray(value[..., k]) for value in values)) for k in range(2)]
        if found.shape != (*wanted[0].shape, 2):
            return False
        return np.allclose(found, np.stack(wanted, -1), 1e-3, 1e-4, equal_nan=True)


@dataclass(frozen=True)
class Places:
    """Where each of m results comes from: element `index` - 1 of an operand, nowhere for 0.

    `back` [elements, most] says for each element which results come from it, m for none.
    """

    index: npt.NDArray[np.int64]
    back: npt.NDArray[np.int64]

    @staticmethod
    def of(index: npt.NDArray[np.int64], size: int) -> Places:
        flat = index.ravel()
        order = np.argsort(flat, kind="stable")
        counts = np.bincount(flat, minlength=size + 1)
        starts = np.cumsum(counts) - counts
        back = np.full((size, max(1, int(counts[1:].max(initial=0)))), flat.size)
        ranks = np.arange(flat.size) - starts[flat[order]]
        some = flat[order] > 0
        back[flat[order][some] - 1, ranks[some]] = order[some]
        return Places(flat, back)

    def take(self, x: Stack, fill: float = 0.0) -> Stack:
        """[a, elements, n] to [a, m, n]."""
        if self._is_whole(self.index - 1, x.shape[1]):
            return x
        return _with_none(x, fill, ahead=True).take(self.index, axis=1)

    def sums(self, slopes: Stack) -> Stack:
        """The way back: [a, m, n] to [a, elements, n], sums of what the results got."""
        if self._is_whole(self.back[:, 0], slopes.shape[1]):
            return slopes
        wide = _with_none(slopes, 0.0, ahead=False)
        total: Stack = wide.take(self.back[:, 0], axis=1)
        for column in self.back.T[1:]:
            total += wide.take(column, axis=1)
        return total

    @staticmethod
    def _is_whole(places: npt.NDArray[np.int64], size: int) -> bool:
        return len(places) == size and bool((places == np.arange(size)).all())


def _with_none(x: Stack, fill: float, ahead: bool) -> Stack:
    wide = np.empty((x.shape[0], x.shape[1] + 1, x.shape[2]), np.float32)
    wide[:, int(ahead) :][:, : x.shape[1]] = x
    wide[:, 0 if ahead else -1] = fill
    return wide


def _move(one: _One) -> Rule | None:
    """Elements of the operands in other places, and constants between them."""
    sizes = [int(np.prod(shape)) for shape in one.shapes]
    if sum(sizes) >= _MOST_ELEMENTS or one.is_layer:
        return None
    starts = np.cumsum([0, *sizes])
    numbers = [np.arange(start + 1, start + size + 1, dtype=np.float32).reshape(shape)
               for start, size, shape in zip(starts, sizes, one.shapes, strict=False)]
    ahead, behind = one.run(*numbers), one.run(*(-number for number in numbers))
    moved = (ahead == -behind) & (ahead > 0) & (ahead == np.rint(ahead))
    if not (moved | (ahead == behind)).all() or (ahead > starts[-1]).any():
        return None
    places = Places.of(np.where(moved, ahead, 0).astype(np.int64), int(starts[-1]))
    rest = np.where(moved, 0, ahead).astype(np.float32)[..., None]

    def rule(values: Sequence[Stack]) -> tuple[Stack, Pull]:
        count = values[0].shape[-1]
        flat = np.concatenate([value.reshape(-1, count) for value in values])[None]
        result = places.take(flat).reshape(*rest.shape[:-1], count)

        def pull(slopes: Stack) -> list[Stack]:
            parts = np.split(places.sums(slopes.reshape(1, -1, count))[0], starts[1:-1])
            return [part.reshape(value.shape) for part, value in zip(parts, values, strict=True)]

        return (result + rest if rest.any() else result), pull

    return rule


def _windows(one: _One, channels: int, taps: Sequence[int]) -> Places:
    """Where the elements of all windows come from, [taps, positions], in one channel of the first operand."""
    node, size = one.node, int(np.prod(one.shapes[0][2:]))
    copies = np.eye(int(np.prod(taps)), dtype=np.float32).reshape(-1, 1, *taps)
    kept = {key: node.attributes[key] for key in ("auto_pad", "dilations", "pads", "strides") if key in node.attributes}
    copying = Node("Conv", ("x", "w"), ("y",), kept, node.name)
    numbers = np.arange(1, size + 1, dtype=np.float32).reshape(1, 1, *one.shapes[0][2:])
    index = runner(copying, one.opsets, {"w": copies})({"x": numbers})["y"]
    return Places.of(index.astype(np.int64), size)


def _flat(x: Stack) -> Stack:
    """[b, c, *space, n] to [c, space, b * n]."""
    return np.moveaxis(x, 0, -2).reshape(x.shape[1], -1, x.shape[0] * x.shape[-1])


def _unflat(x: Stack, shape: Sequence[int]) -> Stack:
    """The way back from [c, space, b * n] to `shape`, [b, c, *space, n]."""
    return np.moveaxis(x.reshape(*shape[1:-1], shape[0], shape[-1]), -2, 0)


def _layer(one: _One) -> Rule | None:
    """A Conv or Gemm with weights and bias."""
    if not one.is_layer:
        return None
    shape = one.constants[one.node.inputs[1]].shape
    groups = attribute(one.node, "group", 1)
    is_conv = one.node.op_type == "Conv"
    places = _windows(one, shape[1], shape[2:]) if is_conv else Places.of(np.ones(1, np.int64), 1)

    def rule(values: Sequence[Stack]) -> tuple[Stack, Pull]:
        x, weights, bias = values
        flat = _flat(x)
        windows = places.take(flat)
        columns = windows.reshape(groups, shape[1] * int(np.prod(shape[2:])), -1)
        matrix = weights.reshape(groups, shape[0] // groups, -1)
        result = (matrix @ columns).reshape(shape[0], -1) + bias[:, None]
        whole = (*((x.shape[0], shape[0], *one.result[2:])), x.shape[-1])

        def pull(slopes: Stack) -> list[Stack]:
            own = _flat(slopes).reshape(groups, shape[0] // groups, -1)
            turned = matrix.swapaxes(1, 2)
            of_columns = (turned * own if own.shape[1] == 1 else turned @ own).reshape(windows.shape)  # * is faster
            of_weights = (own @ columns.swapaxes(1, 2)).reshape(weights.shape)
            return [_unflat(places.sums(of_columns), x.shape), of_weights, own.sum(2).ravel()]

        return _unflat(result, whole), pull

    return rule


def _pool(one: _One) -> Rule | None:
    """Largest elements of windows, or their means."""
    if one.node.op_type not in ("MaxPool", "AveragePool"):
        return None
    taps = as_ints(one.node.attributes["kernel_shape"])
    places, count = _windows(one, 1, taps), int(np.prod(taps))
    is_largest = one.node.op_type == "MaxPool"
    there = (places.index > 0).reshape(count, -1).sum(axis=0)
    divisors = np.full_like(there, count) if attribute(one.node, "count_include_pad", 0) else np.maximum(there, 1)
    shares = (1 / divisors).astype(np.float32)[:, None]

    def rule(values: Sequence[Stack]) -> tuple[Stack, Pull]:
        x = _flat(values[0])
        windows = places.take(x, -np.inf if is_largest else 0.0).reshape(x.shape[0], count, -1, x.shape[2])
        first = windows.argmax(axis=1)[:, None] if is_largest else None
        result = windows.sum(axis=1) * shares if first is None else np.take_along_axis(windows, first, 1)[:, 0]
        whole = (*one.result, values[0].shape[-1])

        def pull(slopes: Stack) -> list[Stack]:
            own = _flat(slopes)
            if first is None:
                spread = np.broadcast_to((own * shares)[:, None], windows.shape)
            else:
                spread = np.zeros(windows.shape, np.float32)
                np.put_along_axis(spread, first, own[:, None], 1)
            return [_unflat(places.sums(spread.reshape(x.shape[0], -1, x.shape[2])), values[0].shape)]

        return _unflat(result, whole), pull

    return rule


def _mean(one: _One) -> Rule | None:
    """The mean over some axes."""
    if one.node.op_type not in ("GlobalAveragePool", "ReduceMean"):
        return None
    rank = len(one.shapes[0])
    stated: Any = one.node.attributes.get("axes", one.constants.get(one.node.input(1), range(rank)))
    axes = range(2, rank) if one.node.op_type == "GlobalAveragePool" else as_ints(stated)
    axes = tuple(sorted(axis % rank for axis in axes))
    share = np.float32(1 / np.prod([one.shapes[0][axis] for axis in axes]))

    def rule(values: Sequence[Stack]) -> tuple[Stack, Pull]:
        x = values[0]
        result = x.sum(axis=axes).reshape(*one.result, x.shape[-1]) * share

        def pull(slopes: Stack) -> list[Stack]:
            kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
            return [np.broadcast_to(slopes.reshape(kept) * share, x.shape)]

        return result, pull

    return rule


def _elements(one: _One) -> Rule | None:
    """A function of each element, or of elements in the same place of two tensors."""
    if one.node.op_type not in ELEMENTWISE | JOINS | CLAMPS:
        return None
    run = one.on_stacks()

    def rule(values: Sequence[Stack]) -> tuple[Stack, Pull]:
        result = np.asarray(run(values), np.float32)

        def pull(slopes: Stack) -> list[Stack]:
            return [_shrunk(slopes * _slope(one.node, run, values, k, result), value.shape)
                    for k, value in enumerate(values)]

        return result, pull

    return rule


def _slope(node: Node, run: Callable[[Sequence[Stack]], Stack], values: Sequence[Stack], k: int, y: Stack) -> Array:
    """The slope of y by operand k."""
    if node.op_type == "Relu":
        return np.asarray(y > 0)
    if node.op_type == "Clip" and len(values) == 1:
        return np.asarray(y == values[0])
    if node.op_type in ("Add", "Sum"):
        return np.ones((), np.float32)
    if node.op_type == "Mul" and len(values) == 2:
        return values[1 - k]
    x = values[k]
    step = np.asarray(_STEP * np.maximum(1, np.abs(x)), np.float32)
    above, below = (np.asarray(run([*values[:k], end, *values[k + 1 :]])) for end in (x + step, x - step))
    slope = (above - below) / (2 * step)
    finite: Stack = np.where(np.isfinite(slope), slope, 0).astype(np.float32)
    return finite


def _shrunk(slopes: Stack, shape: tuple[int, ...]) -> Stack:
    """Sums over the axes along which an operand of `shape` was repeated."""
    slopes = slopes.sum(axis=tuple(range(slopes.ndim - len(shape))))
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and slopes.shape[axis] > 1)
    return np.asarray(slopes.sum(axis=axes, keepdims=True))


def _matmul(one: _One) -> Rule | None:
    """A product of two computed matrices."""
    if one.node.op_type != "MatMul" or len(one.shapes) != 2 or min(map(len, one.shapes)) < 2:
        return None
    rank = max(map(len, one.shapes))

    def ahead(value: Stack) -> Stack:
        whole = value.reshape(*[1] * (rank + 1 - value.ndim), *value.shape)
        return np.moveaxis(whole, -1, 0)

    def rule(values: Sequence[Stack]) -> tuple[Stack, Pull]:
        a, b = map(ahead, values)

        def pull(slopes: Stack) -> list[Stack]:
            own = np.moveaxis(slopes, -1, 0)
            both = own @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ own
            return [_shrunk(np.moveaxis(part, 0, -1), value.shape) for part, value in zip(both, values, strict=True)]

        return np.moveaxis(a @ b, 0, -1), pull

    return rule


def _softmax(one: _One) -> Rule | None:
    if one.node.op_type != "Softmax":
        return None
    axis = attribute(one.node, "axis", -1) % len(one.shapes[0])

    def rule(values: Sequence[Stack]) -> tuple[Stack, Pull]:
        powers = np.exp(values[0] - values[0].max(axis=axis, keepdims=True))
        y = powers / powers.sum(axis=axis, keepdims=True)
        return y, lambda slopes: [y * (slopes - (slopes * y).sum(axis=axis, keepdims=True))]

    return rule


def _normalization(one: _One) -> Rule | None:
    """LayerNormalization with a constant scale and bias."""
    if one.node.op_type != "LayerNormalization" or len(one.operands) != 1:
        return None
    rank = len(one.shapes[0])
    axes = tuple(range(attribute(one.node, "axis", -1) % rank, rank))
    scale = np.asarray(one.constants[one.node.inputs[1]], np.float32)[..., None]
    bias = np.asarray(one.constants.get(one.node.input(2), np.zeros(())), np.float32)[..., None]
    epsilon = attribute(one.node, "epsilon", 1e-5)

    def rule(values: Sequence[Stack]) -> tuple[Stack, Pull]:
        centred = values[0] - values[0].mean(axis=axes, keepdims=True)
        inverse = 1 / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + np.float32(epsilon))
        normal = centred * inverse

        def pull(slopes: Stack) -> list[Stack]:
            own = slopes * scale
            along = (own * normal).mean(axis=axes, keepdims=True)
            return [inverse * (own - own.mean(axis=axes, keepdims=True) - normal * along)]

        return normal * scale + bias, pull

    return rule


#: Each makes a rule, or None where the node is not of its kind.
_RULES: tuple[Callable[[_One], Rule | None], ...] = (
    _layer, _pool, _mean, _matmul, _softmax, _normalization, _move, _elements,
)


@dataclass(frozen=True)
class Used:
    """A step that was taken: `kept` says which results the integers of its form reach, None where it has none."""

    step: Step
    pull: Pull
    kept: npt.NDArray[np.bool_] | None


def ahead(
    steps: Sequence[Step],
    values: dict[str, Stack],
    forms: Mapping[str, ActivationForm],
    raw: dict[str, Stack] | None = None,
) -> list[Used]:
    """Take `steps` in order; their results come into `values`, those of `forms` as the reals of their integers.

    `raw` receives these as they were before.
    """
    used = []
    for step in steps:
        result, pull = step.rule([values[name] for name in step.operands])
        form, kept = forms.get(step.output), None
        if form is not None:
            if raw is not None:
                raw[step.output] = result
            result, kept = rounded(result, form)
        values[step.output] = result
        used.append(Used(step, pull, kept))
    return used


def rounded(values: Stack, form: ActivationForm) -> tuple[Stack, npt.NDArray[np.bool_]]:
    """The reals of the integers of `values`, and which of them are inside of the range."""
    if form.format.bipolar:
        return np.where(values >= 0, form.scale, -form.scale), np.abs(values) <= form.scale
    zero = np.float32(form.zero_point)
    steps = np.rint(values / form.scale) + zero
    inside = (steps >= form.low) & (steps <= form.high)
    return (np.clip(steps, np.float32(form.low), np.float32(form.high)) - zero) * form.scale, inside


def back(used: Sequence[Used], slopes: dict[str, Stack]) -> dict[str, Stack]:
    """The slopes of a number by everything that `used` steps read, from those by some of their results.

    Rounding counts as if it did nothing inside of the range, and beyond it as if nothing came through.
    """
    for taken in reversed(used):
        own = slopes.get(taken.step.output)
        if own is None:
            continue
        if taken.kept is not None:
            own = own * taken.kept
        for name, part in zip(taken.step.operands, taken.pull(own), strict=True):
            if part is not None:
                slopes[name] = slopes[name] + part if name in slopes else part
    return slopes
