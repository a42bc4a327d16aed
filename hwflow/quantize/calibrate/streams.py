"""Calibration rows on their way through a float model and through what becomes of it, node by node, side by side.

A layer is tuned on what really reaches it: the results of the layers before it, which are integers already.  So both
versions of every tensor are kept for all rows, from the node that makes it to the last one that reads it.

Moments are what the rows say about a layer's weights, in a few sums.  Every Conv and Gemm is y[g, o, n] = sum over k
of w[g, o, k] * x[g, k, n]: g groups of o outputs, k elements of a window, n positions in all rows.  The squared error
of other weights is a quadratic form in them, so that of all the data only mean products have to be kept.  Very wide
layers are cut into blocks of k whose errors count as independent; so arrays have the axes [g, b, o, k], with one block
(b = 1) in nearly all layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx import prepare
from hwflow.onnx.model import Array, Graph, Model, Node, Value
from hwflow.onnx.rewrite.renaming import reads
from hwflow.onnx.run.sequences import state_pairs
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.graphs import ancestors, attribute, is_layer, shape_of

#: One array per calibration row.
Rows: TypeAlias = list[Array]

#: Both versions of all tensors that are needed at one time stay below this many bytes, or fewer rows are taken.
_MEMORY = 1 << 28


def quantized(values: Array, form: ActivationForm) -> Array:
    """Float `values` that are made integers of `form` and floats again; same shape and type."""
    return form.reals(form.integers(np.asarray(values, np.float32))).astype(values.dtype)


def runner(
    node: Node, opsets: Mapping[str, int], constants: Mapping[str, Array]
) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """`node` alone, made ready once: from all that it reads, but for `constants`, to its outputs, by name."""
    names = dict.fromkeys(reads(node))
    held = {name: constants[name] for name in names if name in constants}
    feeds = tuple(Value(name, None) for name in names if name not in held)
    outputs = tuple(Value(name, None) for name in node.outputs if name)
    program = prepare(Model(Graph("one node", (node,), feeds, outputs, held), 10, opsets))

    def run(values: Mapping[str, Array]) -> dict[str, Array]:
        results = program.run({value.name: values[value.name] for value in feeds})
        return {name: np.asarray(array) for name, array in results.items()}

    return run


@dataclass
class Streams:
    """`real` holds tensors of the float model, `integer` those of the model whose layers are integers as far as known.

    Both map names to rows, and to the same rows where no integer has been met yet.  `nodes` are all that is computed.
    """

    model: Model
    activations: Mapping[str, ActivationForm]
    nodes: Sequence[Node]
    real: dict[str, Rows] = field(default_factory=dict)
    integer: dict[str, Rows] = field(default_factory=dict)
    #: States of recurrent nodes to their next values, where the rows are one sequence.
    states: Mapping[str, str] = field(default_factory=dict)
    #: Tensor to the last of `nodes` that reads it.
    last: dict[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        self.last = {name: node for node in self.nodes for name in reads(node)}

    @staticmethod
    def start(
        model: Model, activations: Mapping[str, ActivationForm], rows: Mapping[str, Array], layers: Iterable[Node]
    ) -> Streams:
        """The streams of as many `rows` as fit into memory, spread evenly, at the inputs of `model`.

        `layers` are the nodes of interest: what none of them depends on is never computed.
        """
        nodes = ancestors(model.graph, [name for node in layers for name in node.outputs])
        if not nodes:
            return Streams(model, activations, nodes)
        count = min(len(rows[value.name]) for value in model.graph.inputs)
        probe = Streams(model, activations, nodes)
        probe._feed(rows, [0])
        fitting = max(1, _MEMORY // max(1, probe._peak()))
        streams = Streams(model, activations, nodes, states=state_pairs(model) if count <= fitting else {})
        streams._feed(rows, np.linspace(0, count - 1, min(count, fitting)).round().astype(int).tolist())
        return streams

    def _feed(self, rows: Mapping[str, Array], chosen: Sequence[int]) -> None:
        for value in self.model.graph.inputs:
            if value.name not in self.last:
                continue
            arrays = [rows[value.name][k] for k in chosen]
            self._put(value.name, arrays, arrays)

    def _peak(self) -> int:
        """Bytes of all tensors of the rows that are there, at the node where most are held, both versions."""
        peak = 0
        for node in self.nodes:
            self.advance(node)
            peak = max(peak, sum(array.nbytes for rows in self.real.values() for array in rows))
        return 2 * peak

    def _put(self, name: str, real: Rows, integer: Rows) -> None:
        form = self.activations.get(name)
        self.real[name] = real
        self.integer[name] = integer if form is None else [quantized(array, form) for array in integer]

    def results(self, node: Node) -> dict[str, Rows]:
        """The results of `node` from the float model's tensors, by name."""
        return self._run(node, self.model.graph.initializers, self.real)

    def advance(
        self,
        node: Node,
        real: Mapping[str, Rows] | None = None,
        changed: Node | None = None,
        constants: Mapping[str, Array] | None = None,
    ) -> None:
        """Go past `node`: its results come into both streams, and what no node behind it reads goes away.

        `real` are its `results` where they are known already.  In the integer stream `changed`, which reads
        `constants`, stands in its place.
        """
        initializers = self.model.graph.initializers
        real = self.results(node) if real is None else real
        same = changed is None and all(self.real[n] is self.integer[n] for n in reads(node) if n not in initializers)
        integer, states = (real, {}) if same else self.played(changed or node, constants or {})
        self.integer |= states
        for name, rows in real.items():
            self._put(name, rows, integer[name])
        self._drop(node)

    def played(self, node: Node, constants: Mapping[str, Array]) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """The results of `node`, which reads `constants` besides those of the model, from the integer stream.

        Where the rows are one sequence, a row begins with the states that the one before left: they are given, too.
        """
        constants = {**self.model.graph.initializers, **constants}
        pairs = {name: made for name, made in self.states.items() if name in node.inputs and made in node.outputs}
        if not pairs:
            return self._run(node, constants, self.integer), {}
        run, results = runner(node, self.model.opsets, constants), list[dict[str, Array]]()
        names = [name for name in dict.fromkeys(reads(node)) if name not in constants]
        states = {name: [self.integer[name][0]] for name in pairs}
        for k in range(len(self.integer[names[0]])):
            results.append(run({name: states[name][k] if name in pairs else self.integer[name][k] for name in names}))
            for name, made in pairs.items():
                states[name].append(results[-1][made])
        return ({name: [row[name] for row in results] for name in node.outputs if name},
                {name: rows[:-1] for name, rows in states.items()})  # fmt: skip

    def _run(self, node: Node, constants: Mapping[str, Array], values: Mapping[str, Rows]) -> dict[str, Rows]:
        run = runner(node, self.model.opsets, constants)
        names = [name for name in dict.fromkeys(reads(node)) if name not in constants]
        count = len(values[names[0]]) if names else len(next(iter(values.values()), [None]))
        rows = [run({name: values[name][k] for name in names}) for k in range(count)]
        return {name: [row[name] for row in rows] for name in node.outputs if name}

    def _drop(self, node: Node) -> None:
        for name in [name for name in self.real if self.last.get(name, node) is node]:
            del self.real[name], self.integer[name]


Floats: TypeAlias = npt.NDArray[np.float64]

#: Positions read of all rows together: more make the sums hardly better, and take time.
_POSITIONS = 1 << 15

#: The widest block: its sums take 8 MiB, and the time of a step grows with its square.
_BLOCK = 1024

#: Multiplications of large matrices in the time of one elsewhere.
_FASTER = 16


@dataclass(frozen=True)
class Moments:
    """Means over all positions: of the real outputs `y` [g, o], and of the inputs `x` [g, k] of integer weights.

    `xx` [g, b, k, k] is the mean of x * x, and `yx` [g, b, o, k] of y * x, both less the product of the means; None
    where only means were asked for.  `yx` is None also where there are several blocks.
    """

    y: Floats
    x: Floats
    xx: Floats | None
    yx: Floats | None

    def about(self, bias: Floats) -> Moments:
        """The same with mean products of x * x and of (y - bias) * x as they are, for a `bias` [g, o] that stays."""
        assert self.xx is not None
        x = _cut(self.x[:, None, :])
        yx = None if self.yx is None else self.yx + (self.y - bias)[:, None, :, None] * x
        return replace(self, xx=self.xx + x.swapaxes(2, 3) @ x, yx=yx)


def _groups(node: Node) -> int:
    return attribute(node, "group", 1) if node.op_type == "Conv" else 1


def blocks(weights: Array, node: Node) -> Floats:
    """Weights [cout, ...] as [g, b, o, k]; the last block ends with zeros where it is not full."""
    groups = _groups(node)
    return _cut(np.asarray(weights, np.float64).reshape(groups, len(weights) // groups, -1))


def _cut(rows: Floats) -> Floats:
    """[g, o, k] to [g, b, o, k of a block]."""
    groups, outputs, width = rows.shape
    count = max(1, -(-width // _BLOCK))
    size = -(-width // count)
    padded = np.pad(rows, ((0, 0), (0, 0), (0, count * size - width)))
    return padded.reshape(groups, outputs, count, size).transpose(0, 2, 1, 3)


def unblocked(cut: npt.NDArray[np.generic], shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    """The way back from [g, b, o, k] to weights of `shape` [cout, ...]."""
    groups, _, outputs, _ = cut.shape
    width = int(np.prod(shape)) // (groups * outputs)
    return cut.transpose(0, 2, 1, 3).reshape(groups, outputs, -1)[:, :, :width].reshape(shape)


def measure(
    node: Node, weights: Array, opsets: Mapping[str, int], inputs: Rows, outputs: Rows, products: bool
) -> Moments:
    """Moments of a Conv or Gemm with `weights` [cout, ...]; `products` says whether more than means are wanted.

    `inputs` are rows as its integer weights will see them, `outputs` the rows that its real weights make of real ones.
    """
    groups, cout = _groups(node), len(weights)
    unfold = _windows(node, weights, opsets)
    generator = np.random.default_rng(0)
    positions = sum(y.size // cout for y in outputs)
    share = _POSITIONS / max(1, positions)
    count, xs, ys, xx, yx = 0, np.zeros(()), np.zeros(()), np.zeros(()), np.zeros(())
    for row, result in zip(inputs, outputs, strict=True):
        x = unfold(row)
        y = np.moveaxis(result, -1 if node.op_type == "Gemm" else 1, 0).reshape(groups, cout // groups, -1)
        if share < 1:
            some = max(1, int(share * y.shape[2]))
            chosen = np.sort(generator.choice(y.shape[2], some, replace=False))
            x, y = x[:, :, chosen], y[:, :, chosen]
        wide: tuple[Floats, Floats] = x.astype(np.float64), y.astype(np.float64)
        count, xs, ys = count + y.shape[2], xs + wide[0].sum(2), ys + wide[1].sum(2)
        if products:
            cut = _cut(wide[0].transpose(0, 2, 1)).transpose(0, 1, 3, 2)  # [g, b, k, n]
            xx = xx + cut @ cut.swapaxes(2, 3)
            yx = yx + wide[1][:, None] @ cut.swapaxes(2, 3) if cut.shape[1] == 1 else yx
    xs, ys = xs / count, ys / count
    if not products:
        return Moments(ys, xs, None, None)
    cut = _cut(xs[:, None, :])
    xx = xx / count - cut.swapaxes(2, 3) @ cut
    return Moments(ys, xs, xx, yx / count - ys[:, None, :, None] * cut if yx.ndim else None)


def _windows(node: Node, weights: Array, opsets: Mapping[str, int]) -> Callable[[Array], Array]:
    """From an input row to its windows [g, k, n]; of a Conv by a convolution that copies one element per channel."""
    if node.op_type == "Gemm":
        return lambda x: x.reshape(1, -1, weights.shape[1]).swapaxes(1, 2)
    groups, kernel = _groups(node), weights.shape[2:]
    channels, taps = weights.shape[1] * groups, int(np.prod(kernel))
    copies = np.tile(np.eye(taps, dtype=np.float32).reshape(taps, 1, *kernel), (channels, *[1] * (weights.ndim - 1)))
    source, name = node.inputs[:2]
    copying = Node("Conv", (source, name), ("windows",), {**node.attributes, "group": channels}, node.name)
    run = runner(copying, opsets, {name: copies})

    def windows(x: Array) -> Array:
        elements = run({source: x.astype(np.float32)})["windows"]
        return np.moveaxis(elements, 1, 0).reshape(groups, channels // groups * taps, -1)

    return windows


def operations_of_moments(model: Model, rows: int) -> int:
    """About what `measure` of mean products costs for all layers of `model`, in the time that other operations take.

    Products of large matrices are faster than those by a factor of a dozen or so.
    """
    graph, total = model.graph, 0
    for node in graph.nodes:
        if not is_layer(node, graph.initializers):
            continue
        weights, shape = graph.initializers[node.inputs[1]], shape_of(graph, node.outputs[0]) or (1,)
        width = min(_BLOCK, weights.size // len(weights))
        positions = min(_POSITIONS, rows * math.prod(shape) // len(weights))
        total += _groups(node) * (positions * width**2 + width**3)
    return total // _FASTER
