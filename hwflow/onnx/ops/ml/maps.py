"""Maps (Python dicts) to tensors and back."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Operator, Table
from hwflow.onnx.ops.ml.common import as_rows, class_labels, listed, texts
from hwflow.onnx.ops.text import strings

#: A key or value of a map as Python has it, and as kernels get it.
Scalar: TypeAlias = int | float | str
Entry: TypeAlias = Scalar | Arr | np.generic
Map: TypeAlias = dict[Scalar, Entry]

_CASTS: dict[str, type[np.generic]] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": np.object_}


def _map(call: Call, x: Map) -> Map:
    if not isinstance(x, dict):
        raise call.error(f"the input must be a map, not {type(x).__name__}")
    return x


def _cast_map(call: Call, x: Map) -> Arr:
    """The values in the order of their keys; with map_form=SPARSE each at its key, in `max_map` places."""
    entries, form, kind = _map(call, x), call.text("map_form"), call.text("cast_to")
    if form not in ("DENSE", "SPARSE") or kind not in _CASTS:
        raise call.error(
            f"'map_form' must be DENSE or SPARSE, 'cast_to' one of {', '.join(_CASTS)}, not {form}, {kind}"
        )
    keys, width = sorted(int(key) for key in entries), len(entries)
    if form == "SPARSE":
        width = call.integer("max_map")
        if keys and not 0 <= keys[0] <= keys[-1] < width:
            raise call.error(f"the keys must be 0 to {width - 1} (max_map), not {keys[0]} to {keys[-1]}")
    call.check_size((1, width), np.dtype(np.float64))
    places = keys if form == "SPARSE" else range(width)
    if kind == "TO_STRING":
        y = strings([""] * width, (1, width))
        y[0, list(places)] = [str(np.asarray(entries[key]).item()) for key in keys]
        return y
    y = np.zeros((1, width), _CASTS[kind])
    y[0, list(places)] = [float(np.asarray(entries[key]).item()) for key in keys]
    return y


def _dict_vectorizer(call: Call, x: Map) -> Arr:
    """The value of each word of the vocabulary; 0 (or "") for words that the map lacks."""
    entries = {_plain(key): _plain(value) for key, value in _map(call, x).items()}
    words: tuple[int, ...] | tuple[str, ...] = texts(call, "string_vocabulary")
    words = words or listed(call, "int64_vocabulary", int)
    if not words:
        raise call.error("one of 'string_vocabulary' and 'int64_vocabulary' must be given", "export the model again")
    sample = next(iter(x.values()), np.float32(0))
    dtype = np.asarray(sample).dtype
    if dtype.kind in "OU":
        return strings((str(entries.get(word, "")) for word in words), (1, len(words)))
    return np.array([[entries.get(word, 0) for word in words]], dtype)


def _plain(value: Entry) -> Scalar:
    """A Python object from a scalar array."""
    return value.item() if isinstance(value, np.ndarray | np.generic) else value


def _zip_map(call: Call, x: Arr) -> list[Map]:
    """One map from labels to values for each row."""
    rows, columns = as_rows(call, x)
    labels = class_labels(call, "classlabels_int64s")
    if len(labels) != columns:
        raise call.error(f"there must be a label for each of {columns} columns, not {len(labels)}")
    call.work(x.size)
    keys = labels.tolist()
    return [dict(zip(keys, row, strict=True)) for row in x.reshape(rows, columns)]


OPERATORS: Table = {
    ("ai.onnx.ml", "CastMap"): (Operator(1, _cast_map, None),),
    ("ai.onnx.ml", "DictVectorizer"): (Operator(1, _dict_vectorizer, None),),
    ("ai.onnx.ml", "ZipMap"): (Operator(1, _zip_map, None),),
}
