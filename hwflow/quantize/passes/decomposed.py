"""The pass that finds normalizations and softmaxes that exporters wrote as many small nodes.

There are many ways to write them (torch, TensorFlow, jax), and more with every version.  So this does not compare
nodes: it looks for a tensor x and a tensor y that depends on x alone, with a root or an exponential between them, and
evaluates that part of the graph on random numbers.  Where the results are those of

    gamma * (x - mean) / Sqrt(variance + epsilon) + beta    over some axes, for constant gamma and beta
    gamma * x / Sqrt(mean of squares + epsilon) + beta
    Softmax(x)                                              along an axis

y is made by LayerNormalization, RMSNormalization or Softmax.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwflow.onnx import evaluate, infer, simplify
from hwflow.onnx.model import Graph, Model, Node, TensorType, Value
from hwflow.onnx.operators import REDUCTIONS, named
from hwflow.onnx.traits import Trait
from hwflow.quantize.graphs import (
    Additions,
    constants,
    dynamic_inputs,
    label_of,
    on_host,
    producers,
    shape_of,
)
from hwflow.quantize.passes.normalise import in_opset

Floats = npt.NDArray[np.float64]

#: What such a part is made of.
_PARTS = named(Trait.LAYOUT | Trait.IN_NORMALIZATION)
_CORES = named(Trait.NORMALIZATION_CORE)
#: Nodes of a part, at most; random inputs that are tried; elements beyond which a part is not looked at.
_LARGEST, _DRAWS, _ELEMENTS = 40, 5, 1 << 20
#: What the results may be apart, of their largest.
_ERROR = 1e-4
#: The operator set that has the operators, and their names.
_SINCE = {"LayerNormalization": 17, "RMSNormalization": 23, "Softmax": 13}


@dataclass(frozen=True)
class _Part:
    """`nodes` compute `result` of `source` alone; both have `shape`."""

    source: str
    result: str
    shape: tuple[int, ...]
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class _Match:
    """A part, and what it is: `op` over `axes`, times `gamma` and plus `beta`, which broadcast to its shape."""

    part: _Part
    op: str
    axes: tuple[int, ...]
    gamma: Floats
    beta: Floats
    epsilon: float = 0.0


def decomposed_to_operators(model: Model) -> Model:
    """Parts of the graph that are a normalization or a softmax as these operators; what the host computes stays."""
    graph = model.graph
    if not any(node.op_type in _CORES and not node.domain for node in graph.nodes):
        return model
    of_host = on_host(graph)
    makers, matches = producers(graph), dict[str, _Match]()
    for node in graph.nodes:
        if node.op_type in _CORES and dynamic_inputs(node, graph) and node.outputs[0] not in of_host:
            match = _recognized(node, model, makers)
            if match is not None and match.part.result not in of_host:
                matches.setdefault(match.part.result, match)
    if not matches:
        return model
    needed = max(_SINCE[match.op] for match in matches.values())
    if model.opsets.get("", 0) < needed:
        model = in_opset(model, needed)
    added = Additions(model.graph)
    for node in model.graph.nodes:
        if node.outputs[0] in matches:
            _write(matches[node.outputs[0]], node, added)
        else:
            added.nodes.append(node)
    return simplify(infer(added.into(model)))


def _recognized(core: Node, model: Model, makers: dict[str, Node]) -> _Match | None:
    """The largest part around `core` that is one of the operators."""
    for source in _sources(core, model.graph, makers):
        for part in _parts(source, core, model.graph):
            match = _meaning(part, core, model)
            if match is not None:
                return match
    return None


def _sources(core: Node, graph: Graph, makers: dict[str, Node]) -> list[str]:
    """The tensors that alone decide about the result of `core`, the farthest first."""
    before, todo, order = set[str](), [core.outputs[0]], list[str]()
    while todo and len(before) < _LARGEST:
        name = todo.pop(0)
        node = makers.get(name)
        if name in before:
            continue
        before.add(name)
        order.append(name)
        if node is not None and node.op_type in _PARTS and not node.domain:
            todo += dynamic_inputs(node, graph)
    return [name for name in reversed(order[1:]) if _decides(name, core, graph, makers)]


def _decides(source: str, core: Node, graph: Graph, makers: dict[str, Node]) -> bool:
    """Whether every way back from `core` ends at `source`."""
    seen, todo = set[str](), [core.outputs[0]]
    while todo:
        name = todo.pop()
        if name == source or name in seen:
            continue
        seen.add(name)
        node = makers.get(name)
        if node is None or node.op_type not in _PARTS or node.domain or len(seen) > _LARGEST:
            return False
        todo += dynamic_inputs(node, graph)
    return True


def _parts(source: str, core: Node, graph: Graph) -> Iterator[_Part]:
    """The parts from `source` over `core`, the longest first."""
    shape = shape_of(graph, source)
    if shape is None or len(shape) < 2 or not 1 < int(np.prod(shape)) <= _ELEMENTS:
        return
    known, behind, nodes, ends = {source}, set[str](), list[Node](), list[tuple[str, int]]()
    for node in graph.nodes:
        dynamic = dynamic_inputs(node, graph)
        if node.op_type not in _PARTS or node.domain or not dynamic or not known.issuperset(dynamic):
            continue
        known.update(node.outputs)
        nodes.append(node)
        if node is core or behind.intersection(dynamic):
            behind.update(node.outputs)
            if shape_of(graph, node.outputs[0]) == shape:
                ends.append((node.outputs[0], len(nodes)))
        if len(nodes) > _LARGEST:
            break
    for name, count in reversed(ends):
        if any(node.op_type in REDUCTIONS for node in nodes[:count]):
            yield _Part(source, name, shape, tuple(nodes[:count]))


def _meaning(part: _Part, core: Node, model: Model) -> _Match | None:
    rng = np.random.default_rng(0)
    xs = (2 * rng.standard_normal((_DRAWS, *part.shape)) + 0.5).astype(np.float32)
    ys = _evaluated(part, model, xs)
    if ys is None:
        return None
    epsilons = _epsilons(part, core, model.graph)
    reals = xs.astype(np.float64)
    for axes in _axes(len(part.shape)):
        if np.prod([part.shape[a] for a in axes]) < 2:
            continue
        along = tuple(a + 1 for a in axes)
        if core.op_type == "Exp":
            if len(axes) == 1 and _near(ys, _softmax(reals, along[0])):
                return _Match(part, "Softmax", axes, np.ones(()), np.zeros(()))
            continue
        for op, centred in (("LayerNormalization", True), ("RMSNormalization", False)):
            fitted = _fitted(_normalized(reals, along, centred, epsilons), ys)
            if fitted is not None:
                return _Match(part, op, axes, *fitted, epsilons)
    return None


def _evaluated(part: _Part, model: Model, xs: npt.NDArray[np.float32]) -> Floats | None:
    """The results for each draw; None where some are not finite."""
    read = {name for node in part.nodes for name in node.inputs}
    initializers = {name: array for name, array in model.graph.initializers.items() if name in read}
    start = Value(part.source, TensorType(np.dtype(np.float32), part.shape))
    graph = Graph("part", part.nodes, (start,), (Value(part.result, None),), initializers)
    single = replace(model, graph=graph, training=(), functions=())
    with np.errstate(all="ignore"):
        results = [np.asarray(evaluate(single, {part.source: x})[part.result], np.float64) for x in xs]
    ys = np.stack(results)
    return ys if np.isfinite(ys).all() and ys.shape == xs.shape else None


def _epsilons(part: _Part, core: Node, graph: Graph) -> float:
    """The number that is added under the root: the one small constant that some sum of the part has; 0 where there is
    none.
    """
    small = [float(value.reshape(())) for node in part.nodes if node.op_type in ("Add", "Max")
             for value in constants(node, graph) if value.size == 1 and 0 < float(value.reshape(())) < 0.1]  # fmt: skip
    return small[0] if small else 0.0


def _axes(rank: int) -> Iterator[tuple[int, ...]]:
    """Single axes and all from one on, but the batch."""
    for axis in reversed(range(1, rank)):
        yield (axis,)
    for first in range(1, rank - 1):
        yield tuple(range(first, rank))


def _normalized(x: Floats, axes: tuple[int, ...], centred: bool, epsilon: float) -> Floats:
    if centred:
        x = x - x.mean(axis=axes, keepdims=True)
    return np.asarray(x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + epsilon))


def _softmax(x: Floats, axis: int) -> Floats:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _near(results: Floats, expected: Floats) -> bool:
    return bool(np.abs(results - expected).max() <= _ERROR * max(np.abs(expected).max(), 1e-30))


def _fitted(z: Floats, y: Floats) -> tuple[Floats, Floats] | None:
    """gamma and beta, one entry for each element, with y = gamma * z + beta in all draws; None where there are none."""
    middle, mean = z.mean(axis=0), y.mean(axis=0)
    spread = np.square(z - middle).sum(axis=0)
    gamma = ((z - middle) * (y - mean)).sum(axis=0) / np.where(spread > 0, spread, 1.0)
    beta = mean - gamma * middle
    if not np.abs(gamma).max() > 0 or not _near(y, gamma * z + beta):
        return None
    beta = np.zeros_like(beta) if np.abs(beta).max() <= _ERROR * np.abs(gamma).max() else beta
    return np.asarray(gamma), np.asarray(beta)


def _write(match: _Match, node: Node, added: Additions) -> None:
    """The operator along the last axes, Transposes where it is others, and what its gamma and beta cannot be."""
    part, rank, base = match.part, len(match.part.shape), label_of(node)
    order = (*(a for a in range(rank) if a not in match.axes), *match.axes)
    back = tuple(int(k) for k in np.argsort(order))
    moved = order != tuple(range(rank))
    first = -len(match.axes)
    gamma, beta = (_along(values, match.axes) for values in (match.gamma, match.beta))
    source = added.emit("Transpose", part.source, wish=f"{base}.turned", perm=order) if moved else part.source
    after = gamma is None or beta is None
    result = added.new(f"{base}.normal") if moved or after else part.result
    if match.op == "Softmax":
        added.emit("Softmax", source, output=result, name=base, axis=-1)
    else:
        sizes = tuple(part.shape[a] for a in match.axes)
        scale = added.float32(f"{base}.gamma", np.ones(sizes) if after or gamma is None else gamma)
        shift = added.float32(f"{base}.beta", np.zeros(sizes) if after or beta is None else beta)
        inputs = (source, scale) if match.op == "RMSNormalization" else (source, scale, shift)
        after = after or (match.op == "RMSNormalization" and bool(np.any(match.beta)))
        added.emit(match.op, *inputs, output=result, name=base, axis=first, epsilon=match.epsilon)
    if moved:
        result = added.emit("Transpose", result, wish=f"{base}.back", output="" if after else part.result,
                            name=f"{base}.back", perm=back)
    if after and match.op != "Softmax":
        _write_affine(match, result, base, added)


def _along(values: Floats, axes: tuple[int, ...]) -> Floats | None:
    """`values` as constants of these axes alone; None where they differ along others."""
    if values.ndim == 0:
        return values
    others = tuple(a for a in range(values.ndim) if a not in axes)
    mean = values.mean(axis=others, keepdims=True)
    scale = max(float(np.abs(values).max()), 1e-30)
    return np.squeeze(mean, axis=others) if np.abs(values - mean).max() <= _ERROR * scale else None


def _write_affine(match: _Match, source: str, base: str, added: Additions) -> None:
    """gamma and beta of their own nodes."""
    gamma, beta = (added.float32(f"{base}.{name}", _plain(values))
                   for name, values in (("factors", match.gamma), ("summands", match.beta)))  # fmt: skip
    product = added.emit("Mul", source, gamma, wish=f"{base}.scaled")
    added.emit("Add", product, beta, output=match.part.result, name=f"{base}.shifted")


def _plain(values: Floats) -> Floats:
    """`values` with axes of one entry where they do not differ."""
    scale = max(float(np.abs(values).max()), 1e-30)
    for axis in range(values.ndim):
        mean = values.mean(axis=axis, keepdims=True)
        if np.abs(values - mean).max() <= _ERROR * scale:
            values = mean
    return values
