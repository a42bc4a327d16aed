"""What changed between two versions of an operator set document, and whether their numbers say so (OS-13, OS-17)."""

from __future__ import annotations

from collections.abc import Iterator

from hwflow.onnx.container.opset_document import OperatorSet
from hwflow.onnx.versioning.diff import Bump, Change, same


def compare_operator_sets(old: OperatorSet, new: OperatorSet) -> tuple[Change, ...]:
    """What is different; Bump.MAJOR where users of the old set break, or where a number should have grown."""
    found = tuple(_operators(old, new))
    if old.domain != new.domain:
        what = f"is that of '{new.domain}', not of '{old.domain}': two sets, not two versions of one"
        found = (Change(Bump.MAJOR, "OS-12", "operator set", what), *found)
    elif found and new.version <= old.version:
        what = f"must have a version above {old.version} for these changes, not {new.version}"
        found = (Change(Bump.MAJOR, "OS-13", "operator set", what), *found)
    return found


def _operators(old: OperatorSet, new: OperatorSet) -> Iterator[Change]:
    before, after = ({entry.name: entry for entry in found.operators} for found in (old, new))
    bodies, new_bodies = ({f.name: f for f in found.functions} for found in (old, new))
    for name in dict.fromkeys((*before, *after)):
        where = f"operator {old.domain or 'ai.onnx'}.{name}"
        if name not in after:
            yield Change(Bump.MAJOR, "OS-16", where, "is removed")
        elif name not in before:
            yield Change(Bump.MINOR, "OS-13", where, f"is new since version {after[name].since}")
        elif before[name].since != after[name].since:
            what = f"is another operator since version {after[name].since}, before {before[name].since}"
            yield Change(Bump.MAJOR, "OS-16", where, what)
        elif not same(bodies.get(name), new_bodies.get(name)):
            what = f"computes something else, and must have another first version than {before[name].since}"
            yield Change(Bump.MAJOR, "OS-17", where, what)
        elif before[name].stable and not after[name].stable:
            yield Change(Bump.MAJOR, "OS-10", where, "is experimental, before stable")
