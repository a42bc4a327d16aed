"""Feeds of a caller, compared with what the model states of its inputs; and the same for the outputs that come back.

The name of a dim stands for one size in the whole model: the first input that has it decides.  Inputs that contradict
it are refused.  Outputs are only noted, because exporters are careless with the names there, and so are the elements of
sequences, because ONNX's own test suite is (its SequenceMap cases have elements of several sizes under one name).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hwflow.onnx.errors import EvaluationError, ShapeError, TypeMismatch
from hwflow.onnx.model import (
    Array,
    Dim,
    Graph,
    MapType,
    Operand,
    OptionalType,
    SequenceType,
    SparseTensor,
    SparseTensorType,
    TensorType,
    Value,
    ValueType,
    size_name,
)
from hwflow.onnx.run.operands import as_operand, dense, describe, describe_operand, frozen


@dataclass
class Sizes:
    """Sizes of named dims in one run, and which input said so.

    `notes` collects what is let pass: contradictions of names while `lenient` is set.
    """

    by_name: dict[str, tuple[int, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lenient: bool = False

    def conflict(self, stated: Iterable[Dim], sizes: Iterable[int], who: str) -> str | None:
        """Compare dims with sizes of the same number; the first contradiction in words, "" for one of numbers."""
        for dim, size in zip(stated, sizes, strict=True):
            name = size_name(dim)
            if name is not None:
                known, source = self.by_name.setdefault(name, (size, who))
                if known == size:
                    continue
                if not self.lenient:
                    return f"'{name}' is {known} in {source}"
                self.notes.append(f"{who} has {size} for '{name}', which is {known} in {source}")
            elif isinstance(dim, int) and dim != size:
                return ""
        return None

    def element(self) -> Sizes:
        """The same names for an element of a sequence."""
        return Sizes(self.by_name, self.notes, lenient=True)


def check_feeds(
    graph: Graph, feeds: Mapping[str, object], reads: Callable[[str], bool], sizes: Sizes
) -> dict[str, Operand]:
    """The fed values as operands, read-only.  `reads` says whether the run needs an input."""
    inputs = {value.name: value for value in (*graph.inputs, *graph.overridable)}
    required = {value.name for value in graph.inputs}
    constants = [name for name in feeds if name not in inputs and name in graph.initializers]
    if constants:
        raise EvaluationError(
            f"'{constants[0]}' must not be fed: it is a constant of the model, not an input",
            "export the model with an input of that name to change it"
        )
    unknown = [name for name in feeds if name not in inputs]
    missing = [name for name in required if name not in feeds and reads(name)]
    if unknown or missing:
        listed = ", ".join(f"'{value.name}'" for value in graph.inputs) or "none"
        names = ", ".join(f"'{name}'" for name in feeds) or "none"
        raise EvaluationError(f"the fed arrays must be those of the model's inputs ({listed}), not {names}")
    return {name: frozen(_fitting(inputs[name], feeds[name], sizes)) for name in inputs if name in feeds}


def _fitting(value: Value, fed: object, sizes: Sizes) -> Operand:
    return _fit(value.type, fed, f"input '{value.name}'", sizes)


def _fit(type_: ValueType | None, fed: object, who: str, sizes: Sizes) -> Operand:
    match type_:
        case TensorType():
            return _fit_tensor(type_, fed, who, sizes)
        case SparseTensorType():
            array = dense(fed) if isinstance(fed, SparseTensor) else fed
            return _fit_tensor(TensorType(type_.dtype, type_.shape), array, who, sizes)
        case OptionalType():
            return None if fed is None else _fit(type_.element, fed, who, sizes)
        case SequenceType():
            if not isinstance(fed, (list, tuple)):
                raise TypeMismatch(f"{who} must be a sequence (a Python list), not {_shown(fed)}", "feed a list")
            inner = sizes.element()
            return [_fit(type_.element, entry, f"element {k} of {who}", inner) for k, entry in enumerate(fed)]
        case MapType():
            if not isinstance(fed, Mapping):
                raise TypeMismatch(f"{who} must be a map (a Python dict), not {_shown(fed)}", "feed a dict")
            return dict(fed)
    return as_operand(fed)


def _shown(fed: object) -> str:
    return "nothing" if fed is None else describe_operand(as_operand(fed))


def _fit_tensor(type_: TensorType, fed: object, who: str, sizes: Sizes) -> Array:
    if fed is None or isinstance(fed, Mapping):
        raise TypeMismatch(f"{who} must be {describe(type_.dtype, type_.shape)}, not {_shown(fed)}", "feed an array")
    try:
        array = np.asarray(fed)
    except ValueError as error:
        raise TypeMismatch(f"{who} must be {describe(type_.dtype, type_.shape)}, not a ragged list ({error})") from None
    texts = type_.dtype.kind == "O" and array.dtype.kind in "OUT"
    if not texts and array.dtype != type_.dtype:
        raise TypeMismatch(_misfit(type_, array, who), "convert or reshape the array")
    if type_.shape is not None:
        if len(type_.shape) != array.ndim:
            raise ShapeError(_misfit(type_, array, who), "convert or reshape the array")
        conflict = sizes.conflict(type_.shape, array.shape, who)
        if conflict is not None:
            raise ShapeError(_misfit(type_, array, who), conflict or "convert or reshape the array")
    return array.astype(object) if texts and array.dtype.kind != "O" else array


def _misfit(type_: TensorType, array: Array, who: str) -> str:
    return f"{who} must be {describe(type_.dtype, type_.shape)}, not {describe(array.dtype, array.shape)}"


def output_notes(outputs: Iterable[Value], values: Mapping[str, Operand], sizes: Sizes) -> list[str]:
    """Where outputs are not what the model states of them, one sentence each."""
    notes = []
    for value in outputs:
        stated, operand = value.tensor, values.get(value.name)
        if stated is None or not isinstance(operand, np.ndarray):
            continue
        who = f"output '{value.name}'"
        conflict = None if stated.dtype == operand.dtype else ""
        if conflict is None and stated.shape is not None:
            fits = len(stated.shape) == operand.ndim
            conflict = sizes.conflict(stated.shape, operand.shape, who) if fits else ""
        if conflict is not None:
            remark = f": {conflict}" if conflict else ""
            is_, claim = describe(operand.dtype, operand.shape), describe(stated.dtype, stated.shape)
            notes.append(f"{who} is {is_}, not {claim} as the file says{remark}")
    return notes
