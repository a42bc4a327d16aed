"""The step down that most versions need: the node as it is, where the older version can say all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.conversion.node_conversion import NodeConversion, Refusal
from hwflow.onnx.model import Array, Attribute, Graph, Model, Node, Value
from hwflow.onnx.ops.base import Arr
from hwflow.onnx.run.evaluate import evaluate
from hwflow.onnx.run.functions import graphs_of
from hwflow.onnx.schemas import Option, Parameter

#: Elements of a constant that takes the place of a node.
_FOLDED = 1 << 12
#: Of models of one node, which are never written.
_IR_VERSION = 10


def newer(site: NodeConversion, what: str) -> Refusal:
    """The refusal of something that an older version cannot say."""
    since = site.schema.since
    return site.refuse(f"{what} came with version {since} of the operator", f"convert to operator set {since} or newer")


def not_there(site: NodeConversion) -> None:
    """The step below the first version of an operator: what it gives for constants is a constant, all else refused."""
    since = site.schema.since
    results = _computed(site)
    if results is not None:
        for name, array in results.items():
            site.write(Node("Constant", (), (name,), {"value": array}, name))
        return
    raise site.refuse(f"the operator came with operator set {since}", f"convert to operator set {since} or newer")


def _computed(site: NodeConversion) -> dict[str, Array] | None:
    """The outputs of a node of constants, as far as they are small tensors; None for any other node."""
    node = site.node
    values = {name: array for name in filter(None, node.inputs) if (array := site.value(name)) is not None}
    if site.schema.random or len(values) != len({*filter(None, node.inputs)}) or any(True for _ in graphs_of(node)):
        return None
    outputs = tuple(Value(name, None) for name in node.outputs if name)
    model = Model(Graph("one node", (node,), (), outputs, values), _IR_VERSION, {node.domain: site.schema.since})
    with suppress(HwflowError):  # then the node is refused, as it stands in the file
        results = evaluate(model, {})
        tensors = {name: array for name, array in results.items() if isinstance(array, np.ndarray)}
        if len(tensors) == len(outputs) and all(array.size <= _FOLDED for array in tensors.values()):
            return tensors
    return None


def mute(site: NodeConversion, name: str, value: Any) -> bool:
    """Whether a new attribute says nothing besides what the older version means without it."""
    special = _MUTE.get((site.node.op_type, name)) or _MUTE.get(("", name))
    default = site.schema.attributes[name].default
    return bool(default is not None and value == default) or (special is not None and special(site, value))


#: (operator, or "" for all; attribute) to whether its value changes nothing although it is not the default.
_MUTE: Mapping[tuple[str, str], Callable[[NodeConversion, Any], bool]] = {
    ("", "dilations"): lambda site, value: all(v == 1 for v in value),
    # They matter for element types only that the older version does not take.
    ("", "saturate"): lambda site, value: True,
    ("", "round_mode"): lambda site, value: True,
    ("MaxPool", "storage_order"): lambda site, value: not site.names(1),
    ("AveragePool", "count_include_pad"): lambda site, value: (
        not any(site.attribute("pads") or ()) and site.attribute("auto_pad") in ("NOTSET", "VALID")
    ),
    ("TopK", "sorted"): lambda site, value: True,  # sorted is one of the orders that 0 allows
    ("Dropout", "seed"): lambda site, value: True,  # nothing is drawn where the older version can say it
}


def narrow(
    site: NodeConversion,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    attributes: Mapping[str, Attribute] | None = None,
) -> None:
    """Keep the node, or what is given of it, in the form of the older version; refuse what that cannot say."""
    if site.wanted is None:
        not_there(site)
    assert site.wanted is not None
    site.require_types()
    site.keep(
        inputs=_within(site, site.node.inputs if inputs is None else inputs, site.wanted.inputs, "input"),
        outputs=_within(site, site.node.outputs if outputs is None else outputs, site.wanted.outputs, "output"),
        attributes=_attributes(site, site.node.attributes if attributes is None else attributes),
    )


def _within(site: NodeConversion, names: Sequence[str], parameters: Sequence[Parameter], kind: str) -> tuple[str, ...]:
    """The names without those left out at the end; refused beyond the parameters that there are."""
    listed = list(names)
    while listed and not listed[-1]:
        listed.pop()
    if parameters and parameters[-1].option is Option.VARIADIC:
        return tuple(listed)
    if len(listed) > len(parameters):
        own = site.schema.input if kind == "input" else site.schema.output
        parameter = own(len(parameters))
        name = parameter.name if parameter is not None else listed[len(parameters)]
        raise newer(site, f"{kind} '{name}'")
    required = [
        p.name for i, p in enumerate(parameters) if p.option is Option.SINGLE and not "".join(listed[i : i + 1])
    ]
    if required:
        raise newer(site, f"leaving out {kind} '{required[0]}'")
    return tuple(listed)


def _attributes(site: NodeConversion, of_node: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """The attributes that the older version knows; defaults that it does not share are stated."""
    assert site.wanted is not None
    known, attributes = site.wanted.attributes, dict[str, Attribute]()
    for name, value in of_node.items():
        if name in known:
            attributes[name] = value
        elif name in site.schema.attributes and not mute(site, name, site.attribute(name)):
            shown = f"{value!r}" if isinstance(value, (str, int, float, tuple)) else "a tensor"
            raise newer(site, f"attribute '{name}' ({shown})")
    for name, stated in site.schema.attributes.items():
        default = stated.default
        if name in known and name not in attributes and default is not None and default != known[name].default:
            attributes[name] = default
    return attributes


def needs_constant(site: NodeConversion, position: int) -> Arr | None:
    """The elements of an input that the older version has as an attribute; None where it is left out."""
    name = site.input(position)
    if not name:
        return None
    value = site.value(name)
    if value is None:
        parameter = site.schema.input(position)
        label = name if parameter is None else parameter.name
        since = site.schema.since
        raise site.refuse(
            f"input '{label}' is computed, and before version {since} it is a constant of the node",
            f"make it an initializer, or convert to operator set {since} or newer",
        )
    return value


def constant_ints(site: NodeConversion, position: int) -> tuple[int, ...] | None:
    """The same as `needs_constant`, as a list of integers."""
    value = needs_constant(site, position)
    return None if value is None else tuple(int(v) for v in value.reshape(-1))
