"""Constants that make a tensor larger: its elements are repeated first, which moves them.

    Add(x [1, 1, k], c [1, h, k])        Add(Expand(x, [1, h, k]), c), and Expand(x, [1, h, k]) alone where c is 0
"""

from __future__ import annotations

from hwflow.onnx import infer
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import AFFINE
from hwflow.quantize.graphs import Additions, constants, dynamic_inputs, label_of, on_host, shape_of

#: What leaves every element as it is.
_NEUTRAL = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}


def widened_to_expand(model: Model) -> Model:
    """Expand in front of sums and products with a constant of more elements; those on the host stay as they are."""
    graph = model.graph
    of_host, added, changed = on_host(graph), Additions(graph), False
    for node in graph.nodes:
        shape = shape_of(graph, node.outputs[0]) if _widens(node, graph) else None
        if shape is None or of_host.intersection(node.outputs):
            added.nodes.append(node)
            continue
        changed, (source,) = True, dynamic_inputs(node, graph)
        sizes = added.int64(f"{label_of(node)}.sizes", list(shape))
        if _is_neutral(node, source, graph):
            added.emit("Expand", source, sizes, output=node.outputs[0], name=label_of(node))
            continue
        wide = added.emit("Expand", source, sizes, wish=f"{label_of(node)}.wide")
        added.emit_like(node, *(wide if name == source else name for name in node.inputs), output=node.outputs[0],
                        name=node.name)
    return infer(added.into(model)) if changed else model


def _widens(node: Node, graph: Graph) -> bool:
    """Whether the result has more elements than the one tensor that it is a function of."""
    dynamic = dynamic_inputs(node, graph)
    if node.op_type not in AFFINE or node.domain or len(dynamic) != 1 or len(node.inputs) != 2:
        return False
    before, after = shape_of(graph, dynamic[0]), shape_of(graph, node.outputs[0])
    return before is not None and after is not None and before != after and before != after[len(after) - len(before):]


def _is_neutral(node: Node, source: str, graph: Graph) -> bool:
    """Whether the constant changes no element."""
    (array,), one = constants(node, graph), _NEUTRAL.get(node.op_type)
    commutes = node.op_type in ("Add", "Mul") or node.inputs[0] == source
    return one is not None and commutes and array.dtype.kind == "f" and bool((array == array.dtype.type(one)).all())
