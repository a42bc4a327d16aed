"""Schemas of operators, as operator sets have them: parameters, attributes, element types."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hwflow.onnx.model import Attribute

#: No upper limit on the number of inputs or outputs.
ANY = 1 << 30


def canonical_domain(domain: str) -> str:
    """The default operator set has two names; the code knows only the empty one."""
    return "" if domain == "ai.onnx" else domain


class AttributeKind(enum.Enum):
    """Kinds of attributes; the values are the lower-case names of AttributeProto.AttributeType."""

    FLOAT = "float"
    INT = "int"
    STRING = "string"
    TENSOR = "tensor"
    GRAPH = "graph"
    SPARSE_TENSOR = "sparse_tensor"
    TYPE_PROTO = "type_proto"
    FLOATS = "floats"
    INTS = "ints"
    STRINGS = "strings"
    TENSORS = "tensors"
    GRAPHS = "graphs"
    SPARSE_TENSORS = "sparse_tensors"
    TYPE_PROTOS = "type_protos"

    @property
    def is_list(self) -> bool:
        return self.value.endswith("s")


class Option(enum.Enum):
    """How often a parameter is there.  VARIADIC is always the last one."""

    SINGLE = ""
    OPTIONAL = "?"
    VARIADIC = "*"


@dataclass(frozen=True)
class Parameter:
    """A formal input or output.  `type` is a variable of `Schema.types` ("T") or a type itself ("tensor(int64)").

    `minimum` and `homogeneous` (all of one type) matter for variadic ones only.
    """

    name: str
    type: str
    option: Option = Option.SINGLE
    minimum: int = 1
    homogeneous: bool = True


@dataclass(frozen=True)
class AttributeSchema:
    """An attribute of an operator.  `default` is None where there is none; lists are tuples."""

    kind: AttributeKind
    required: bool = False
    default: Attribute | None = None


@dataclass(frozen=True)
class Schema:
    """One version of an operator, valid from version `since` of its operator set until the operator's next version.

    `types` gives the types that each type variable may stand for, in ONNX's notation: "tensor(float)",
    "seq(tensor(int64))", "optional(tensor(float))", "map(int64,float)".
    """

    domain: str
    name: str
    since: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: Mapping[str, AttributeSchema]
    types: Mapping[str, frozenset[str]]
    deprecated: bool = False
    experimental: bool = False
    random: bool = False

    @property
    def identifier(self) -> str:
        """The name that the specification writes: "com.acme.FastConv:3", "ai.onnx.Conv:11"."""
        return f"{self.domain or 'ai.onnx'}.{self.name}:{self.since}"

    @cached_property
    def input_limits(self) -> tuple[int, int]:
        """The smallest and the largest number of inputs; those behind the last required one may be left off."""
        return _limits(self.inputs)

    @cached_property
    def output_limits(self) -> tuple[int, int]:
        """The smallest and the largest number of outputs."""
        return _limits(self.outputs)

    def input(self, position: int) -> Parameter | None:
        """The formal parameter of an input by position; None beyond the last."""
        return _at(self.inputs, position)

    def output(self, position: int) -> Parameter | None:
        """The formal parameter of an output by position; None beyond the last."""
        return _at(self.outputs, position)

    def allowed(self, parameter: Parameter) -> frozenset[str]:
        """The types that a parameter may have."""
        return self.types.get(parameter.type) or frozenset({parameter.type})


def _limits(parameters: tuple[Parameter, ...]) -> tuple[int, int]:
    low = 0
    for index, parameter in enumerate(parameters):
        if parameter.option is Option.VARIADIC:
            return index + parameter.minimum, ANY
        if parameter.option is Option.SINGLE:
            low = index + 1
    return low, len(parameters)


def _at(parameters: tuple[Parameter, ...], position: int) -> Parameter | None:
    if position < len(parameters):
        return parameters[position]
    last = parameters[-1] if parameters else None
    return last if last is not None and last.option is Option.VARIADIC else None
