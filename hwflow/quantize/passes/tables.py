"""Passes for tables that integers choose rows of: one form for all that exporters write, and functions of rows.

    Gather(table, numbers)        stays, its numbers behind a Gather of 0, 1, 2, ...: as ONNX says a negative number
                                  counts from the end, and one that is no row is an error of the host
    MatMul(OneHot(numbers), W)    Gather(W and a row of zeros, numbers), and so is Cast(Equal(numbers, 0 1 2 ...))
    f(Gather(table, numbers))     Gather(f(table), numbers)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import ELEMENTWISE
from hwflow.quantize.graphs import (
    Additions,
    apply,
    attribute,
    chosen_rows,
    consumers,
    dynamic_inputs,
    is_embedding,
    label_of,
    producers,
    shape_of,
)


def one_hot_to_gather(model: Model) -> Model:
    """A product with one-hot rows becomes a Gather of the rows of its weights; numbers without a one, of zeros."""
    graph = model.graph
    makers, added, changed = producers(graph), Additions(graph), False
    for node in graph.nodes:
        weights = graph.initializers.get(node.inputs[1]) if node.op_type == "MatMul" and not node.domain else None
        one_hot = _one_hot(node.inputs[0], graph, makers) if weights is not None and weights.ndim == 2 else None
        if weights is None or one_hot is None or one_hot[1] != len(weights):
            added.nodes.append(node)
            continue
        changed, base = True, label_of(node)
        table = added.constant(f"{base}.table", np.concatenate([weights, np.zeros_like(weights[:1])]))
        numbers = _limited(one_hot, base, added)
        added.nodes.append(replace(node, op_type="Gather", inputs=(table, numbers), attributes={"axis": 0}))
    return simplify(infer(added.into(model))) if changed else model


def _one_hot(name: str, graph: Graph, makers: dict[str, Node]) -> tuple[str, int, bool] | None:
    """The numbers, how many classes there are, and whether negative numbers count from the end; None if `name` is no
    one-hot tensor with the classes along its last axis."""
    while name in makers and makers[name].op_type in ("Cast", "Identity"):
        name = makers[name].inputs[0]
    node, shape = makers.get(name), shape_of(graph, name)
    if node is None or node.domain or shape is None:
        return None
    if node.op_type == "OneHot":
        values = graph.initializers.get(node.inputs[2])
        last = attribute(node, "axis", -1) in (-1, len(shape) - 1)
        whole = _is_integer(node.inputs[0], graph)
        plain = values is not None and values.tolist() == [0, 1] and last and whole
        return (node.inputs[0], shape[-1], True) if plain else None
    if node.op_type != "Equal":
        return None
    for numbers, classes in (node.inputs, node.inputs[::-1]):
        all_numbers, source = graph.initializers.get(classes), shape_of(graph, numbers)
        if all_numbers is None or source is None or numbers in graph.initializers or not _is_integer(numbers, graph):
            continue
        in_order = np.array_equal(all_numbers.ravel(), np.arange(all_numbers.size))
        if all_numbers.size == shape[-1] == all_numbers.shape[-1] and in_order:
            return (numbers, shape[-1], False) if source == (*shape[:-1], 1) else None
    return None


def _is_integer(name: str, graph: Graph) -> bool:
    kind = graph.tensor_type(name)
    return kind is not None and kind.dtype.kind in "iu"


def _limited(one_hot: tuple[str, int, bool], base: str, added: Additions) -> str:
    """The numbers, where those without a one are `count`, the row of zeros, or -1, which is the same one."""
    name, count, wraps = one_hot
    shape = shape_of(added.graph, name)
    assert shape is not None
    if not wraps:  # the last axis is one of classes
        row = added.int64(f"{base}.shape", shape[:-1])
        name = added.emit("Reshape", name, row, wish=f"{base}.numbers")
    wide = added.emit("Cast", name, wish=f"{base}.wide", to=7)
    if wraps:
        zero, size = added.int64(f"{base}.zero", 0), added.int64(f"{base}.size", count)
        below = added.emit("Less", wide, zero, wish=f"{base}.below")
        ahead = added.emit("Add", wide, size, wish=f"{base}.ahead")
        wide = added.emit("Where", below, ahead, wide, wish=f"{base}.from_end")
    ends = added.int64(f"{base}.low", -1), added.int64(f"{base}.high", count)
    return added.emit("Clip", wide, *ends, wish=f"{base}.limited")


def tables_to_constants(model: Model) -> Model:
    """A Gather of dequantized rows reads the integers, and its rows are dequantized; where rows have scales of their
    own the table is one of reals."""
    graph = model.graph
    makers, added = producers(graph), Additions(graph)
    nodes = added.nodes
    for node in graph.nodes:
        source = makers.get(node.inputs[0]) if node.op_type == "Gather" and not node.domain else None
        constant = source is not None and source.op_type == "DequantizeLinear" and not source.domain and all(
            name in graph.initializers for name in source.inputs if name
        )  # fmt: skip
        if source is None or not constant or node.inputs[1] in graph.initializers:
            nodes.append(node)
        elif graph.initializers[source.inputs[1]].size == 1:
            rows = added.new(f"{node.outputs[0]}.integers")
            nodes.append(replace(node, inputs=(source.inputs[0], node.inputs[1]), outputs=(rows,)))
            nodes.append(replace(source, inputs=(rows, *source.inputs[1:]), outputs=node.outputs,
                                 name=f"{node.outputs[0]}.dequantize", attributes={}))  # fmt: skip
        else:
            reals = apply(source, model.opsets, {name: graph.initializers[name] for name in source.inputs if name})
            table = added.constant(f"{node.inputs[0]}.reals", reals)
            nodes.append(replace(node, inputs=(table, node.inputs[1])))
    return added.into(model)


def numbers_of_rows(model: Model) -> Model:
    """Numbers that choose rows of a table are 0, 1, ... when they come to it: a Gather of these makes them so."""
    graph = model.graph
    makers, added, known = producers(graph), Additions(graph), dict[tuple[str, int], str]()
    for node in graph.nodes:
        place, rows = chosen_rows(node, graph)
        if not rows or _is_number(node.inputs[place], graph, makers):
            added.nodes.append(node)
            continue
        numbers = node.inputs[place]
        if (numbers, rows) not in known:
            every = added.int64(f"{numbers}.rows", np.arange(rows))
            known[numbers, rows] = added.emit("Gather", every, numbers, wish=f"{numbers}.row", axis=0)
        inputs = (*node.inputs[:place], known[numbers, rows], *node.inputs[place + 1 :])
        added.nodes.append(replace(node, inputs=inputs))
    return simplify(infer(added.into(model))) if known else model


def _is_number(name: str, graph: Graph, makers: dict[str, Node]) -> bool:
    """Whether `name` was made by `numbers_of_rows`."""
    node = makers.get(name)
    every = graph.initializers.get(node.inputs[0]) if node is not None and node.op_type == "Gather" else None
    return every is not None and every.ndim == 1 and np.array_equal(every, np.arange(len(every), dtype=np.int64))


def functions_into_tables(model: Model) -> Model:
    """A function of rows of a table, element by element, is computed of the table once.

    Where one tensor comes out of the nodes that follow; constants are the same for every row that is chosen.
    """
    graph = model.graph
    read, outputs = consumers(graph), {value.name for value in graph.outputs}
    added, gone, instead = Additions(graph), set[int](), dict[str, Node]()
    for node in graph.nodes:
        table = graph.initializers.get(node.inputs[0]) if is_embedding(node, graph) else None
        if table is None or attribute(node, "axis", 0) or table.dtype.kind != "f":
            continue
        inside, values = _of_rows(node, model)
        ends = [name for name in values if name in outputs or any(n not in inside for n in read.get(name, []))]
        if not inside or len(ends) != 1 or ends[0] == node.outputs[0]:
            continue
        of_rows = added.constant(f"{label_of(node)}.of_rows", values[ends[0]])
        gone.update(map(id, (node, *inside)))
        instead[ends[0]] = replace(node, inputs=(of_rows, node.inputs[1]), outputs=(ends[0],))
    stay = (node for node in graph.nodes if node.outputs[0] in instead or id(node) not in gone)
    added.nodes += [instead.get(node.outputs[0], node) for node in stay]
    return added.into(model)


def _of_rows(node: Node, model: Model) -> tuple[list[Node], dict[str, Array]]:
    """The nodes that compute element by element of the rows of `node`, and the values of each for the whole table."""
    graph = model.graph
    table = graph.initializers[node.inputs[0]]
    values: dict[str, Array] = {node.outputs[0]: table}
    inside = list[Node]()
    for follower in graph.nodes:
        dynamic = dynamic_inputs(follower, graph)
        if follower.op_type not in ELEMENTWISE or follower.domain or not dynamic or not values.keys() >= set(dynamic):
            continue
        shapes = {shape_of(graph, name) for name in (*dynamic, follower.outputs[0])}
        constants = {name: _of_row(graph.initializers[name], table) for name in follower.inputs
                     if name in graph.initializers}  # fmt: skip
        if len(shapes) > 1 or any(value is None for value in constants.values()):
            continue
        operands = {name: values[name] for name in dynamic} | {n: v for n, v in constants.items() if v is not None}
        values[follower.outputs[0]] = apply(follower, model.opsets, operands)
        inside.append(follower)
    return inside, values


def _of_row(constant: Array, table: Array) -> Array | None:
    """`constant` in the axes of one row; None where it has others."""
    while constant.ndim > table.ndim - 1:
        if len(constant) != 1:
            return None
        constant = constant[0]
    return constant
