"""Reading the tables of schemas, and finding the schema that a node means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from hwflow.onnx.schemas.schema import AttributeKind, AttributeSchema, Option, Parameter, Schema

__all__ = ["NEWEST", "SCHEMAS", "find_schema", "read_table", "removed_at", "resolve", "versions_of"]

_FOLDER = Path(__file__).parent
_PARAMETER = re.compile(r"(?P<name>[^?*:]*)(?P<option>[?*]?)(?P<minimum>\d*)(?P<mixed>~?):(?P<type>.+)")


def read_table(path: Path) -> tuple[dict[tuple[str, str], tuple[Schema, ...]], dict[str, int]]:
    """The schemas of a table by (domain, operator), oldest version first, and the newest version of each domain."""
    table = json.loads(path.read_text(encoding="utf-8"))
    sets = [frozenset(names) for names in table["type_sets"]]
    found: dict[tuple[str, str], tuple[Schema, ...]] = {}
    for row in table["schemas"]:
        schema = _schema(row, sets)
        key = schema.domain, schema.name
        found[key] = (*found.get(key, ()), schema)
    return found, table["newest"]


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


def _read() -> tuple[dict[tuple[str, str], tuple[Schema, ...]], dict[str, int]]:
    schemas: dict[tuple[str, str], tuple[Schema, ...]] = {}
    newest: dict[str, int] = {}
    for name in ("standard.json", "other.json"):
        more, versions = read_table(_FOLDER / name)
        schemas.update(more)
        newest.update(versions)
    return schemas, newest


#: (domain, operator) to its versions, oldest first; and the newest version of each domain's operator set.
SCHEMAS, NEWEST = _read()


def versions_of(domain: str, op_type: str) -> tuple[Schema, ...]:
    """All versions of an operator, oldest first; empty for one that is not known."""
    return SCHEMAS.get((domain, op_type), ())


@lru_cache(maxsize=1 << 12)  # the same few operators over and over in large graphs
def find_schema(domain: str, op_type: str, opset: int) -> Schema | None:
    """What a node means under version `opset` of its operator set.

    None where the operator is unknown or newer.  A schema that is `deprecated` is no operator any more.
    """
    return resolve(versions_of(domain, op_type), opset)


def removed_at(schema: Schema) -> int | None:
    """The version of the operator set that took the operator away; None for one that is there."""
    return schema.since if schema.deprecated else None
