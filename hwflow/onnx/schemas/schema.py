"""Schemas of operators, as operator sets have them: parameters, attributes, element types; and the table of them."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

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


_FOLDER = Path(__file__).parent
_PARAMETER = re.compile(r"(?P<name>[^?*:]*)(?P<option>[?*]?)(?P<minimum>\d*)(?P<mixed>~?):(?P<type>.+)")


#: (domain, operator)
_Key: TypeAlias = tuple[str, str]
#: A schema as the file has it, and the type sets of the file.
_Row: TypeAlias = tuple[Mapping[str, Any], list[frozenset[str]]]


class _Table(Mapping[_Key, tuple[Schema, ...]]):
    """Schemas that are made from their rows when they are asked for: a model uses few of the hundreds."""

    def __init__(self, rows: Mapping[_Key, list[_Row]]) -> None:
        self._rows = rows
        self._made: dict[_Key, tuple[Schema, ...]] = {}

    def __getitem__(self, key: _Key) -> tuple[Schema, ...]:
        schemas = self._made.get(key)
        if schemas is None:
            schemas = self._made[key] = tuple(_schema(row, sets) for row, sets in self._rows[key])
        return schemas

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def read_table(*paths: Path) -> tuple[Mapping[_Key, tuple[Schema, ...]], dict[str, int]]:
    """The schemas of tables by (domain, operator), oldest version first, and the newest version of each domain."""
    rows: dict[_Key, list[_Row]] = {}
    newest: dict[str, int] = {}
    for path in paths:
        table = json.loads(path.read_text(encoding="utf-8"))
        sets = [frozenset(names) for names in table["type_sets"]]
        for row in table["schemas"]:
            rows.setdefault((row["domain"], row["name"]), []).append((row, sets))
        newest.update(table["newest"])
    return _Table(rows), newest


def _schema(row: Mapping[str, Any], sets: list[frozenset[str]]) -> Schema:
    return Schema(
        domain=row["domain"],
        name=row["name"],
        since=row["since"],
        inputs=tuple(_parameters(row["inputs"])),
        outputs=tuple(_parameters(row["outputs"])),
        attributes={name: _attribute(*entry) for name, entry in row["attributes"].items()},
        types={name: sets[number] for name, number in row["types"].items()},
        deprecated=row.get("deprecated", False),
        experimental=row.get("experimental", False),
        random=row.get("random", False),
    )


def _parameters(text: str) -> Iterator[Parameter]:
    for word in text.split():
        match = _PARAMETER.fullmatch(word)
        assert match is not None, word
        minimum = int(match["minimum"]) if match["minimum"] else 1
        yield Parameter(match["name"], match["type"], Option(match["option"]), minimum, not match["mixed"])


def _attribute(kind: str, default: Any = None) -> AttributeSchema:
    value = tuple(default) if isinstance(default, list) else default
    return AttributeSchema(AttributeKind(kind.rstrip("!")), kind.endswith("!"), value)


def resolve(versions: tuple[Schema, ...], opset: int) -> Schema | None:
    """The version that operator set `opset` holds: the newest one that is not newer; None where there is none yet."""
    held = [schema for schema in versions if schema.since <= opset]
    return held[-1] if held else None


#: (domain, operator) to its versions, oldest first; and the newest version of each domain's operator set.
SCHEMAS, NEWEST = read_table(_FOLDER / "standard.json", _FOLDER / "other.json")


def versions_of(domain: str, op_type: str) -> tuple[Schema, ...]:
    """All versions of an operator, oldest first; empty for one that is not known."""
    return SCHEMAS.get((domain, op_type), ())


@lru_cache(maxsize=1 << 12)  # the same few operators over and over in large graphs
def find_schema(domain: str, op_type: str, opset: int) -> Schema | None:
    """The meaning of a node under version `opset` of its operator set.

    None where the operator is unknown or newer.  A schema that is `deprecated` is no operator any more.
    """
    return resolve(versions_of(domain, op_type), opset)


def removed_at(schema: Schema) -> int | None:
    """The version of the operator set that took the operator away; None for one that is there."""
    return schema.since if schema.deprecated else None
