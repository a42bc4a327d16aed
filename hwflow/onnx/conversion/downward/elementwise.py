"""Functions of elements: broadcasting as old operator sets know it, types by name, and operands of other types."""

from __future__ import annotations

from itertools import pairwise

from hwflow.onnx.conversion.downward.narrow import narrow, newer
from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Steps
from hwflow.onnx.dtypes import find_element_type
from hwflow.onnx.model import Dim

_COMMUTES = frozenset({"Add", "Mul", "And", "Or", "Xor", "Equal"})


def _dims(site: NodeConversion, name: str) -> tuple[Dim, ...] | None:
    tensor = site.tensor(name)
    return None if tensor is None else tensor.shape


def _equal(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    return len(a) == len(b) and all(x is not None and x == y for x, y in zip(a, b, strict=True))


def _broadcast(site: NodeConversion) -> None:
    """Below version 7 the second operand is broadcast to the first, from an axis on, where the node says so."""
    a, b = site.node.inputs
    first, second = _dims(site, a), _dims(site, b)
    if first is None or second is None:
        raise newer(site, f"broadcasting of '{a}' and '{b}', whose shapes are not known,")
    if _equal(first, second):
        narrow(site)
        return
    if _smaller(first, second) and site.node.op_type in _COMMUTES:
        a, b, first, second = b, a, second, first
    if all(size == 1 for size in second):
        if len(second) > len(first):
            raise newer(site, f"broadcasting of {list(first)} to {list(second)}")
        narrow(site, inputs=(a, b), attributes={"broadcast": 1})
        return
    padded = (1,) * (len(first) - len(second)) + second
    inside = [i for i, size in enumerate(padded) if size != 1]
    start, end = inside[0], inside[-1] + 1
    if len(padded) != len(first) or not _equal(first[start:end], padded[start:end]):
        raise newer(site, f"broadcasting of {list(first)} and {list(second)}")
    outside = len(first) - len(second)
    alone = [i - outside for i in (*range(outside, start), *range(end, len(first)))]
    if alone:
        b = site.add("Squeeze", b, axes=tuple(alone))
    narrow(site, inputs=(a, b), attributes={"broadcast": 1} | ({} if end == len(first) else {"axis": start}))


def _smaller(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Whether the first shape has to be broadcast to the second."""
    return len(a) < len(b) or (len(a) == len(b) and any(x == 1 and y != 1 for x, y in zip(a, b, strict=True)))


def _variadic(site: NodeConversion) -> None:
    """Before version 8 all operands have one shape; sums can be made of pairs."""
    shapes = [_dims(site, name) for name in site.node.inputs]
    if all(x is not None and y is not None and _equal(x, y) for x, y in pairwise(shapes)):
        narrow(site)
        return
    if site.node.op_type not in ("Sum", "Mean"):
        raise newer(site, "broadcasting of operands, or operands of unknown shape,")
    site.require_types()
    total, *others = site.node.inputs
    for name in others[:-1]:
        total = site.add("Add", total, name)
    if site.node.op_type == "Sum":
        site.result("Add", total, others[-1])
        return
    count = site.constant(len(site.node.inputs), site.needs_dtype(site.input(0)))
    site.result("Div", site.add("Add", total, others[-1]), count)


def _type_by_name(site: NodeConversion) -> None:
    """Cast 1 has the type's name."""
    entry = find_element_type(site.attribute("to"))
    if entry is None:
        raise site.refuse(f"{site.attribute('to')} is no element type", "export the model again")
    narrow(site, attributes={"to": entry.name.upper()})


def _power_of_type(site: NodeConversion) -> None:
    """Before version 12 the exponent has the type of the base."""
    base, exponent = (site.needs_dtype(name) for name in site.node.inputs)
    if base == exponent:
        narrow(site)
        return
    if base.kind != "f":
        raise newer(site, f"a base of {base} with an exponent of {exponent}")
    narrow(site, inputs=(site.input(0), site.cast(site.input(1), base)))


STEPS: Steps = {
    **{name: {7: _broadcast} for name in ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Sub", "Xor")},
    "Pow": {7: _broadcast, 12: _power_of_type},
    **{name: {8: _variadic} for name in ("Max", "Mean", "Min", "Sum")},
    "Cast": {6: _type_by_name},
}
