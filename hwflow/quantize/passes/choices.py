"""Choices between elements that another tensor decides, as products with 0 and 1:

    Where(c, a, b)            a * Where(c, 1, 0) + b * Where(c, 0, 1)
    Greater(a, b)             Greater(a - b, 0), and Less alike, where a and b have nothing in common
    Cast(c)                   Where(c, 1, 0), where c is true or false and numbers come of it
    Mod(a, 2)                 a - 2 * Where(a < 0, Ceil(a / 2), Floor(a / 2)), for powers of two, which divide exactly

A choice that is a function of one tensor stays: it becomes a table or thresholds.
"""

from __future__ import annotations

import numpy as np

from hwflow.onnx import infer
from hwflow.onnx.model import Model, Node
from hwflow.quantize.graphs import Additions, dynamic_inputs, is_boolean, label_of, on_host, producers
from hwflow.quantize.passes.joins import roots_of

#: What is infinite, or no number, somewhere: a Where behind it leaves that out.
_QUOTIENTS = frozenset({"Div", "Log", "Pow", "Reciprocal", "Sqrt"})
_ORDERS = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})


def choices_to_products(model: Model) -> Model:
    """Where and comparisons of tensors with roots of their own; those on the host stay as they are."""
    graph = model.graph
    of_host, roots = on_host(graph), roots_of(graph)
    added, changed = Additions(graph), False
    for node in graph.nodes:
        dynamic = dynamic_inputs(node, graph)
        here = not of_host.intersection(node.outputs)
        several = here and len({roots.get(name, name) for name in dynamic}) > 1
        written = here and ((_is_rest(node, model) and _write_rest(node, added))
                            or (_makes_numbers(node, model) and _write_numbers(node, added)))
        if several and not node.domain and _is_float(node.inputs[-1], model):
            if node.op_type == "Where" and node.inputs[0] in dynamic:
                written = _write_choice(node, added)
            elif node.op_type in _ORDERS:
                written = _write_order(node, added)
        if not written:
            added.nodes.append(node)
        changed |= written
    return infer(added.into(model)) if changed else model


def _is_float(name: str, model: Model) -> bool:
    kind = model.graph.tensor_type(name)
    array = model.graph.initializers.get(name)
    dtype = array.dtype if array is not None else kind.dtype if kind is not None else None
    return dtype is not None and dtype.kind == "f"


def _is_rest(node: Node, model: Model) -> bool:
    """Whether a node gives what is left of a computed float by a constant power of two."""
    if node.op_type != "Mod" or node.domain or dynamic_inputs(node, model.graph) != node.inputs[:1]:
        return False
    by = model.graph.initializers[node.inputs[1]]
    if by.dtype.kind != "f" or by.size != 1:
        return False
    return bool((by > np.zeros((), by.dtype)).all() and (np.frexp(by)[0] == 0.5).all() and node.attributes.get("fmod"))


def _write_rest(node: Node, added: Additions) -> bool:
    """The value without its whole multiples, counted towards zero."""
    base, (x, by) = label_of(node), node.inputs
    times = added.emit("Div", x, by, wish=f"{base}.times")
    ends = [added.emit(op, times, wish=f"{base}.{op.lower()}") for op in ("Ceil", "Floor")]
    below = added.emit("Less", x, added.float32(f"{base}.zero", 0), wish=f"{base}.below")
    whole = added.emit("Where", below, *ends, wish=f"{base}.whole")
    added.emit("Sub", x, added.emit("Mul", whole, by, wish=f"{base}.multiple"), output=node.outputs[0], name=base)
    return True


def _makes_numbers(node: Node, model: Model) -> bool:
    """Whether a node makes numbers of what is true or false."""
    if node.op_type != "Cast" or node.domain:
        return False
    kind = model.graph.tensor_type(node.outputs[0])
    return is_boolean(node.inputs[0], model.graph) and kind is not None and kind.dtype.kind == "f"


def _write_numbers(node: Node, added: Additions) -> bool:
    """1 where it is true, 0 where it is not."""
    ends = [added.float32(f"{label_of(node)}.{what}", value) for what, value in (("true", 1), ("false", 0))]
    added.emit("Where", node.inputs[0], *ends, output=node.outputs[0], name=label_of(node))
    return True


def _write_choice(node: Node, added: Additions) -> bool:
    """The sum of what is chosen and what is not; False where one of them may be no number, which 0 times it is not."""
    base, constants, terms = label_of(node), added.graph.initializers, list[str]()
    makers = producers(added.graph)
    if any(name in makers and makers[name].op_type in _QUOTIENTS for name in node.inputs[1:]):
        return False
    if any(not np.isfinite(constants[name]).all() for name in node.inputs[1:] if name in constants):
        return False
    for number, name in enumerate(node.inputs[1:]):
        if name in constants and not constants[name].any():
            continue
        ends = [added.float32(f"{base}.share", value) for value in (1 - number, number)]
        share = added.emit("Where", node.inputs[0], *ends, wish=f"{base}.{('chosen', 'left')[number]}")
        terms.append(added.emit("Mul", name, share, wish=f"{base}.{('first', 'second')[number]}"))
    if not terms:
        return False
    if len(terms) == 1:
        added.emit("Identity", terms[0], output=node.outputs[0], name=base)
    else:
        added.emit("Add", *terms, output=node.outputs[0], name=base)
    return True


def _write_order(node: Node, added: Additions) -> bool:
    """The same comparison of a difference with 0."""
    base = label_of(node)
    difference = added.emit("Sub", *node.inputs, wish=f"{base}.difference")
    zero = added.float32(f"{base}.zero", 0)
    added.emit(node.op_type, difference, zero, output=node.outputs[0], name=base)
    return True
