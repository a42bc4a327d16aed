"""`hwflow onnx diff`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.later import later
from hwflow_base.options import Option

from ...onnx.limits import DEFAULT_LIMITS
from ...options import LimitsOption

with later():
    from ... import onnx
    from ...onnx.container import opset_document
    from ...onnx.container.opset_document import load_operator_set
    from ...onnx.versioning.diff import Bump, Change, compare_models, compare_operator_sets, largest, next_version
    from ...onnx.versioning.numbers import version_text
    from ...views.console.terminal import Console

Result = Mapping[str, object]


@dataclass(frozen=True)
class DiffRequest:
    """The request of `hwflow onnx diff`."""

    old: Annotated[Path, Option(argument=True)]
    new: Annotated[Path, Option(argument=True)]
    limits: LimitsOption = DEFAULT_LIMITS


def diff(console: Console, request: DiffRequest) -> Result:
    """Show the changes from the model (or operator set) OLD to NEW, and which part of its version must grow.

    Exit codes: 0 if callers of OLD can use NEW; 1 for a breaking change.
    """
    old, new, limits = request.old, request.new, request.limits
    kinds = {_is_operator_set(path) for path in (old, new)}
    if len(kinds) > 1:
        raise HwflowError(f"{old} and {new} must be two models or two operator sets, not one of each")
    if kinds == {True}:
        changes = compare_operator_sets(load_operator_set(old), load_operator_set(new))
        facts: dict[str, object] = {}
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
            return opset_document.MAGIC.encode() in file.read(len(opset_document.MAGIC) + 2)
    except OSError:
        return False  # loading it says what is wrong


def _versions(old: int, new: int, bump: Bump) -> dict[str, object]:
    return {"old_version": version_text(old), "new_version": version_text(new), "needed": str(next_version(old, bump))}


def _summary(old: Path, new: Path, changes: tuple[Change, ...], facts: Mapping[str, object]) -> str:
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
