"""The pass that finds softmax and normalizations which exporters wrote out as reductions, roots and quotients.

There are many ways to write them (the variance as the mean of squares of differences, or as the mean of squares less
the square of the mean; the root in a quotient or its reciprocal in a product; scale before or after the mean is
subtracted).  So a part of the graph is not recognized by its form, but by what it computes: it is evaluated on random
tensors, and if the results are those of the operator, times a scale plus a bias, it is that operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Attribute, Graph, Model, Node
from hwflow.quantize.graphs import (
    Additions,
    apply,
    as_ints,
    attribute,
    consumers,
    dynamic_inputs,
    label_of,
    producers,
    shape_of,
    with_graph,
)
from hwflow.quantize.passes.opset import in_opset

__all__ = ["row_functions"]

Floats = npt.NDArray[np.float64]

_REDUCTIONS = frozenset({"ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum", "ReduceSumSquare"})
#: What such a part is made of.
_INSIDE = _REDUCTIONS | frozenset(
    {
        "Abs", "Add", "Cast", "Clip", "Div", "Exp", "Expand", "Identity", "Max", "Mul", "Neg", "Pow", "Reciprocal",
        "Reshape", "Sqrt", "Squeeze", "Sub", "Unsqueeze",
    }
)  # fmt: skip
#: No such part is without one of these.
_STARTS = frozenset({"Exp", "Pow", "ReduceL2", "Sqrt"})
#: Nodes of such a part at most.
_LARGEST = 40
#: Random tensors; the last is so small that epsilon counts.
_PROBES = 6
#: Results that differ by no more than this part of the largest are the same, computed in float32.
_SAME = 2e-5
#: The first operator sets that have the operators.
_VERSIONS = {"LayerNormalization": 17, "RMSNormalization": 23, "Softmax": 13}


def row_functions(model: Model) -> Model:
    """Parts of the graph that compute LayerNormalization, RMSNormalization or Softmax become these operators.

    A division by the length of rows is an RMSNormalization too.  Of `model` shapes are known; parts of unknown shapes
    stay as they are.
    """
    found = list(_found(model))
    if not found:
        return model
    opset = max(_VERSIONS[each.operator] for each in found)
    if model.opsets.get("", opset) < opset:
        model = simplify(infer(in_opset(model, opset)))
        found = list(_found(model))
    added, gone = Additions(model.graph), {name for each in found for name in each.inside}
    at = {each.y: each for each in found}
    nodes: list[Node] = []
    for node in model.graph.nodes:
        if node.outputs[0] in at:
            nodes += _written(at[node.outputs[0]], node, added)
        elif node.outputs[0] not in gone:
            nodes.append(node)
    return simplify(infer(with_graph(model, nodes, added.initializers)))


@dataclass(frozen=True)
class _Part:
    """y is `operator` of x along `axes`, times `scale` plus `bias`, which broadcast; `inside` are all results in it."""

    x: str
    y: str
    inside: frozenset[str]
    operator: str
    axes: tuple[int, ...]
    epsilon: float
    scale: Floats
    bias: Floats

    @property
    def rank(self) -> int:
        return self.scale.ndim


def _found(model: Model) -> Iterator[_Part]:
    """All such parts; none is inside of another."""
    graph = model.graph
    made, read = producers(graph), consumers(graph)
    taken: set[str] = set()
    for node in graph.nodes:
        if node.op_type in _STARTS and not node.domain and node.outputs[0] not in taken:
            part = next((part for nodes in _parts(graph, node, made, read) if (part := _meant(model, nodes))), None)
            if part is not None and not taken & part.inside:
                taken |= part.inside
                yield part


def _parts(
    graph: Graph, start: Node, made: Mapping[str, Node], read: Mapping[str, list[Node]]
) -> Iterator[tuple[str, list[Node]]]:
    """Parts with `start` in them that read one tensor and give one of its shape: that tensor, and their nodes in order.
    """
    outputs = {value.name for value in graph.outputs}
    for x in reversed(list(_sources(graph, start, made))):  # a part may be a smaller operator inside of the whole
        ahead = _ahead(graph, x, read)
        names = {node.outputs[0] for node in ahead}
        if start.outputs[0] not in names:
            continue
        for last in reversed(ahead):
            y = last.outputs[0]
            inside = _between(y, names, made)
            own = [node for node in ahead if node.outputs[0] in inside]
            closed = all(name == y or (name not in outputs and all(n.outputs[0] in inside for n in read.get(name, [])))
                         for name in inside)
            if start.outputs[0] in inside and closed and shape_of(graph, y) == shape_of(graph, x):
                yield x, own


def _sources(graph: Graph, start: Node, made: Mapping[str, Node]) -> Iterator[str]:
    """Computed tensors that `start` depends on through nodes of such a part, the nearest first."""
    waiting, seen = [start], set[str]()
    while waiting and len(seen) < _LARGEST:
        node = waiting.pop(0)
        for name in dynamic_inputs(node, graph):
            if name not in seen:
                seen.add(name)
                kind = graph.tensor_type(name)
                if kind is not None and kind.dtype == np.float32 and shape_of(graph, name):
                    yield name
                if name in made and made[name].op_type in _INSIDE:
                    waiting.append(made[name])


def _ahead(graph: Graph, x: str, read: Mapping[str, list[Node]]) -> list[Node]:
    """The nodes that depend on `x` and constants alone, in the order of the graph."""
    names, found = {x}, list[Node]()
    readers = {id(node) for node in read.get(x, [])}
    for node in graph.nodes:
        if len(found) < _LARGEST and id(node) in readers and not node.domain and node.op_type in _INSIDE and all(
                name in names for name in dynamic_inputs(node, graph)):
            found.append(node)
            names.add(node.outputs[0])
            readers |= {id(other) for other in read.get(node.outputs[0], [])}
    return found


def _between(y: str, names: set[str], made: Mapping[str, Node]) -> frozenset[str]:
    """The results among `names` that `y` depends on, and `y`."""
    inside, waiting = set[str](), [y]
    while waiting:
        name = waiting.pop()
        if name in names and name not in inside:
            inside.add(name)
            waiting += [each for each in made[name].inputs if each]
    return frozenset(inside)


def _meant(model: Model, part: tuple[str, list[Node]]) -> _Part | None:
    """The operator that a part computes, None where it is none."""
    (x, nodes), graph = part, model.graph
    shape = shape_of(graph, x) or ()
    axes = {_axes(node, graph) for node in nodes if node.op_type in _REDUCTIONS}
    if len(axes) != 1 or None in axes:
        return None
    (along,) = axes
    assert along is not None
    epsilon = _epsilon(nodes, graph)
    probes = _probes(shape, epsilon)
    try:
        seen = np.stack([_computed(model, x, nodes, probe) for probe in probes])
    except (ValueError, ArithmeticError):
        return None
    y, inside = nodes[-1].outputs[0], frozenset(node.outputs[0] for node in nodes)
    for operator, normal in _operators(probes.astype(np.float64), tuple(axis + 1 for axis in along), epsilon):
        fit = _affine(normal, seen)
        if fit is None or (operator == "Softmax" and (len(along) > 1 or np.any(fit[0] != 1) or np.any(fit[1] != 0))):
            continue
        root = np.sqrt(np.prod([shape[axis] for axis in along]))
        if operator == "length":  # the mean of squares is the sum over their number
            return _Part(x, y, inside, "RMSNormalization", along, epsilon / root**2, fit[0] / root, fit[1])
        return _Part(x, y, inside, operator, along, epsilon, *fit)
    return None


def _axes(node: Node, graph: Graph) -> tuple[int, ...] | None:
    """The axes of a reduction, None where they are computed."""
    given = (*node.inputs, "")[1]
    if given and given not in graph.initializers:
        return None
    rank = len(shape_of(graph, node.inputs[0]) or ())
    axes = graph.initializers[given].tolist() if given else as_ints(attribute(node, "axes", ()))
    if not axes and attribute(node, "noop_with_empty_axes", 0):
        return None
    return tuple(sorted(axis % rank for axis in axes or range(rank)))


def _epsilon(nodes: list[Node], graph: Graph) -> float:
    """The one number that is added in front of a root; 0 where there is none."""
    made = {node.outputs[0]: node for node in nodes}
    for node in nodes:
        source = made.get(node.inputs[0])
        while source is not None and source.op_type in ("Reshape", "Expand", "Identity", "Squeeze", "Unsqueeze"):
            source = made.get(source.inputs[0])
        if node.op_type in ("Sqrt", "Pow") and source is not None and source.op_type == "Add":
            for name in source.inputs:
                if name in graph.initializers and graph.initializers[name].size == 1:
                    return float(graph.initializers[name].reshape(()))
    return 0.0


def _probes(shape: tuple[int, ...], epsilon: float) -> Array:
    """Tensors [probes, *shape], float32."""
    rng = np.random.default_rng(0)
    probes = rng.normal(0.2, 1, (_PROBES, *shape))
    probes[-1] *= max(epsilon, 1e-6) ** 0.5
    return probes.astype(np.float32)


def _computed(model: Model, x: str, nodes: list[Node], probe: Array) -> Array:
    """The result of the last of `nodes`."""
    known: dict[str, Array] = {x: probe}
    for node in nodes:
        given = {name: known[name] if name in known else model.graph.initializers[name] for name in node.inputs if name}
        known[node.outputs[0]] = apply(node, model.opsets, given)
    return known[nodes[-1].outputs[0]]


def _operators(x: Floats, axes: tuple[int, ...], epsilon: float) -> Iterator[tuple[str, Floats]]:
    """What each operator makes of the tensors x, before scale and bias."""
    centred = x - x.mean(axis=axes, keepdims=True)
    yield "LayerNormalization", centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + epsilon)
    yield "RMSNormalization", x / np.sqrt((x**2).mean(axis=axes, keepdims=True) + epsilon)
    yield "length", x / np.sqrt((x**2).sum(axis=axes, keepdims=True) + epsilon)
    powers = np.exp(x - x.max(axis=axes, keepdims=True))
    yield "Softmax", powers / powers.sum(axis=axes, keepdims=True)


def _affine(normal: Floats, seen: Array) -> tuple[Floats, Floats] | None:
    """Scale and bias with which `seen` is scale * normal + bias in all of the probes, None where there are none.

    Axes along which they are the same have one entry.
    """
    if seen.shape != normal.shape or not np.isfinite(seen).all() or not np.isfinite(normal).all():
        return None
    off, y = normal - normal.mean(axis=0), seen.astype(np.float64)
    power = (off * off).sum(axis=0)
    if not power.all():
        return None
    scale = (off * (y - y.mean(axis=0))).sum(axis=0) / power
    bias = y.mean(axis=0) - scale * normal.mean(axis=0)
    largest = float(np.abs(y).max())
    if largest == 0 or np.abs(scale * normal + bias - y).max() > _SAME * largest:
        return None
    near = 10 * _SAME * largest
    return _same_along(scale, near, 1.0), _same_along(bias, near, 0.0)


def _same_along(values: Floats, near: float, usual: float) -> Floats:
    """The mean along each axis in which `values` are the same; `usual` where they are that."""
    for axis in range(values.ndim):
        mean = values.mean(axis=axis, keepdims=True)
        if np.abs(values - mean).max() <= near:
            values = mean
    return np.full_like(values, usual) if np.abs(values - usual).max() <= near else values


def _written(part: _Part, last: Node, added: Additions) -> list[Node]:
    """The operator in place of the nodes of `part`, with Transposes where its axes are not the last ones."""
    label, rank = label_of(last), part.rank
    order = (*(k for k in range(rank) if k not in part.axes), *part.axes)
    turned = order != tuple(range(rank)) and part.operator != "Softmax"
    nodes: list[Node] = []

    def emit(op: str, inputs: tuple[str, ...], wish: str, attributes: dict[str, Attribute], name: str) -> str:
        result = added.new(f"{part.y}.{wish}")
        nodes.append(Node(op, inputs, (result,), attributes, name))
        return result

    x = emit("Transpose", (part.x,), "rows", {"perm": order}, f"{label}.rows") if turned else part.x
    scale, bias = (each.transpose(order) if turned else each for each in (part.scale, part.bias))
    if part.operator == "Softmax":
        x = emit("Softmax", (x,), "softmax", {"axis": part.axes[0]}, label)
    else:
        inputs = [x, added.float32(f"{part.y}.scale", scale)]
        if part.operator == "LayerNormalization":
            inputs.append(added.float32(f"{part.y}.bias", bias))
        axis: dict[str, Attribute] = {"axis": rank - len(part.axes), "epsilon": part.epsilon}
        x = emit(part.operator, tuple(inputs), "normalized", axis, label)
        if part.operator == "RMSNormalization" and bias.any():
            x = emit("Add", (x, added.float32(f"{part.y}.bias", bias)), "biased", {}, f"{label}.bias")
    if turned:
        back = tuple(int(k) for k in np.argsort(order))
        emit("Transpose", (x,), "back", {"perm": back}, f"{label}.back")
    nodes[-1] = replace(nodes[-1], outputs=(part.y,))
    return nodes
