"""Masks that are computed, from an input with lengths of sequences for example: sums, with numbers of a sensible size.

    Where(mask, -inf, scores)                        scores + Where(mask, HIDDEN, 0)
    scores + Where(mask, -inf, 0)                    scores + Where(mask, HIDDEN, 0)
    scores + (1 - mask) * -3.4e38                    scores + (1 - mask) * HIDDEN

A Softmax cannot tell these apart, as long as it sees one score of each row.  Constant masks are `masks`' subject.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx import evaluate, infer
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import JOINS, LAYOUT, MOVES
from hwflow.quantize.graphs import Additions, attribute, consumers, dynamic_inputs, label_of, producers

#: What hides a score: no scores are so far apart, and float32 adds it to one exactly enough.
HIDDEN = -1e4
#: Above this, what is added is a bias that may matter, and below it a mask.
BIAS = -1e3
_SUMS = LAYOUT | MOVES | JOINS | {"Add", "Sub", "Mul", "Div", "Where", "Identity", "Cast", "Max", "Min"}


def computed_masks(model: Model) -> Model:
    """What hides scores of a Softmax, and is computed, as a sum with `HIDDEN`."""
    graph = model.graph
    inside = masking_nodes(graph)
    if not inside:
        return model
    added, names = Additions(graph), dict[str, str]()
    for node in graph.nodes:
        if id(node) in inside:
            _write(node, names, added)
        else:
            inputs = tuple(names.get(name, name) for name in node.inputs)
            added.nodes.append(replace(node, inputs=inputs) if inputs != node.inputs else node)
    return infer(added.into(model)) if names else model


def masking_nodes(graph: Graph) -> dict[int, list[Node]]:
    """The nodes, by their identity, whose results only add to what a Softmax reads, and those Softmaxes.

    From the first sum of two tensors on, or the first choice that a tensor decides: what stands between it and the
    Softmax is a function of one tensor (`masks`).
    """
    makers, read, outputs = producers(graph), consumers(graph), {value.name for value in graph.outputs}
    inside = dict[int, list[Node]]()
    for softmax in (node for node in graph.nodes if node.op_type == "Softmax" and not node.domain):
        todo, seen, is_computed = [softmax.inputs[0]], {id(softmax)}, False
        while todo:
            name = todo.pop(0)
            node = makers.get(name)
            if node is None or id(node) in seen or node.domain or node.op_type not in _SUMS or name in outputs:
                continue
            if any(id(reader) not in seen and id(reader) not in inside for reader in read.get(name, ())):
                continue
            seen.add(id(node))
            chooses = node.op_type == "Where" and node.inputs[0] not in graph.initializers
            is_computed |= chooses or (node.op_type not in JOINS and len(dynamic_inputs(node, graph)) > 1)
            if is_computed:
                inside.setdefault(id(node), []).append(softmax)
            todo += _summands(node, graph)
    return inside


def require_keys(model: Model, rows: Mapping[str, Array]) -> None:
    """HwflowError for a row of data whose mask hides all scores of some row: runtimes make NaN of it.

    `model` is one in front of `computed_masks`; `rows` maps every input to an array [n, *its shape].
    """
    inside = masking_nodes(model.graph)
    hidden = {softmax.inputs[0]: softmax for node in model.graph.nodes if id(node) in inside
              and hides(node, model.graph) for softmax in inside[id(node)]}
    for k in range(min(map(len, rows.values())) if hidden else 0):
        values = evaluate(model, {name: array[k] for name, array in rows.items()}, fetch=tuple(hidden))
        for name, softmax in hidden.items():
            largest = values[name].max(axis=attribute(softmax, "axis", -1))
            if (largest <= HIDDEN * 10).any():
                where = [int(place) for place in np.argwhere(largest <= HIDDEN * 10)[0]]
                raise HwflowError(
                    f"row {k} of the data must leave a key to each query: its mask hides all scores that "
                    f"{softmax.label} reads at {where}", "leave the row out, or let its mask show at least one key")


def _summands(node: Node, graph: Graph) -> tuple[str, ...]:
    """The inputs that add to the result of a node."""
    dynamic = dynamic_inputs(node, graph)
    if node.op_type == "Where":
        return tuple(name for name in node.inputs[1:] if name in dynamic)
    if node.op_type in ("Add", "Max", "Min", *JOINS):
        return dynamic
    return dynamic[:1] if len(dynamic) == 1 or node.op_type in ("Sub", *LAYOUT, *MOVES) else ()


def hides(node: Node, graph: Graph) -> bool:
    """Whether a node of `masking_nodes` has a constant that hides scores."""
    return any(bool((np.abs(array) >= -BIAS).any()) for array in _numbers(node, graph).values())


def _numbers(node: Node, graph: Graph) -> Mapping[str, Array]:
    """The constants whose values go into the sum."""
    if node.op_type in LAYOUT | MOVES | JOINS:
        return {}
    names = node.inputs[1:] if node.op_type == "Where" else node.inputs
    return {name: graph.initializers[name] for name in names if name in graph.initializers
            and graph.initializers[name].dtype.kind == "f"}


def _write(node: Node, names: dict[str, str], added: Additions) -> None:
    """The node, with constants between `HIDDEN` and its opposite.

    `names` has what is another tensor now, because its numbers are others, under its old name.
    """
    graph = added.graph
    if node.op_type == "Where" and len(dynamic_inputs(node, graph)) == 2 and _write_choice(node, names, added):
        return
    read = {name: names[name] for name in node.inputs if name in names}
    for name, array in _numbers(node, graph).items():
        if bool((np.abs(array) > -HIDDEN).any()):
            read[name] = added.constant(f"{name}.hidden", np.clip(array, HIDDEN, -HIDDEN).astype(array.dtype))
    if not read:
        added.nodes.append(node)
        return
    names[node.outputs[0]] = added.new(f"{node.outputs[0]}.hidden")
    added.emit_like(node, *(read.get(name, name) for name in node.inputs), output=names[node.outputs[0]],
                    name=node.name)


def _write_choice(node: Node, names: dict[str, str], added: Additions) -> bool:
    """A Where that chooses between scores and what hides them, as a sum; False where it is another one."""
    graph = added.graph
    fixed = [k for k in (1, 2) if node.inputs[k] in graph.initializers]
    if len(fixed) != 1 or node.inputs[0] in graph.initializers:
        return False
    array = graph.initializers[node.inputs[fixed[0]]]
    if array.dtype.kind != "f" or not bool((np.asarray(array, np.float64) <= BIAS).all()):
        return False
    base, scores = label_of(node), node.inputs[3 - fixed[0]]
    hidden, seen = (added.constant(f"{base}.{name}", np.array(value, array.dtype))
                    for name, value in (("hidden", HIDDEN), ("seen", 0)))
    mask = added.emit("Where", node.inputs[0], *((hidden, seen) if fixed[0] == 1 else (seen, hidden)),
                      wish=f"{base}.mask")
    names[node.outputs[0]] = added.emit("Add", names.get(scores, scores), mask, wish=f"{base}.masked", name=base)
    return True
