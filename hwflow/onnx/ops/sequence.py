"""Sequences of tensors, and values that may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from hwflow.onnx.dtypes import element_type, type_name
from hwflow.onnx.model import Operand, OptionalType
from hwflow.onnx.ops.base import Arr, Call, Operator, Table, axis_in

T = TypeVar("T")


def _same_type(call: Call, elements: Sequence[T]) -> list[T]:
    """The elements as a list, after their element types were compared."""
    kinds = {type_name(element.dtype) for element in elements if isinstance(element, np.ndarray)}
    if len(kinds) > 1:
        raise call.error(f"the elements of a sequence must be of one type, not {' and '.join(sorted(kinds))}")
    return list(elements)


def _construct(call: Call, *elements: Arr) -> list[Arr]:
    return _same_type(call, elements)


def _empty(call: Call) -> list[Arr]:
    element_type(call.integer("dtype", 1), f"the elements of {call.node.label}")  # float where nothing is said
    return []


def _index(call: Call, position: Arr | None, size: int, default: int) -> int:
    """A position counted from the front; 0 to size - 1."""
    if position is None:
        index = default
    elif position.size != 1:
        raise call.error(f"the position must be one integer, not an array of shape {list(position.shape)}")
    else:
        index = int(position.reshape(()))
    if not -size <= index < size:
        allowed = f"{-size} to {size - 1}" if size else "inside of the sequence, which is empty"
        raise call.error(f"the position must be {allowed}, not {index}")
    return index % size


def _insert(call: Call, sequence: list[Arr], element: Arr, position: Arr | None = None) -> list[Arr]:
    """In front of the element at the position, by default at the end."""
    size = len(sequence)
    if position is not None and position.size == 1 and int(position.reshape(())) == size:
        position = None
    index = size if position is None else _index(call, position, size, size)
    _same_type(call, [*sequence[:1], element])  # the others were compared when they came in
    return [*sequence[:index], element, *sequence[index:]]


def _erase(call: Call, sequence: list[Arr], position: Arr | None = None) -> list[Arr]:
    index = _index(call, position, len(sequence), -1)
    return [*sequence[:index], *sequence[index + 1 :]]


def _at(call: Call, sequence: list[Arr], position: Arr) -> Arr:
    return sequence[_index(call, position, len(sequence), 0)]


def _length(call: Call, sequence: list[Arr]) -> Arr:
    return np.array(len(sequence), np.int64)


def _split(call: Call, x: Arr, split: Arr | None = None) -> list[Arr]:
    """Parts of the sizes `split`, or of one size (the last one may be smaller); without it, single rows."""
    axis = axis_in(call, call.integer("axis"), x.ndim)
    size = x.shape[axis]
    if split is None or split.ndim == 0:
        part = 1 if split is None else int(split)
        if part < 1:
            raise call.error(f"'split' must be 1 or more, not {part}")
        ends = np.minimum(np.arange(1, -(-size // part) + 1) * part, size)
    else:
        sizes = [int(n) for n in split.reshape(-1)]
        if any(n < 0 for n in sizes) or sum(sizes) != size:
            raise call.error(f"'split' must be sizes that add up to {size}, not {sizes}")
        ends = np.cumsum(sizes)
    call.work(len(ends))
    parts = np.split(x, ends[:-1], axis) if len(ends) else []
    squeezes = split is None and not call.integer("keepdims")
    return [part.squeeze(axis) for part in parts] if squeezes else parts


def _concat(call: Call, sequence: list[Arr]) -> Arr:
    """Along an axis that is there, or along a new one."""
    if not sequence:
        raise call.error("the sequence must have an element, not none", "its elements have no shape")
    _same_type(call, sequence)
    new = call.integer("new_axis")
    if new not in (0, 1):
        raise call.error(f"'new_axis' must be 0 or 1, not {new}", "export the model again")
    axis = axis_in(call, call.integer("axis"), sequence[0].ndim + new)
    call.check_size((sum(element.size for element in sequence),), sequence[0].dtype)
    return np.stack(sequence, axis) if new else np.concatenate(sequence, axis)


def _optional(call: Call, value: Operand = None) -> Operand:
    """An optional of the input, or an empty one of the type in the attribute `type`."""
    stated = call.node.attributes.get("type")
    if value is None and stated is None and not any(call.node.inputs):
        raise call.error("an empty optional must have the attribute 'type', not none", "export the model again")
    return None if isinstance(stated, OptionalType) and not any(call.node.inputs) else value


def _has_element(call: Call, value: Operand = None) -> Arr:
    return np.array(value is not None)


def _get_element(call: Call, value: Operand) -> Operand:
    """The content; since version 18 a value that is no optional is its own content."""
    if value is None:
        raise call.error("the optional must have an element, not none", "test it with OptionalHasElement before")
    return value


OPERATORS: Table = {
    ("", "SequenceConstruct"): (Operator(11, _construct, None),),
    ("", "SequenceEmpty"): (Operator(11, _empty, None),),
    ("", "SequenceInsert"): (Operator(11, _insert, None),),
    ("", "SequenceErase"): (Operator(11, _erase, None),),
    ("", "SequenceAt"): (Operator(11, _at, None),),
    ("", "SequenceLength"): (Operator(11, _length, None),),
    ("", "SplitToSequence"): (Operator(11, _split, None),),
    ("", "ConcatFromSequence"): (Operator(11, _concat, None),),
    ("", "Optional"): (Operator(15, _optional, None),),
    ("", "OptionalHasElement"): (Operator(15, _has_element, None),),
    ("", "OptionalGetElement"): (Operator(15, _get_element, None),),
}
