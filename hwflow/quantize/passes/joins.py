"""Passes around nodes that join tensors: those without a layer are written with nodes that have one.

`joins_to_sums_and_products` writes Div, Max and Min of two tensors:

    a / b                     a * Reciprocal(b)
    Where(c(b), 0, a / b)     a * Where(c(b), 0, Reciprocal(b))     as exporters guard a division by 0
    Max(a, b)                 b + Relu(a - b)
    Min(a, b)                 a - Relu(a - b)

`sum_to_add` writes Sum with the operator that everything else knows, `limits_to_joins` a Clip whose limits are computed
with Max and Min.  `clamps_before_concat` moves Relu and Clip from
behind a Concat to the layers in front of it, which do them for nothing.  `constant_parts_to_pads` writes constants that
a Concat joins as pads of the tensors beside them, and a sum where they are not all one number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx import infer
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import CLAMPS, ELEMENTWISE, MATRIX, MAX_POOLS, POOLS
from hwflow.quantize.graphs import (
    Additions,
    Names,
    attribute,
    consumers,
    dynamic_inputs,
    label_of,
    on_host,
    producers,
    shape_of,
    with_graph,
)

#: The operator set from which pads and their value are inputs of Pad.
_PADS_ARE_INPUTS = 11


def limits_to_joins(model: Model) -> Model:
    """Max and Min in place of a Clip with limits that are computed; those on the host stay as they are."""
    graph = model.graph
    of_host, added = on_host(graph), Additions(graph)
    for node in graph.nodes:
        shape = shape_of(graph, node.inputs[0]) if node.inputs else None
        computed = node.op_type == "Clip" and not node.domain and len(dynamic_inputs(node, graph)) > 1
        if not computed or shape is None or of_host.intersection(node.outputs):
            added.nodes.append(node)
            continue
        last, limits = node.inputs[0], [(op, node.input(k)) for k, op in ((1, "Max"), (2, "Min")) if node.input(k)]
        for op, limit in limits:
            if limit not in graph.initializers:
                ones = added.int64(f"{label_of(node)}.ones", [1] * max(len(shape), 1))
                limit = added.emit("Reshape", limit, ones, wish=f"{label_of(node)}.limit")
            output = node.outputs[0] if op == limits[-1][0] else ""
            last = added.emit(op, last, limit, wish=f"{label_of(node)}.{op.lower()}", output=output)
    return infer(added.into(model)) if len(added.nodes) > len(graph.nodes) else model


def joins_to_sums_and_products(model: Model) -> Model:
    """Div, Max and Min of two tensors that are not functions of one; those on the host stay as they are."""
    graph = model.graph
    of_host = on_host(graph)
    roots, added = roots_of(graph), Additions(graph)
    joins = [node for node in graph.nodes if _is_join(node, graph, roots) and node.outputs[0] not in of_host]
    quotients = {node.outputs[0]: node for node in joins if node.op_type == "Div"}
    guards = _guards(graph, roots, quotients)
    for node in graph.nodes:
        if node.outputs[0] in guards:
            _write_guarded(node, guards[node.outputs[0]], added)
        elif any(node is quotient for quotient in guards.values()):
            continue
        elif any(node is join for join in joins):
            _write(node, added)
        else:
            added.nodes.append(node)
    return added.into(model)


def roots_of(graph: Graph) -> dict[str, str]:
    """Result of an element-wise node to the one tensor that it is a function of."""
    roots = dict[str, str]()
    for node in graph.nodes:
        sources = {roots.get(name, name) for name in dynamic_inputs(node, graph)}
        if node.op_type in ELEMENTWISE and not node.domain and len(sources) == 1:
            roots.update(dict.fromkeys(node.outputs, sources.pop()))
    return roots


def _is_join(node: Node, graph: Graph, roots: dict[str, str]) -> bool:
    """Whether this is a Div, Max or Min of two tensors with roots of their own."""
    dynamic = dynamic_inputs(node, graph)
    of_two = node.op_type in ("Div", "Max", "Min") and not node.domain and len(node.inputs) == len(dynamic) == 2
    return of_two and len({roots.get(name, name) for name in dynamic}) == 2


def _guards(graph: Graph, roots: dict[str, str], quotients: dict[str, Node]) -> dict[str, Node]:
    """Result of a Where that gives 0 in place of a quotient, by its divisor, to that quotient, which it alone reads."""
    read, outputs, makers = consumers(graph), {value.name for value in graph.outputs}, producers(graph)
    guards = {}
    for node in graph.nodes:
        if node.op_type != "Where" or node.domain or node.inputs[2] not in quotients:
            continue
        name, zero = node.inputs[2], graph.initializers.get(node.inputs[1])
        divisor = quotients[name].inputs[1]
        alone = len(read[name]) == 1 and name not in outputs and node.inputs[0] in makers
        same = roots.get(node.inputs[0]) == roots.get(divisor, divisor)
        if zero is not None and not zero.any() and alone and same:
            guards[node.outputs[0]] = quotients[name]
    return guards


def _write_guarded(node: Node, quotient: Node, added: Additions) -> None:
    """The Where on the reciprocal of the divisor."""
    base, (a, b) = label_of(node), quotient.inputs
    reciprocal = added.emit("Reciprocal", b, wish=f"{base}.reciprocal")
    factor = added.new(f"{base}.factor")
    added.nodes += [
        replace(node, inputs=(*node.inputs[:2], reciprocal), outputs=(factor,), name=factor),
        replace(quotient, op_type="Mul", inputs=(a, factor), outputs=node.outputs),
    ]


def _write(node: Node, added: Additions) -> None:
    base, (a, b) = label_of(node), node.inputs
    if node.op_type == "Div":
        factor = added.emit("Reciprocal", b, wish=f"{base}.reciprocal")
        added.nodes.append(replace(node, op_type="Mul", inputs=(a, factor)))
        return
    positive = added.emit("Relu", added.emit("Sub", a, b, wish=f"{base}.difference"), wish=f"{base}.positive")
    op, first = ("Add", b) if node.op_type == "Max" else ("Sub", a)
    added.nodes.append(replace(node, op_type=op, inputs=(first, positive)))


def sum_to_add(model: Model) -> Model:
    """Sum(a, b, c, ...) becomes Add(Add(a, b), c) ...; of one tensor, Identity."""
    names, nodes = Names(model.graph), list[Node]()
    for node in model.graph.nodes:
        if node.op_type != "Sum" or node.domain:
            nodes.append(node)
            continue
        first, *others = node.inputs
        if not others:
            nodes.append(replace(node, op_type="Identity"))
        for k, other in enumerate(others):
            last = k == len(others) - 1
            result = node.outputs[0] if last else names.new(f"{node.outputs[0]}.{k + 1}")
            name = node.name if last else result
            nodes.append(replace(node, op_type="Add", inputs=(first, other), outputs=(result,), name=name))
            first = result
    return with_graph(model, nodes)


def clamps_before_concat(model: Model) -> Model:
    """Concat, then Relu or Clip, becomes Relu or Clip of every operand, then Concat.

    Only where a Conv, Gemm or average makes each operand for the Concat alone: with those it becomes one layer.
    """
    graph = model.graph
    names, nodes = Names(graph), list[Node]()
    clamps = _clamps(graph)
    moved = {id(clamp) for clamp in clamps.values()}
    for node in graph.nodes:
        clamp = clamps.get(id(node))
        if clamp is not None:
            operands = [names.new(f"{name}.{clamp.op_type}") for name in node.inputs]
            nodes += [
                replace(clamp, inputs=(name, *clamp.inputs[1:]), outputs=(result,), name=result)
                for name, result in zip(node.inputs, operands, strict=True)
            ]
            nodes.append(replace(node, inputs=tuple(operands), outputs=clamp.outputs))
        elif id(node) not in moved:
            nodes.append(node)
    return with_graph(model, nodes)


def _clamps(graph: Graph) -> dict[int, Node]:
    """The Relu or Clip behind each Concat that it can move in front of, by the Concat's identity."""
    read, producer_of = consumers(graph), producers(graph)
    outputs = {value.name for value in graph.outputs}
    clamps = {}
    for concat in graph.nodes:
        followers = read.get(concat.outputs[0], [])
        if concat.op_type != "Concat" or len(followers) != 1 or concat.outputs[0] in outputs:
            continue
        if followers[0].op_type not in CLAMPS or len(dynamic_inputs(followers[0], graph)) != 1:
            continue
        makers = [producer_of.get(name) for name in concat.inputs]
        alone = all(len(read[name]) == 1 and name not in outputs for name in concat.inputs)
        distinct = len(set(concat.inputs)) == len(concat.inputs)
        averages_or_products = all(node is not None and node.op_type in MATRIX | POOLS - MAX_POOLS for node in makers)
        if alone and distinct and averages_or_products:
            clamps[id(concat)] = followers[0]
    return clamps


@dataclass(frozen=True)
class _Padded:
    """A computed operand of a Concat, and the constants that stand before and behind it along the axis."""

    name: str
    before: tuple[Array, ...]
    behind: tuple[Array, ...]


def constant_parts_to_pads(model: Model) -> Model:
    """Concat of computed tensors and constants becomes Concat of padded ones.

    Constants of one number are padding with it; for others the padding is 0, and a sum adds them.
    """
    graph, added = model.graph, Additions(model.graph)
    for node in graph.nodes:
        computed = dynamic_inputs(node, graph)
        mixed = node.op_type == "Concat" and not node.domain and 0 < len(computed) < len(node.inputs)
        if not mixed or any(shape_of(graph, name) is None for name in computed):
            added.nodes.append(node)
            continue
        axis = attribute(node, "axis", 1) % len(shape_of(graph, computed[0]) or ())
        parts = _padded_parts(node, graph)
        alone = len(parts) == 1
        names = [_pad(part, axis, node, model, node.outputs[0] if alone else "", added) for part in parts]
        if not alone:
            added.nodes.append(replace(node, inputs=tuple(names)))
    return added.into(model)


def _padded_parts(node: Node, graph: Graph) -> list[_Padded]:
    """The computed operands; constants belong to the one in front of them, the first ones to the first."""
    parts, first = list[_Padded](), tuple[Array, ...]()
    for name in node.inputs:
        array = graph.initializers.get(name)
        if array is None:
            parts.append(_Padded(name, first if not parts else (), ()))
        elif not parts:
            first += (array,)
        else:
            parts[-1] = replace(parts[-1], behind=(*parts[-1].behind, array))
    return parts


def _pad(part: _Padded, axis: int, node: Node, model: Model, output: str, added: Additions) -> str:
    """The tensor of `part` between its constants: called `output`, if that is not empty."""
    constants = [array for array in (*part.before, *part.behind) if array.size]
    if not constants:
        return added.emit("Identity", part.name, output=output) if output else part.name
    shape, base = shape_of(added.graph, part.name), label_of(node)
    assert shape is not None
    value = constants[0].reshape(-1)[0]
    even = all(bool((array == value).all()) for array in constants)
    begins, ends = ([0] * len(shape) for _ in range(2))
    begins[axis], ends[axis] = (sum(array.shape[axis] for array in side) for side in (part.before, part.behind))
    wish, value = f"{base}.padded", value if even else value * 0
    end, name = (output, node.name) if output and even else ("", "")
    if model.opsets.get("", 1) < _PADS_ARE_INPUTS:
        padded = added.emit("Pad", part.name, wish=wish, output=end, name=name, pads=(*begins, *ends),
                            value=float(value))
    else:
        pads, fill = added.int64(f"{wish}.pads", [*begins, *ends]), added.constant(f"{wish}.value", np.asarray(value))
        padded = added.emit("Pad", part.name, pads, fill, wish=wish, output=end, name=name)
    if even:
        return padded
    whole = np.concatenate([*part.before, np.zeros(shape, value.dtype), *part.behind], axis)
    return added.emit("Add", padded, added.constant(f"{base}.constants", whole), wish=f"{base}.joined",
                      output=output, name=node.name if output else "")
