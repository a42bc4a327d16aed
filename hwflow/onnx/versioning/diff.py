"""Changes between two versions of a model, an operator or an operator set, and which part of a version must grow.

Source: Versioning.md, "Operator versioning" and "Model versioning".  Sizes of dims count as a part of the type.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from hwflow.onnx.container.opset_document import OperatorSet
from hwflow.onnx.dtypes import type_name
from hwflow.onnx.model import (
    Dim,
    DType,
    Function,
    Graph,
    MapType,
    Model,
    OptionalType,
    SequenceType,
    SparseTensor,
    SparseTensorType,
    TensorType,
    Value,
    ValueType,
)
from hwflow.onnx.run.operands import describe
from hwflow.onnx.schemas import Parameter, Schema
from hwflow.onnx.versioning.numbers import SemanticVersion, unpack


class Bump(enum.IntEnum):
    """The part of a version that must grow; of an operator, which has one number, any change of MAJOR makes it grow."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3


@dataclass(frozen=True)
class Change:
    """One difference: the rule that judges it, the place, and what is different."""

    bump: Bump
    rule: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.bump.name.lower()}: {self.where}: {self.what} [{self.rule}]"


def largest(changes: Sequence[Change]) -> Bump:
    """The step of the version number that all changes together need."""
    return max((change.bump for change in changes), default=Bump.NONE)


def next_version(old: int, bump: Bump) -> int | SemanticVersion:
    """The least version that a model may have which `old` became by such changes; plain numbers only count up."""
    version = unpack(old)
    if bump is Bump.NONE:
        return version
    if isinstance(version, int):
        return version + 1
    match bump:
        case Bump.MAJOR:
            return SemanticVersion(version.major + 1, 0, 0)
        case Bump.MINOR:
            return SemanticVersion(version.major, version.minor + 1, 0)
    return SemanticVersion(version.major, version.minor, version.patch + 1)


def compare_models(old: Model, new: Model) -> tuple[Change, ...]:
    """Changes for the callers of a model (VER-14, VER-15), then what changed inside (VER-16)."""
    return (
        *_inputs(old.graph, new.graph),
        *_outputs(old.graph.outputs, new.graph.outputs),
        *_inside(old, new),
    )


def _inputs(old: Graph, new: Graph) -> Iterator[Change]:
    needed = {value.name for value in new.inputs}
    had_default = {value.name for value in old.overridable}
    before = {value.name: value for value in (*old.inputs, *old.overridable)}
    after = {value.name: value for value in (*new.inputs, *new.overridable)}
    yield from _order("input", [v.name for v in old.inputs], [v.name for v in new.inputs])
    for name in [name for name in before if name not in after]:
        yield Change(Bump.MAJOR, "VER-14", f"input '{name}'", "is removed or renamed: callers that feed it fail")
    for name, value in after.items():
        where = f"input '{name}'"
        if name not in before:
            if name in needed:
                yield Change(Bump.MAJOR, "VER-14", where, "is new and has no default")
            else:
                yield Change(Bump.MINOR, "VER-15", where, "is new and has a default")
            continue
        if name in had_default and name in needed:
            yield Change(Bump.MAJOR, "VER-14", where, "has no default any more")
        elif name not in had_default and name not in needed:
            yield Change(Bump.MINOR, "VER-15", where, "has a default now")
        yield from _type(where, before[name].type, value.type, is_input=True)


def _outputs(old: Sequence[Value], new: Sequence[Value]) -> Iterator[Change]:
    before, after = ({value.name: value.type for value in values} for values in (old, new))
    yield from _order("output", list(before), list(after))
    for name in [name for name in before if name not in after]:
        yield Change(Bump.MAJOR, "VER-14", f"output '{name}'", "is removed or renamed")
    for name in after:
        if name not in before:
            yield Change(Bump.MINOR, "VER-15", f"output '{name}'", "is new")
        else:
            yield from _type(f"output '{name}'", before[name], after[name], is_input=False)


def _order(kind: str, old: list[str], new: list[str]) -> Iterator[Change]:
    """Callers may go by position: those that stay keep their order, and new ones stand behind them."""
    common = [name for name in new if name in set(old)]
    if common != [name for name in old if name in set(new)]:
        yield Change(Bump.MAJOR, "VER-14", f"{kind}s", f"are in another order: {', '.join(common)}")
    elif len(common) == len(old) and new[: len(common)] != common:
        yield Change(Bump.MAJOR, "VER-14", f"{kind}s", "are at other positions: a new one must come after the others")


def _type(where: str, old: ValueType | None, new: ValueType | None, *, is_input: bool) -> Iterator[Change]:
    if _shown(old) == _shown(new):
        return
    change = f"has the type {_shown(new)}, before {_shown(old)}"
    if _fits(old, new, is_input=is_input):
        yield Change(Bump.MINOR, "VER-15", where, change)
    else:
        yield Change(Bump.MAJOR, "VER-14", where, change)


def _shown(type_: ValueType | None) -> str:
    """A text like "float32[1, 3]", "sequence of int64[?]"."""
    words = []
    while isinstance(type_, (SequenceType, OptionalType, MapType)):
        match type_:
            case MapType(key, value):
                words.append(f"map from {type_name(key)} to ")
                type_ = value
            case SequenceType(element) | OptionalType(element):
                words.append("sequence of " if isinstance(type_, SequenceType) else "optional ")
                type_ = element
    match type_:
        case None:
            words.append("something not stated")
        case TensorType(dtype, shape):
            words.append(describe(dtype, shape))
        case SparseTensorType(dtype, shape):
            words.append(f"sparse {describe(dtype, shape)}")
        case other:
            words.append(f"{other.domain}.{other.name}")
    return "".join(words)


def _fits(old: ValueType | None, new: ValueType | None, *, is_input: bool) -> bool:
    """Whether who knew the old type can live with the new one."""
    if not isinstance(old, TensorType) or not isinstance(new, TensorType):
        return new is None and is_input
    if not _widens(old.dtype, new.dtype):
        return False
    if old.shape is None or new.shape is None:
        return new.shape is None or not is_input
    return len(old.shape) == len(new.shape) and all(
        _dim_fits(a, b, is_input) for a, b in zip(old.shape, new.shape, strict=True)
    )


def _dim_fits(old: Dim, new: Dim, is_input: bool) -> bool:
    """Inputs may become open, not fixed; an output may become both."""
    if isinstance(old, int) and isinstance(new, int):
        return old == new
    return not (is_input and isinstance(new, int))


def _widens(old: DType, new: DType) -> bool:
    """Whether each value of `old` is one of `new`, a type of the same kind."""
    if old == new:
        return True
    try:
        first, second = ml_dtypes.iinfo(old), ml_dtypes.iinfo(new)  # type: ignore[no-untyped-call]
        return bool(second.min <= first.min and first.max <= second.max)
    except ValueError:
        pass
    try:
        one, two = ml_dtypes.finfo(old), ml_dtypes.finfo(new)  # type: ignore[no-untyped-call]
    except ValueError:
        return False
    same_kind = (old.kind == "c") == (new.kind == "c")
    return bool(same_kind and one.nmant <= two.nmant and one.maxexp <= two.maxexp)


def _inside(old: Model, new: Model) -> Iterator[Change]:
    for what, first, second in (
        ("IR version", old.ir_version, new.ir_version),
        ("operator sets", _opsets(old), _opsets(new)),
    ):
        if first != second:
            yield Change(Bump.PATCH, "VER-16", what, f"{second}, before {first}")
    changed = _changed_weights(old.graph, new.graph)
    if changed:
        more = ", ..." if len(changed) > 1 else ""
        yield Change(Bump.PATCH, "VER-16", "weights", f"{len(changed)} differ: '{changed[0]}'{more}")
    if not same(old.graph.nodes, new.graph.nodes) or not same(old.functions, new.functions):
        count = f"{len(new.graph.nodes)} nodes, before {len(old.graph.nodes)}"
        yield Change(Bump.PATCH, "VER-16", "nodes", f"what they compute or how differs ({count})")


def _opsets(model: Model) -> str:
    return ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(model.opsets.items())) or "none"


def _changed_weights(old: Graph, new: Graph) -> list[str]:
    first = {**old.initializers, **old.sparse_initializers}
    second = {**new.initializers, **new.sparse_initializers}
    names = dict.fromkeys((*first, *second))
    return [name for name in names if name not in first or name not in second or not same(first[name], second[name])]


def same(old: object, new: object) -> bool:
    """Equality of parts of models; arrays bit for bit.  Graphs nest no deeper than a file can hold, 32 levels."""
    if type(old) is not type(new):
        return False
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        same_type = old.dtype == new.dtype and old.shape == new.shape
        if old.dtype == object:
            return same_type and bool((old == new).all())
        return same_type and old.tobytes() == new.tobytes()
    if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)):
        return len(old) == len(new) and all(map(same, old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(same(old[key], new[key]) for key in old)
    if isinstance(old, (Graph, Function, SparseTensor)) or hasattr(old, "op_type"):
        return all(same(value, getattr(new, name)) for name, value in vars(old).items() if name != "extra")
    return old == new


def compare_schemas(old: Schema, new: Schema) -> tuple[Change, ...]:
    """Changes that make `new` another operator than `old` (OS-16): it needs another first version."""
    where = f"operator {old.identifier.rpartition(':')[0]}"
    changes = (
        *_attributes(old, new),
        *_parameters("input", old, new, old.inputs, new.inputs),
        *_parameters("output", old, new, old.outputs, new.outputs),
        *(["is taken away"] if new.deprecated and not old.deprecated else []),
    )
    return tuple(Change(Bump.MAJOR, "OS-16", where, what) for what in changes)


def _attributes(old: Schema, new: Schema) -> Iterator[str]:
    for name in dict.fromkeys((*old.attributes, *new.attributes)):
        if name not in new.attributes:
            yield f"attribute '{name}' is removed or renamed"
        elif name not in old.attributes:
            yield f"attribute '{name}' is new"  # an optional one too: older implementations refuse it
        elif old.attributes[name] != new.attributes[name]:
            yield f"attribute '{name}' has another kind or default"


def _parameters(
    kind: str, old_schema: Schema, new_schema: Schema, old: Sequence[Parameter], new: Sequence[Parameter]
) -> Iterator[str]:
    names, new_names = [p.name for p in old], [p.name for p in new]
    if names != new_names:
        if sorted(names) == sorted(new_names):
            yield f"{kind}s are in another order: {', '.join(new_names)}"
        else:
            yield f"{kind}s are {', '.join(new_names) or 'none'}, before {', '.join(names) or 'none'}"
        return
    for before, after in zip(old, new, strict=True):
        where = f"{kind} '{before.name}'"
        if (before.option, before.minimum, before.homogeneous) != (after.option, after.minimum, after.homogeneous):
            yield f"{where} may be given another number of times"
        first, second = old_schema.allowed(before), new_schema.allowed(after)
        if first - second:
            yield f"{where} must not be {', '.join(sorted(first - second))} any more"
        if second - first:
            yield f"{where} may be {', '.join(sorted(second - first))} too"


def compare_operator_sets(old: OperatorSet, new: OperatorSet) -> tuple[Change, ...]:
    """All differences; Bump.MAJOR where users of the old set break, or where a number should have grown."""
    differences = tuple(_operators(old, new))
    if old.domain != new.domain:
        what = f"is that of '{new.domain}', not of '{old.domain}': two sets, not two versions of one"
        differences = (Change(Bump.MAJOR, "OS-12", "operator set", what), *differences)
    elif differences and new.version <= old.version:
        what = f"must have a version above {old.version} for these changes, not {new.version}"
        differences = (Change(Bump.MAJOR, "OS-13", "operator set", what), *differences)
    return differences


def _operators(old: OperatorSet, new: OperatorSet) -> Iterator[Change]:
    before, after = ({entry.name: entry for entry in operator_set.operators} for operator_set in (old, new))
    bodies, new_bodies = ({f.name: f for f in operator_set.functions} for operator_set in (old, new))
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
