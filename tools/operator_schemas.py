"""Write the table of operator schemas from the installed `onnx` package: python tools/operator_schemas.py [--check].

The table is a list of facts (names, versions, types, defaults), one schema a line, so that a new release of ONNX shows
as added lines.  The product reads the table and never imports `onnx`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx  # noqa: TID251 - this tool makes the table that frees the product of it
from onnx import defs, helper  # noqa: TID251

TABLE = Path(__file__).parent.parent / "hwflow" / "onnx" / "schemas" / "standard.json"
OPTIONS = {"Single": "", "Optional": "?", "Variadic": "*"}


def parameter(formal: defs.OpSchema.FormalParameter) -> str:
    """`X:T`, `B?:T` optional, `data*1:T` variadic with its smallest number, `data*1~:T` where the types may differ."""
    option = OPTIONS[formal.option.name]
    if option == "*":
        option += str(formal.min_arity) + ("" if formal.is_homogeneous else "~")
    return f"{formal.name}{option}:{formal.type_str.replace(' ', '')}"


def default_of(attribute: defs.OpSchema.Attribute) -> object:
    value = helper.get_attribute_value(attribute.default_value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [v.decode() if isinstance(v, bytes) else v for v in value]
    return value


def attribute_of(attribute: defs.OpSchema.Attribute) -> list[object]:
    """[kind], [kind + "!"] where it is required, [kind, default] where it has one."""
    kind = attribute.type.name.lower()
    if attribute.required:
        return [kind + "!"]
    return [kind, default_of(attribute)] if attribute.default_value.type else [kind]


def schema_of(schema: defs.OpSchema, sets: dict[tuple[str, ...], int]) -> dict[str, object]:
    row: dict[str, object] = {"domain": schema.domain, "name": schema.name, "since": schema.since_version}
    if schema.deprecated:
        row["deprecated"] = True
    if schema.support_level == defs.OpSchema.SupportType.EXPERIMENTAL:
        row["experimental"] = True
    if schema.node_determinism == defs.OpSchema.NodeDeterminism.NonDeterministic:
        row["random"] = True
    row["inputs"] = " ".join(parameter(p) for p in schema.inputs)
    row["outputs"] = " ".join(parameter(p) for p in schema.outputs)
    row["attributes"] = {name: attribute_of(schema.attributes[name]) for name in sorted(schema.attributes)}
    row["types"] = {
        constraint.type_param_str: sets.setdefault(
            tuple(sorted(name.replace(" ", "") for name in constraint.allowed_type_strs)), len(sets)
        )
        for constraint in schema.type_constraints
    }
    return row


def table() -> str:
    sets: dict[tuple[str, ...], int] = {}
    schemas = sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version))
    rows = [json.dumps(schema_of(schema, sets)) for schema in schemas]
    newest = {
        domain: defs.onnx_opset_version()
        if domain == ""
        else max(s.since_version for s in schemas if s.domain == domain)
        for domain in sorted({s.domain for s in schemas})
    }
    head = json.dumps({"source": f"onnx {onnx.__version__}", "newest": newest})[:-1]
    types = ",\n".join(json.dumps(list(names)) for names in sets)
    return f'{head}, "type_sets": [\n{types}\n], "schemas": [\n' + ",\n".join(rows) + "\n]}\n"


def main() -> int:
    text = table()
    if "--check" in sys.argv:
        same = TABLE.read_text() == text
        print("the table is up to date" if same else f"{TABLE} must be written again: python {sys.argv[0]}")
        return 0 if same else 1
    TABLE.write_text(text)
    print(f"{TABLE}: {text.count(chr(10))} lines")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
