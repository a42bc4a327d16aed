"""Types of operators on sequences and optionals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from hwflow.onnx.inference.by_rule import Contradiction
from hwflow.onnx.inference.facts import UNKNOWN, Fact, Holder, TensorFact, fact_of, join
from hwflow.onnx.inference.schema_types import attribute_dtype
from hwflow.onnx.inference.worlds import Size, Worlds
from hwflow.onnx.model import MapType, OptionalType, SequenceType, TensorType
from hwflow.onnx.ops.base import Call

_INT64, _BOOL = np.dtype(np.int64), np.dtype(np.bool_)
#: Takes the call, its operands, and the worlds; gives the outputs.
Rule: TypeAlias = Callable[[Call, Sequence[Fact | None], Worlds], list[Fact]]


def _element(fact: Fact | None) -> Fact:
    return fact.element if isinstance(fact, Holder) else UNKNOWN


def _plain(fact: Fact | None) -> Fact:
    """Without elements: what one of many is."""
    return replace(fact, elements=None) if isinstance(fact, TensorFact) else fact or UNKNOWN


def _joined(facts: Sequence[Fact | None], worlds: Worlds) -> Fact:
    fact = _plain(facts[0]) if facts else UNKNOWN
    for other in facts[1:]:
        fact = join(fact, _plain(other), worlds)
    return fact


def _construct(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [Holder(False, _joined(operands, worlds))]


def _empty(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    dtype = attribute_dtype(call, "dtype") or np.dtype(np.float32)
    return [Holder(False, TensorFact(dtype, None))]


def _at(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [_element(operands[0])]


def _insert(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [Holder(False, join(_element(operands[0]), _plain(operands[1]), worlds))]


def _erase(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [operands[0] or UNKNOWN]


def _length(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [TensorFact(_INT64, ())]


def _split_to_sequence(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    """Parts of equal size where the size is one constant that divides the axis, and without their axis by default."""
    x = operands[0]
    if not isinstance(x, TensorFact) or x.shape is None:
        return [Holder(False, TensorFact(x.dtype, None) if isinstance(x, TensorFact) else UNKNOWN)]
    axis = call.node.attributes.get("axis", 0)
    rank = len(x.shape)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return [Holder(False, TensorFact(x.dtype, None))]
    place = axis % rank
    split = operands[1] if len(operands) > 1 else None
    if split is None:
        part: tuple[Size, ...] = (1,) if call.node.attributes.get("keepdims", 1) else ()
    else:
        part = (_part(split, x.shape[place], worlds),)
    return [Holder(False, TensorFact(x.dtype, (*x.shape[:place], *part, *x.shape[place + 1 :])))]


def _part(split: Fact, whole: Size, worlds: Worlds) -> Size:
    sizes = split.elements if isinstance(split, TensorFact) else None
    if not isinstance(sizes, np.ndarray) or not sizes.size:
        return worlds.fresh()
    first, least = int(sizes.reshape(-1)[0]), 0 if sizes.ndim else 1
    if int(sizes.min()) < least:
        raise Contradiction(f"'split' must be {least} or more, not {int(sizes.min())}")
    if sizes.ndim:
        return first if bool((sizes == first).all()) else worlds.fresh()
    return first if isinstance(whole, int) and whole % first == 0 else worlds.fresh()


def _concat_from_sequence(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    x = _element(operands[0])
    if not isinstance(x, TensorFact) or x.shape is None:
        return [TensorFact(x.dtype, None) if isinstance(x, TensorFact) else UNKNOWN]
    axis, new = call.node.attributes.get("axis"), bool(call.node.attributes.get("new_axis", 0))
    rank = len(x.shape) + new
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return [TensorFact(x.dtype, None)]
    place = axis % rank
    rest = x.shape[place:] if new else x.shape[place + 1 :]
    return [TensorFact(x.dtype, (*x.shape[:place], worlds.fresh(), *rest))]


def _optional(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    if operands and operands[0] is not None:
        return [Holder(True, _plain(operands[0]))]
    stated = call.node.attributes.get("type")
    known = isinstance(stated, (TensorType, SequenceType, OptionalType))
    return [Holder(True, fact_of(stated, worlds) if known else UNKNOWN)]  # type: ignore[arg-type]


def _get_element(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    x = operands[0]
    return [x.element if isinstance(x, Holder) and x.optional else x or UNKNOWN]


def _has_element(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [TensorFact(_BOOL, ())]


def _zip_map(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    texts = bool(call.node.attributes.get("classlabels_strings"))
    value = TensorType(np.dtype(np.float32), None)
    return [Holder(False, MapType(np.dtype(np.object_) if texts else _INT64, value))]


#: By domain and operator.
SEQUENCES: Mapping[tuple[str, str], Rule] = {
    ("", "ConcatFromSequence"): _concat_from_sequence,
    ("", "Optional"): _optional,
    ("", "OptionalGetElement"): _get_element,
    ("", "OptionalHasElement"): _has_element,
    ("", "SequenceAt"): _at,
    ("", "SequenceConstruct"): _construct,
    ("", "SequenceEmpty"): _empty,
    ("", "SequenceErase"): _erase,
    ("", "SequenceInsert"): _insert,
    ("", "SequenceLength"): _length,
    ("", "SplitToSequence"): _split_to_sequence,
    ("ai.onnx.ml", "ZipMap"): _zip_map,
}
