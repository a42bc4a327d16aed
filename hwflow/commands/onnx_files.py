"""The commands `hwflow onnx ...`: work on ONNX files that has nothing to do with hardware."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import require_folder, same_file
from hwflow_base.printable import clean

from .. import onnx
from ..onnx.container.files import read
from ..onnx.container.opset_document import MAGIC, load_operator_set
from ..onnx.conversion import imported_sets
from ..onnx.limits import DEFAULT_LIMITS, Limits
from ..onnx.model import Model
from ..onnx.rules.catalogue import CATALOGUE, CONFLICTS, RuleEntry
from ..onnx.rules.walk import tensors
from ..onnx.versioning.diff import Bump, Change, compare_models, largest, next_version
from ..onnx.versioning.diff_sets import compare_operator_sets
from ..onnx.versioning.semantic import version_text
from ..report.console import Console
from ..report.texts import type_text

__all__ = ["convert", "diff", "extract", "require_apart", "rules"]

Result = Mapping[str, Any]


def diff(console: Console, old: Path, new: Path, limits: Limits = DEFAULT_LIMITS) -> Result:
    """The changes from one model or operator set document to another; exit code 1 for a breaking one."""
    kinds = {_is_operator_set(path) for path in (old, new)}
    if len(kinds) > 1:
        raise HwflowError(f"{old} and {new} must be two models or two operator sets, not one of each")
    if kinds == {True}:
        changes = compare_operator_sets(load_operator_set(old), load_operator_set(new))
        facts: dict[str, Any] = {}
    else:
        models = onnx.load(old, limits=limits), onnx.load(new, limits=limits)
        changes = compare_models(*models)
        facts = _versions(models[0].model_version, models[1].model_version, largest(changes))
    bump = largest(changes)
    for change in sorted(changes, key=lambda change: -change.bump):
        console.say(str(change))
    console.say(_summary(old, new, changes, facts))
    return {
        "exit_code": int(bump is Bump.MAJOR),
        "bump": bump.name.lower(),
        "changes": [{**asdict(change), "bump": change.bump.name.lower()} for change in changes],
        **facts,
    }


def _is_operator_set(path: Path) -> bool:
    try:
        if not path.is_file():  # opening a pipe would wait for whoever writes to it
            return False
        with path.open("rb") as file:
            return MAGIC.encode() in file.read(len(MAGIC) + 2)
    except OSError:
        return False  # loading it says what is wrong


def _versions(old: int, new: int, bump: Bump) -> dict[str, Any]:
    return {"old_version": version_text(old), "new_version": version_text(new), "needed": str(next_version(old, bump))}


def _summary(old: Path, new: Path, changes: tuple[Change, ...], facts: Mapping[str, Any]) -> str:
    if not changes:
        return f"{new}: nothing that matters to its version differs from {old}"
    bump = largest(changes)
    kind = "breaking" if bump is Bump.MAJOR else "compatible"
    if not facts:
        return f"{new}: {kind} changes"
    return (
        f"{new}: {kind}; as a {bump.name.lower()} change of version {facts['old_version']} it should have "
        f"version {facts['needed']}, and has {facts['new_version']}"
    )


def convert(
    console: Console,
    source: Path,
    target: Path,
    external_data: bool,
    opsets: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Result:
    """Write a model again: binary or text by the suffix of the file, its weights inside or beside it.

    `opsets` are the versions of operator sets, by domain, that it shall have.
    """
    require_folder(target)
    model = onnx.load(source, limits=limits)
    if opsets:
        model = _in_sets(console, source, model, opsets, limits)
    if target.exists() or external_data:
        require_apart(source, target, limits)
    onnx.save(model, target, external=True if external_data else None)
    console.say(f"{target}: written, {target.stat().st_size} bytes" + (" and its data beside it" * external_data))
    sets = {domain or "ai.onnx": version for domain, version in model.opsets.items()}
    return {"exit_code": 0, "path": str(target), "bytes": target.stat().st_size, "opsets": sets}


def _in_sets(console: Console, source: Path, model: Model, opsets: Mapping[str, int], limits: Limits) -> Model:
    """The model in other operator sets; says what became of its nodes."""
    imported = imported_sets(model)
    missing = [domain or "ai.onnx" for domain in opsets if domain not in imported]
    if missing:
        raise HwflowError(f"{source} must import the operator set {missing[0]} to convert it; it does not use it")
    converted = onnx.convert_opset(model, opsets, limits)
    for domain, version in opsets.items():
        name, before = domain or "ai.onnx", imported[domain]
        console.say(f"{name}: version {version}" + (f", before {before}" if before != version else " already"))
    kept = {id(node) for node in model.graph.nodes}
    new = sum(id(node) not in kept for node in converted.graph.nodes)
    console.say(f"nodes: {len(converted.graph.nodes)}, {new} of them new; the source has {len(model.graph.nodes)}")
    return converted


def extract(
    console: Console, source: Path, target: Path, inputs: tuple[str, ...], outputs: tuple[str, ...],
    limits: Limits = DEFAULT_LIMITS,
) -> Result:  # fmt: skip
    """Write the part of a model between some tensors and some others as a model."""
    if same_file(source, target):
        raise HwflowError(
            "the part must not replace the model that it is cut from", "choose another name", where=str(target)
        )
    require_folder(target)
    model = onnx.load(source, limits=limits)
    part = onnx.extract(model, inputs or None, outputs or None, limits)
    if target.exists():
        require_apart(source, target, limits)
    onnx.save(part, target)
    if model.training:
        console.say("the training parts of the model are left out: they belong to the whole model")
    console.say(f"{target}: written, {len(part.graph.nodes)} of {len(model.graph.nodes)} nodes, "
                f"{target.stat().st_size} bytes")
    ends = {"input": part.graph.inputs, "output": part.graph.outputs}
    for what, values in ends.items():
        for value in values:
            console.say(f"  {what} {clean(value.name)}: {type_text(value.type)}")
    return {
        "exit_code": 0, "path": str(target), "bytes": target.stat().st_size, "nodes": len(part.graph.nodes),
        **{f"{what}s": [{"name": v.name, "type": type_text(v.type)} for v in values] for what, values in ends.items()},
    }  # fmt: skip


def require_apart(source: Path, target: Path, limits: Limits) -> None:
    """Refuse to write over the weights of the source, unless the source itself is replaced as well."""
    if same_file(source, target):
        return
    document = read(source, limits=limits)
    locations = {e.value for place in tensors(document) for e in place.proto.external_data if e.key == "location"}
    for path in (target, target.parent / f"{target.name}.data"):
        if any(same_file(path, source.parent / location) for location in locations):
            raise HwflowError(
                f"must not be the file that has the weights of {source}", "choose another name", where=str(path)
            )


def rules(console: Console, rule: str | None) -> Result:
    """The catalogue of rules, or one of them."""
    if rule is None:
        entries = tuple(CATALOGUE.values())
        rows = [(entry.rule, entry.level.value, entry.checked, entry.title) for entry in entries]
        console.table("rules of ONNX", ("rule", "level", "where", "what"), rows)
        return {"exit_code": 0, "rules": [_facts(entry) for entry in entries]}
    entry = CATALOGUE.get(rule.upper())
    if entry is None:
        close = difflib.get_close_matches(rule.upper(), CATALOGUE, n=3)
        guess = f"; did you mean {', '.join(close)}?" if close else ""
        raise HwflowError(f"the rule must be one that `hwflow onnx rules` lists, not '{rule}'{guess}")
    console.say(f"{entry.rule} ({entry.level.value}): {entry.title}; enforced in: {entry.checked}")
    if conflict := CONFLICTS.get(entry.rule):
        console.say(f"  {conflict}")
    return {"exit_code": 0, **_facts(entry)}


def _facts(entry: RuleEntry) -> dict[str, str]:
    return {"rule": entry.rule, "level": entry.level.value, "checked": entry.checked, "title": entry.title,
            "conflict": CONFLICTS.get(entry.rule, "")}  # fmt: skip
