"""Steps from one version of an operator to a neighbouring one.  Each is called with the `NodeConversion` of a node.

Up, a node is kept but for what the tables say.  Down, `narrow` keeps it where the older version can say all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx.conversion.node_conversion import NodeConversion, Refusal
from hwflow.onnx.model import Attribute, Node
from hwflow.onnx.ops.base import Arr
from hwflow.onnx.run.functions import graphs_of
from hwflow.onnx.schemas import Option, Parameter

#: Writes what takes the place of a node, with the methods of its site.
Step: TypeAlias = Callable[[NodeConversion], None]

#: Operator to its versions, and the step that leads to each of them (upward from the version before it, downward from
#: it to the version before it).
Steps: TypeAlias = Mapping[str, Mapping[int, Step]]


@dataclass(frozen=True)
class Same:
    """The node is written the same way and means the same; element types or the wording may differ.

    Before version 6 some say which inputs an implementation may overwrite, which is nothing of what they compute.
    """

    def __call__(self, site: NodeConversion) -> None:
        if "consumed_inputs" in site.schema.attributes and site.has("consumed_inputs"):
            site.keep(attributes=site.attributes("consumed_inputs"))
        else:
            site.keep()


SAME = Same()


@dataclass(frozen=True)
class Without:
    """Attributes go that say nothing about what the node computes."""

    names: tuple[str, ...]

    def __call__(self, site: NodeConversion) -> None:
        site.keep(attributes={key: value for key, value in site.node.attributes.items() if key not in self.names})


@dataclass(frozen=True)
class Stated:
    """Attributes whose default is another one are stated with the default that they had."""

    defaults: Mapping[str, Attribute]

    def __call__(self, site: NodeConversion) -> None:
        site.keep(attributes={**self.defaults, **site.node.attributes})


@dataclass(frozen=True)
class AsInput:
    """An attribute becomes the input at `position`, where the node states it or it is `always` there.

    An empty list counts as not stated unless it is `empty_too`.
    """

    name: str
    dtype: npt.DTypeLike = np.int64
    position: int = 1
    always: bool = False
    empty_too: bool = True

    def __call__(self, site: NodeConversion) -> None:
        before = (*site.node.inputs, "", "")[: self.position]
        stated = self.always or (site.has(self.name) and (self.empty_too or site.node.attributes[self.name] != ()))
        inputs = (*before, site.moved(self.name, self.dtype)) if stated else site.node.inputs[:1]
        site.keep(inputs=inputs, attributes=site.attributes(self.name))


@dataclass(frozen=True)
class AsAttribute:
    """The way back: integers of the input at `position`, which must be constant; `default` where it is left out."""

    name: str
    position: int = 1
    is_list: bool = True
    default: Attribute | None = None

    def __call__(self, site: NodeConversion) -> None:
        elements = constant_ints(site, self.position)
        value = self.default if elements is None else elements if self.is_list else elements[0]
        stated = {} if value is None else {self.name: value}
        narrow(site, inputs=site.node.inputs[: self.position], attributes={**site.attributes(), **stated})


@dataclass(frozen=True)
class WithoutValues:
    """Values of an attribute that came with a version; a node with another one is kept."""

    name: str
    values: tuple[str, ...]

    def __call__(self, site: NodeConversion) -> None:
        self.require(site)
        narrow(site)

    def require(self, site: NodeConversion) -> None:
        """Refuse those values."""
        value = site.attribute(self.name)
        if value in self.values:
            raise newer(site, f"attribute '{self.name}' ('{value}')")


def newer(site: NodeConversion, what: str) -> Refusal:
    """The refusal of something that an older version cannot say."""
    since = site.schema.since
    return site.refuse(f"{what} came with version {since} of the operator", f"convert to operator set {since} or newer")


def not_there(site: NodeConversion) -> None:
    """The step below the first version of an operator: what it gives for constants is a constant, all else refused."""
    since = site.schema.since
    fixed = not site.schema.random and not any(True for _ in graphs_of(site.node))
    results = site.results(site.node, {site.node.domain: since}) if fixed else None
    if results is not None:
        for name, array in results.items():
            site.write(Node("Constant", (), (name,), {"value": array}, name))
        return
    raise site.refuse(f"the operator came with operator set {since}", f"convert to operator set {since} or newer")


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


def from_front(site: NodeConversion, axes: Sequence[int], rank: int | None = None) -> tuple[int, ...]:
    """Axes counted from the front; the rank, of the first input if not given, is asked for only where it matters."""
    if all(axis >= 0 for axis in axes):
        return tuple(axes)
    rank = site.needs_rank(site.input(0)) if rank is None else rank
    return tuple(axis % rank for axis in axes)


def axis_from_front(site: NodeConversion) -> None:
    """Before version 11 `axis` counts from the front."""
    axis = site.attribute("axis")
    narrow(site, attributes=site.attributes() if axis is None else site.attributes(axis=from_front(site, [axis])[0]))


def axes_from_front(site: NodeConversion) -> None:
    """Before version 11 `axes` count from the front."""
    axes = site.attribute("axes")
    if axes is None:
        narrow(site)
        return
    rank = site.needs_rank(site.input(0)) + len(axes) if site.node.op_type == "Unsqueeze" and min(axes) < 0 else None
    narrow(site, attributes=site.attributes(axes=from_front(site, axes, rank)))
