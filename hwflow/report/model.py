"""The tables of `hwflow info`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwflow_base.printable import clean

from .console import Console
from .numbers import number
from .texts import shortened

__all__ = ["show_model"]

#: Rows that a table shows at most; --json has all of them.
_MOST = 60


def show_model(console: Console, path: str, facts: Mapping[str, Any]) -> None:
    """Everything in `facts` (report.info) for people.  Texts of the file are made harmless."""
    opsets = ", ".join(f"{clean(domain) or 'ai.onnx'} {version}" for domain, version in facts["opsets"].items())
    producer = clean(facts["producer"]) or "not stated"
    console.say(f"{path}: IR {facts['ir_version']}, opset {opsets or 'none'}, producer {producer}")
    for line in _about(facts):
        console.say(f"  {line}")
    for word, values in (("input", facts["inputs"]), ("input with default", facts["defaults"][:_MOST]),
                         ("output", facts["outputs"])):
        for value in values:
            console.say(f"  {word} {clean(value['name'])}: {value['type']}")
    operators = ", ".join(f"{count} {clean(name)}" for name, count in facts["operators"].items())
    console.say(f"  operators: {operators or 'none'}")
    console.say(f"  parameters: {number(facts['parameters'])} ({number(facts['parameter_bytes'])} bytes)")
    macs = facts["macs"]
    console.say(f"  MACs a frame: {'not known, sizes are open' if macs is None else number(macs)}")
    _show_layers(console, facts["layers"])
    _show_places(console, facts)
    for finding in facts["type_problems"][:_MOST]:
        console.say(f"  types: {clean(finding)}")


def _about(facts: Mapping[str, Any]) -> list[str]:
    """The lines that only some models have."""
    lines = []
    doc = next(iter(facts["doc"].strip().splitlines()), "")
    version = facts["model_version"]
    for word, text in (("domain", facts["domain"]), ("author", facts["author"]), ("license", facts["license"]),
                       ("doc", doc)):
        if text:
            lines.append(f"{word}: {shortened(text, 200)}")
    if version["number"]:
        lines.append(f"model version: {version['text']}")
    for key, text in facts["metadata"].items():
        if key not in ("model_author", "model_license"):
            lines.append(f"metadata {shortened(key, 60)}: {shortened(text, 120)}")
    if facts["functions"]:
        lines.append(f"functions: {', '.join(map(clean, facts['functions'][:_MOST]))}")
    if facts["training"]:
        lines.append(f"training parts: {facts['training']}")
    kinds, widths = facts["quantization"]["kinds"], facts["quantization"]["widths"]
    if kinds:
        parts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        lines.append(f"quantization: {parts}; widths {', '.join(widths) or 'not known'}")
    return lines


def _show_layers(console: Console, layers: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        (shortened(layer["name"], 40), layer["operator"], layer["output"],
         "not known" if layer["macs"] is None else number(layer["macs"]), number(layer["parameters"]))
        for layer in layers[:_MOST]
    ]  # fmt: skip
    if rows:
        console.table("products", ("node", "operator", "output", "MACs", "parameters"), rows)
    if len(layers) > _MOST:
        console.say(f"  and {len(layers) - _MOST} more; --json lists all")


def _show_places(console: Console, facts: Mapping[str, Any]) -> None:
    counts = ", ".join(f"{count} {where}" for where, count in sorted(facts["where"].items()))
    console.say(f"  where nodes run: {counts or 'there are none'}")
    others = [node for node in facts["nodes"] if node["where"] in ("host", "nowhere")]
    rows = [
        (str(node["index"]), shortened(node["name"] or node["output"], 36), shortened(node["operator"], 32),
         node["where"], shortened(node["reason"], 72))
        for node in others[:_MOST]
    ]  # fmt: skip
    if rows:
        console.table("not in hardware", ("number", "node", "operator", "where", "why"), rows, key=2)
    if len(others) > _MOST:
        console.say(f"  and {len(others) - _MOST} more; --json lists all")
    if facts["problem"] is None:
        console.say("  the model becomes hardware")
    elif facts["golden"]:
        first, *lines = facts["problem"].splitlines()
        console.say(f"  {first}")
        for line in lines[:_MOST]:
            console.say(f"  {shortened(line, 200)}")
    else:
        reason = shortened(facts["problem"].splitlines()[0].rstrip(":"), 400)
        console.say(f"  the model does not become hardware: {reason}; `hwflow check` lists all reasons")
