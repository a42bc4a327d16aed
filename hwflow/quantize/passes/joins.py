"""Passes around nodes that join tensors: those without a layer are written with nodes that have one.

`joins_to_sums_and_products` writes Div, Max and Min of two tensors:

    a / b                     a * Reciprocal(b)
    Where(c(b), 0, a / b)     a * Where(c(b), 0, Reciprocal(b))     as exporters guard a division by 0
    Max(a, b)                 b + Relu(a - b)
    Min(a, b)                 a - Relu(a - b)

`sum_to_add` writes Sum with the operator that everything else knows.  `clamps_before_concat` moves Relu and Clip from
behind a Concat to the layers in front of it, which do them for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import CLAMPS, ELEMENTWISE, MATRIX, MAX_POOLS, POOLS
from hwflow.quantize.graphs import (
    Additions,
    Names,
    consumers,
    dynamic_inputs,
    label_of,
    on_host,
    producers,
    with_graph,
)


def joins_to_sums_and_products(model: Model) -> Model:
    """Div, Max and Min of two tensors that are not functions of one; those on the host stay as they are."""
    graph = model.graph
    of_host = on_host(graph)
    roots, added = _roots(graph), Additions(graph)
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


def _roots(graph: Graph) -> dict[str, str]:
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
