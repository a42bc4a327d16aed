"""Writes docs/operators.md: what hwflow does with every operator of ONNX, from the tables that the code itself uses.

    python tools/operator_support.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hwflow.onnx import operators
from hwflow.onnx.operators import COMPUTED, HOST_AFTER, HOST_BEFORE, HOST_ONLY, NEVER_ON_HOST
from hwflow.onnx.ops import OPERATORS
from hwflow.onnx.schemas.schema import SCHEMAS
from hwflow.onnx.traits import FUSED
from hwflow.quantize.dialects.standard import RULES

#: The rows of what becomes hardware.
CATALOGUE = {key: row for key, row in operators.OPERATORS.items() if row.layers}

TARGET = Path(__file__).parent.parent / "docs" / "operators.md"

HEAD = """# Operators

<!-- Written by tools/operator_support.py (`make docs`); do not edit. -->

What hwflow does with each operator of ONNX. `hwflow check --hardware model.onnx` says the same of every node of a
model, and why a node has no hardware and what to do.

- **Versions** are the operator set versions in which the operator's meaning changed and which hwflow evaluates; a model
  may import any operator set in between.
- **Hardware** names the [layer kinds](architecture.md) that the operator becomes between layers. *Fused*: it is a part
  of the layer before it, or costs nothing.
- **Host**: the host evaluates the operator with numpy before the first layer, after the last one, or both.
- Any operator of constants alone, or of shapes, is folded before anything runs. A layer
  that reads floats in the file becomes integers first ([quantization](quantization-guide.md)).
"""


def text() -> str:
    """The whole document."""
    listed = [key for key in OPERATORS if key in CATALOGUE]
    around = [key for key in OPERATORS if key not in CATALOGUE and (host(*key).before or host(*key).after)]
    rest = [key for key in OPERATORS if key not in CATALOGUE and key not in around]
    without = [key for key in SCHEMAS if key not in OPERATORS]
    parts = [HEAD]
    for domain in ordered({domain for domain, _ in listed}):
        names = sorted(name for other, name in listed if other == domain)
        rows = [(name, versions(domain, name), becomes(domain, name), where(domain, name),
                 CATALOGUE[domain, name].limits) for name in names]
        parts.append(f"## In hardware: `{domain or 'ai.onnx'}`\n\n"
                     + table(("operator", "versions", "hardware", "host", "within these limits"), rows))
    parts.append("## On the host, around the hardware\n\n"
                 "Between layers they have no hardware.\n\n" + domains(around, hosted=True))
    parts.append("## Evaluated, but neither hardware nor host\n\n"
                 "`hwflow.onnx.evaluate` computes them. In a model for hardware they are refused, unless they compute "
                 "with constants: layers with weights of their own, control flow, and operators of other domains.\n\n"
                 + domains(rest) + seen_through(rest))
    if without:
        parts.append("## Known, but not evaluated\n\nThe checker knows their rules.\n\n" + domains(without))
    return "\n".join(parts)


def seen_through(keys: Sequence[tuple[str, str]]) -> str:
    """A line for each operator in whose place other nodes stand."""
    rows = [(name, operators.OPERATORS[domain, name].limits) for domain, name in sorted(keys)
            if (domain, name) in operators.OPERATORS and operators.OPERATORS[domain, name].limits]
    return "\nSome are seen through: other nodes stand in their place, and these become hardware.\n\n" + table(
        ("operator", "with"), rows)


@dataclass(frozen=True)
class Host:
    """Where the host may run an operator around the hardware: in front of the first layer, behind the last."""

    before: bool
    after: bool


def host(domain: str, op_type: str) -> Host:
    """What the host does with an operator that hwflow evaluates."""
    if (domain, op_type) == ("com.microsoft", "QLinearSoftmax"):  # becomes Softmax between quantizers
        return Host(before=False, after=True)
    if domain not in ("", "ai.onnx.ml") or op_type in NEVER_ON_HOST or (domain, op_type) in RULES:
        return Host(before=False, after=False)
    if domain or ("", op_type) in COMPUTED or (("", op_type) not in CATALOGUE and op_type not in HOST_ONLY):
        return Host(before=True, after=True)
    # A node of HOST_ONLY, like one that moves elements by computed numbers, goes in front with all that it needs.
    return Host(before=op_type in HOST_BEFORE | HOST_ONLY, after=op_type in HOST_AFTER)


def ordered(found: Iterable[str]) -> list[str]:
    """The domain of ONNX first."""
    return sorted(found, key=lambda domain: (domain != "", domain))


def versions(domain: str, name: str) -> str:
    """Those with a meaning of their own; where a set has taken one away, the one that brought it back."""
    schemas, found = SCHEMAS.get((domain, name), ()), list[int]()
    for version in OPERATORS[domain, name]:
        gone = any(schema.since == version.since and schema.deprecated for schema in schemas)
        later = [schema.since for schema in schemas if schema.since > version.since and not schema.deprecated]
        found.append(later[0] if gone and later else version.since)
    return ", ".join(map(str, found))


def becomes(domain: str, name: str) -> str:
    return ", ".join("fused" if kind == FUSED else f"`{kind}`" for kind in CATALOGUE[domain, name].layers)


def where(domain: str, name: str) -> str:
    found = host(domain, name)
    return " and ".join(word for word, there in (("before", found.before), ("after", found.after)) if there)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def domains(keys: Sequence[tuple[str, str]], *, hosted: bool = False) -> str:
    """A line for each domain."""
    lines = []
    for domain in ordered({domain for domain, _ in keys}):
        names = []
        for name in sorted(name for other, name in keys if other == domain):
            only = f" ({where(domain, name)})" if hosted and where(domain, name) != "before and after" else ""
            names.append(f"{name}{only}")
        lines.append(f"- `{domain or 'ai.onnx'}`: {', '.join(names)}\n")
    return "".join(lines)


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    print(f"{TARGET.name} written")
