"""Facts of inference about a value: kind, element type, shape in all worlds, and the elements where they are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, Union

import numpy as np

from hwflow.onnx.inference.worlds import WORLDS, Size, Worlds
from hwflow.onnx.model import (
    Array,
    Dim,
    DType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
    size_name,
)
from hwflow.onnx.ops.base import Known

#: Elements of a constant: one array, or one for each world (None in worlds that were left out).
Elements: TypeAlias = Union[Array, tuple[Union[Array, None], ...]]


@dataclass(frozen=True, eq=False)
class TensorFact:
    """A tensor.  `dtype` and `shape` are None where nothing is known of them; () is a scalar."""

    dtype: DType | None
    shape: tuple[Size, ...] | None
    elements: Elements | None = None

    def known(self, world: int) -> Known:
        """The operand that a rule sees in one world."""
        assert self.dtype is not None
        assert self.shape is not None
        value = self.elements[world] if isinstance(self.elements, tuple) else self.elements
        return Known(self.dtype, tuple(d if isinstance(d, int) else d[world] for d in self.shape), value)

    @property
    def is_static(self) -> bool:
        """The same in all worlds."""
        return (
            self.shape is not None
            and all(isinstance(d, int) for d in self.shape)
            and not isinstance(self.elements, tuple)
        )


@dataclass(frozen=True, eq=False)
class Holder:
    """A sequence, or an optional, of `element`s."""

    optional: bool
    element: Fact


@dataclass(frozen=True, eq=False)
class Unknown:
    """A value of which nothing is known."""


UNKNOWN = Unknown()
#: Maps, sparse tensors and types of other domains are only passed through.
Fact: TypeAlias = Union[TensorFact, Holder, MapType, SparseTensorType, OpaqueType, Unknown]
#: Facts by name of the value.
Facts: TypeAlias = Mapping[str, Fact]


def fact_of(type_: ValueType | None, worlds: Worlds) -> Fact:
    """The fact that a stated type says; a dim without a name is a size related to no other."""
    match type_:
        case TensorType(dtype, shape):
            return TensorFact(dtype, None if shape is None else tuple(_size(dim, worlds) for dim in shape))
        case SequenceType(element) | OptionalType(element):
            return Holder(isinstance(type_, OptionalType), fact_of(element, worlds))
        case None:
            return UNKNOWN
    return type_


def _size(dim: Dim, worlds: Worlds) -> Size:
    if isinstance(dim, int) and dim >= 0:
        return dim
    name = size_name(dim)
    return worlds.fresh() if name is None else worlds.symbol(name)


def type_of(fact: Fact, worlds: Worlds) -> ValueType | None:
    """The type to show; None where not even the element type is known."""
    match fact:
        case TensorFact(dtype, shape):
            if dtype is None:
                return None
            return TensorType(dtype, None if shape is None else tuple(worlds.text(d) for d in shape))
        case Holder(optional, element):
            inner = type_of(element, worlds)
            return OptionalType(inner) if optional else SequenceType(inner)
        case Unknown():
            return None
    return fact


def join(a: Fact, b: Fact, worlds: Worlds) -> Fact:
    """The fact of a value that is either: sizes that differ become unknown, and so does the rank."""
    if isinstance(a, TensorFact) and isinstance(b, TensorFact):
        dtype = a.dtype if a.dtype == b.dtype else None
        if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            return TensorFact(dtype, None)
        shape = tuple(p if worlds.same(p, q) else worlds.fresh() for p, q in zip(a.shape, b.shape, strict=True))
        return TensorFact(dtype, shape, a.elements if a.elements is b.elements else None)
    if isinstance(a, Holder) and isinstance(b, Holder) and a.optional == b.optional:
        if isinstance(a.element, Unknown) or isinstance(b.element, Unknown):
            return Holder(a.optional, UNKNOWN)
        return Holder(a.optional, join(a.element, b.element, worlds))
    if isinstance(a, (MapType, SparseTensorType, OpaqueType)) and a == b:
        return a
    return UNKNOWN


def refined(fact: Fact, claim: Fact, worlds: Worlds) -> Fact:
    """The fact, and where it knows nothing what the file claims."""
    match fact, claim:
        case Unknown(), _:
            return claim
        case Holder(optional, element), Holder(other, stated) if optional == other:
            return Holder(optional, refined(element, stated, worlds))
        case TensorFact(dtype, shape, elements), TensorFact(stated_dtype, stated):
            if shape is None:
                return TensorFact(dtype or stated_dtype, stated, elements)
            if stated is not None and len(stated) == len(shape):
                shape = tuple(s if worlds.text(d) is None else d for d, s in zip(shape, stated, strict=True))
            return TensorFact(dtype or stated_dtype, shape, elements)
    return fact


def elements_in(fact: TensorFact, worlds: Worlds) -> dict[int, Array]:
    """The elements in each living world; empty where they are not known."""
    if fact.elements is None:
        return {}
    if not isinstance(fact.elements, tuple):
        return dict.fromkeys(worlds.alive, fact.elements)
    elements = {world: fact.elements[world] for world in worlds.alive}
    return {world: array for world, array in elements.items() if array is not None}


def gathered(arrays: Mapping[int, Array], worlds: Worlds) -> Elements | None:
    """One array where all living worlds have the same one."""
    if any(world not in arrays for world in worlds.alive):
        return None
    first = arrays[worlds.alive[0]]
    if all(arrays[w] is first or np.array_equal(arrays[w], first) for w in worlds.alive):
        return first
    return tuple(arrays.get(world) for world in range(WORLDS))
