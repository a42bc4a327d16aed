"""Claims of a file about its values against what its operators give."""

from __future__ import annotations

from hwflow_base.printable import clean

from hwflow.onnx.inference.facts import Fact, Holder, TensorFact, Unknown, fact_of, refined, type_of
from hwflow.onnx.inference.worlds import Worlds
from hwflow.onnx.model import (
    Dim,
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
    size_name,
)
from hwflow.onnx.run.operands import describe


def type_words(type_: ValueType | None) -> str:
    """How messages write a type: "float32[n, 3]", "a sequence of float32[?]"."""
    match type_:
        case TensorType(dtype, shape):
            return describe(dtype, shape)
        case SequenceType(element):
            return f"a sequence of {type_words(element)}"
        case OptionalType(element):
            return f"an optional {type_words(element)}"
        case MapType(key, value):
            return f"a map from {describe(key, ())[:-2]} to {type_words(value)}"
        case None:
            return "unknown"
    return "a sparse tensor or a type of another domain"


def type_text(type_: ValueType | None) -> str:
    """How tables and pictures write a type: "float32[batch, 3]"; "?" where it is not known."""
    return "?" if type_ is None else clean(type_words(type_))


def contradiction(fact: Fact, claim: ValueType | None, worlds: Worlds) -> str | None:
    """"float32[2, 3], not float32[2, 4] as the file states" where no sizes make both true; else None."""
    if claim is None or _compatible(fact, claim, worlds):
        return None
    return f"{type_words(type_of(fact, worlds))}, not {type_words(claim)} as the file states"


def is_column(fact: Fact, claim: ValueType | None) -> bool:
    """Whether a result [n, 1] is stated as [n], as CatBoost does for a regressor of one target."""
    return (isinstance(fact, TensorFact) and isinstance(claim, TensorType) and fact.dtype == claim.dtype
            and fact.shape is not None and len(fact.shape) == 2 and fact.shape[1] == 1 and claim.shape is not None
            and len(claim.shape) == 1)


def _compatible(fact: Fact, claim: ValueType | None, worlds: Worlds) -> bool:
    if isinstance(fact, Unknown) or claim is None:
        return True
    if isinstance(fact, TensorFact):
        if isinstance(claim, SparseTensorType):  # it says how the tensor is stored
            claim = TensorType(claim.dtype, claim.shape)
        if not isinstance(claim, TensorType) or (fact.dtype is not None and fact.dtype != claim.dtype):
            return False
        if fact.shape is None or claim.shape is None:
            return True
        sizes = (worlds.reduced(size) for size in fact.shape)
        return len(fact.shape) == len(claim.shape) and all(
            not isinstance(d, int) or not isinstance(size, int) or d < 0 or d == size
            for size, d in zip(sizes, claim.shape, strict=True)
        )
    if isinstance(fact, Holder):
        kind = OptionalType if fact.optional else SequenceType
        return isinstance(claim, kind) and _compatible(fact.element, claim.element, worlds)
    return isinstance(claim, type(fact))


def loose_name(fact: Fact, claim: ValueType | None, worlds: Worlds) -> tuple[str, Dim] | None:
    """A name of an input's size that the file gives to another size, and what that is by the operators."""
    if not isinstance(fact, TensorFact) or not isinstance(claim, TensorType) or fact.shape is None:
        return None
    if claim.shape is None or len(claim.shape) != len(fact.shape):
        return None
    for size, dim in zip(fact.shape, claim.shape, strict=True):
        if isinstance(dim, str) and dim in worlds.given and not worlds.same(worlds.symbols[dim], size):
            text = worlds.text(size)
            if text is not None and text != dim:
                return dim, text
    return None


def named(fact: Fact, claim: ValueType | None, worlds: Worlds) -> None:
    """Let sizes that nothing explains go by the names that the file gives them."""
    if isinstance(fact, Holder) and isinstance(claim, (SequenceType, OptionalType)):
        named(fact.element, claim.element, worlds)
    if not isinstance(fact, TensorFact) or not isinstance(claim, TensorType) or fact.shape is None:
        return
    for size, dim in zip(fact.shape, claim.shape or (), strict=False):
        name = size_name(dim)
        if name is not None:
            worlds.call(size, name)


def shown(fact: Fact, claim: ValueType | None, worlds: Worlds) -> ValueType | None:
    """The type to show: sizes as inferred, and as stated where inference knows less."""
    if claim is None or not _compatible(fact, claim, worlds):
        return type_of(fact, worlds)
    type_ = type_of(refined(fact, fact_of(claim, worlds), worlds), worlds)
    if not isinstance(type_, TensorType) or not isinstance(claim, TensorType):
        return type_ if type_ is not None else claim
    if type_.shape is None or claim.shape is None:
        return TensorType(type_.dtype, type_.shape if claim.shape is None else claim.shape)
    dims = (c if isinstance(c, int) and c >= 0 else d for d, c in zip(type_.shape, claim.shape, strict=True))
    return TensorType(type_.dtype, tuple(dims))
