"""Features: categories and maps to numbers and back, scaling, normalizing, filling and cutting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.ml.common import as_rows, class_labels, floats, integers, listed, texts
from hwflow.onnx.ops.shapes import as_first, of_type
from hwflow.onnx.ops.text import strings

Key: TypeAlias = int | float | str

_OBJECT, _INT64, _FLOAT32 = np.dtype(np.object_), np.dtype(np.int64), np.dtype(np.float32)


def _key(value: Key) -> Key | None:
    """A key of a dict: not-a-number is equal to itself."""
    return None if value != value else value


def _positions(x: Arr, keys: Sequence[Key]) -> npt.NDArray[np.int64]:
    """The position of each element in the keys (the last of equal ones), -1 where it is not there."""
    table = {_key(key): position for position, key in enumerate(keys)}
    if _is_text(x):
        return np.array([table.get(str(value), -1) for value in x.reshape(-1)], np.int64).reshape(x.shape)
    values, inverse = np.unique(x, return_inverse=True)
    positions = np.array([table.get(_key(value), -1) for value in values.tolist()], np.int64)
    return np.asarray(positions[inverse].reshape(x.shape))


def _mapped(x: Arr, keys: Sequence[Key], values: Arr, default: Key | np.generic) -> Arr:
    positions = _positions(x, keys)
    table = np.append(values, strings([str(default)], (1,)) if values.dtype.kind == "O" else values.dtype.type(default))
    return table[positions]  # -1 is the default, the last one


def _is_text(x: Arr | Known) -> bool:
    return x.dtype.kind in "OU"


def _label_encoder_1(call: Call, x: Arr) -> Arr:
    classes = texts(call, "classes_strings")
    if _is_text(x):
        return _mapped(x, classes, np.arange(len(classes)), call.integer("default_int64"))
    return _mapped(x, range(len(classes)), strings(classes, (len(classes),)), call.text("default_string"))


def _swapped(call: Call, x: Known) -> Known:
    return Known(_INT64 if _is_text(x) else _OBJECT, x.shape)


#: What an attribute of keys or values ends with, and the element type that it gives.
_ENDINGS: Mapping[str, DType] = {"tensor": _OBJECT, "strings": _OBJECT, "int64s": _INT64, "floats": _FLOAT32}


def _side(call: Call, side: str) -> tuple[str, Arr]:
    """The keys or the values: the one attribute of that side that is there, by its ending."""
    endings = [ending for ending in _ENDINGS if call.has(f"{side}_{ending}")]
    if len(endings) != 1:
        raise call.error(
            f"one of the attributes {side}_* must be given, not {endings or 'none'}", "export the model again"
        )
    ending, name = endings[0], f"{side}_{endings[0]}"
    if ending == "tensor":
        return ending, call.tensor(name).reshape(-1)
    if ending == "strings":
        words = texts(call, name)
        return ending, strings(words, (len(words),))
    numbers = listed(call, name, int) if ending == "int64s" else listed(call, name, float)
    return ending, np.array(numbers, _ENDINGS[ending])


def _default(call: Call, ending: str, values: Arr) -> Key | np.generic:
    if call.has("default_tensor"):
        tensor = call.tensor("default_tensor")
        if tensor.size != 1:
            raise call.error(f"'default_tensor' must have one element, not {tensor.size}")
        first: np.generic = tensor.reshape(-1)[0]
        return first
    if ending == "tensor":
        return "_Unused" if _is_text(values) else -1 if values.dtype.kind in "iu" else -0.0
    if ending == "strings":
        return call.text("default_string", "_Unused")
    return call.integer("default_int64", -1) if ending == "int64s" else call.number("default_float", -0.0)


def _label_encoder(call: Call, x: Arr) -> Arr:
    _, keys = _side(call, "keys")
    ending, values = _side(call, "values")
    if len(keys) != len(values) or _is_text(keys) != _is_text(x):
        raise call.error(
            f"the keys must be of the input's type and as many as the values, not {len(keys)} of {keys.dtype.name} "
            f"for {len(values)} values and an input of {x.dtype.name}"
        )
    return _mapped(x, keys.tolist(), values, _default(call, ending, values))


def _label_encoder_shapes(call: Call, x: Known) -> Known:
    return Known(_side(call, "values")[1].dtype, x.shape)


def _category_mapper(call: Call, x: Arr) -> Arr:
    words, numbers = texts(call, "cats_strings"), listed(call, "cats_int64s", int)
    if len(words) != len(numbers):
        raise call.error(f"'cats_strings' and 'cats_int64s' must be equally long, not {len(words)} and {len(numbers)}")
    if _is_text(x):
        return _mapped(x, words, np.array(numbers, np.int64), call.integer("default_int64"))
    return _mapped(x, numbers, strings(words, (len(words),)), call.text("default_string"))


def _categories(call: Call, x: Arr | Known) -> tuple[Key, ...]:
    words, numbers = texts(call, "cats_strings"), listed(call, "cats_int64s", int)
    if bool(words) == bool(numbers) or bool(words) != _is_text(x):
        raise call.error("one of 'cats_strings' and 'cats_int64s' must be given, the one of the input's type")
    return words or numbers


def _one_hot_encoder(call: Call, x: Arr) -> Arr:
    """A new last axis with 1 at the category; a value of no category gives zeros, or with zeros=0 an error."""
    result = _one_hot_shapes(call, Known(x.dtype, x.shape))
    call.check_size(result.shape, result.dtype)
    positions = _positions(x if _is_text(x) else x.astype(np.int64), _categories(call, x))
    if not call.integer("zeros") and (positions < 0).any():
        raise call.error(f"the values must be among the categories, not {x[positions < 0].flat[0]!r}")
    return np.asarray(positions[..., None] == np.arange(result.shape[-1])).astype(_FLOAT32)


def _one_hot_shapes(call: Call, x: Known) -> Known:
    return Known(_FLOAT32, (*x.shape, len(_categories(call, x))))


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





def _per_feature(call: Call, x: Arr, values: Arr, name: str) -> Arr:
    if values.size != 1 and (not x.ndim or values.size != x.shape[-1]):
        raise call.error(f"'{name}' must have 1 element or one for each feature of {list(x.shape)}, not {values.size}")
    return values


def _scaler(call: Call, x: Arr) -> Arr:
    """(x - offset) * scale."""
    offset, scale = (floats(call, name) for name in ("offset", "scale"))
    y = x.astype(np.float64)
    y = y - _per_feature(call, x, offset, "offset") if offset.size else y
    y = y * _per_feature(call, x, scale, "scale") if scale.size else y
    return y.astype(_FLOAT32)


def _normalizer(call: Call, x: Arr) -> Arr:
    """Each row divided by its largest element, its sum of sizes or its length; a divisor of 0 leaves it as it is."""
    as_rows(call, x)
    norm, y = call.text("norm"), x.astype(np.float64)
    match norm:
        case "MAX":
            size = np.max(y, axis=-1, keepdims=True, initial=-np.inf)
        case "L1":
            size = np.sum(np.abs(y), axis=-1, keepdims=True)
        case "L2":
            size = np.sqrt(np.sum(y * y, axis=-1, keepdims=True))
        case _:
            raise call.error(f"attribute 'norm' must be MAX, L1 or L2, not '{norm}'", "export the model again")
    return np.asarray(y / np.where(size == 0, 1, size)).astype(_FLOAT32)


def _binarizer(call: Call, x: Arr) -> Arr:
    return np.asarray(x > call.number("threshold")).astype(x.dtype)


def _imputer(call: Call, x: Arr) -> Arr:
    """Other values in place of one that stands for a missing one; not-a-number equals itself here."""
    whole = x.dtype.kind in "iu"
    name = "imputed_value_int64s" if whole else "imputed_value_floats"
    values: Arr = integers(call, name) if whole else floats(call, name)
    if not values.size:
        raise call.error(f"attribute '{name}' must be given for an input of {x.dtype.name}", "export the model again")
    _per_feature(call, x, values, name)
    missing = call.integer("replaced_value_int64") if whole else call.number("replaced_value_float")
    return np.where(np.isnan(x) if missing != missing else x == missing, values.astype(x.dtype), x)


def _feature_vectorizer(call: Call, *inputs: Arr) -> Arr:
    """All inputs side by side, each cut or filled with zeros to its size in `inputdimensions`."""
    result = _feature_vectorizer_shapes(call, *(Known(x.dtype, x.shape) for x in inputs))
    call.check_size(result.shape, result.dtype)
    y, start = np.zeros(result.shape, _FLOAT32), 0
    for x, size in zip(inputs, _feature_sizes(call, inputs), strict=True):
        rows = x.reshape(as_rows(call, x))[:, :size]
        y[:, start : start + rows.shape[1]] = rows
        start += size
    return y


def _feature_sizes(call: Call, inputs: tuple[Arr | Known, ...]) -> tuple[int, ...]:
    sizes = call.integers("inputdimensions", ()) or tuple(as_rows(call, x)[1] for x in inputs)
    if len(sizes) != len(inputs) or min(sizes) < 0:
        raise call.error(f"'inputdimensions' must be a size for each of {len(inputs)} inputs, not {list(sizes)}")
    return sizes


def _feature_vectorizer_shapes(call: Call, *inputs: Known) -> Known:
    rows = {as_rows(call, x)[0] for x in inputs}
    if len(rows) != 1:
        raise call.error(f"the inputs must have the same number of rows, not {sorted(rows)}")
    return Known(_FLOAT32, (rows.pop(), sum(_feature_sizes(call, inputs))))


def _array_feature_extractor(call: Call, x: Arr, indices: Arr) -> Arr:
    """Elements of the last axis."""
    result = _array_feature_extractor_shapes(call, Known(x.dtype, x.shape), Known(indices.dtype, indices.shape))
    call.check_size(result.shape, result.dtype)
    if indices.size and not (indices.min() >= 0 and indices.max() < x.shape[-1]):
        raise call.error(f"the indices must be 0 to {x.shape[-1] - 1}, not {indices.min()} to {indices.max()}")
    return np.take(x, indices.reshape(-1), axis=-1).reshape(result.shape)


def _array_feature_extractor_shapes(call: Call, x: Known, indices: Known) -> Known:
    if not x.ndim:
        raise call.error("the input must have one axis or more, not none")
    count = int(np.prod(indices.shape))
    return Known(x.dtype, (*x.shape[:-1], count) if x.ndim > 1 else (1, count))


OPERATORS: Table = {
    ("ai.onnx.ml", "CategoryMapper"): (Operator(1, _category_mapper, _swapped),),
    ("ai.onnx.ml", "LabelEncoder"): (
        Operator(1, _label_encoder_1, _swapped),
        Operator(2, _label_encoder, _label_encoder_shapes),
    ),
    ("ai.onnx.ml", "OneHotEncoder"): (Operator(1, _one_hot_encoder, _one_hot_shapes),),
    ("ai.onnx.ml", "CastMap"): (Operator(1, _cast_map, None),),
    ("ai.onnx.ml", "DictVectorizer"): (Operator(1, _dict_vectorizer, None),),
    ("ai.onnx.ml", "ZipMap"): (Operator(1, _zip_map, None),),
    ("ai.onnx.ml", "ArrayFeatureExtractor"): (Operator(1, _array_feature_extractor, _array_feature_extractor_shapes),),
    ("ai.onnx.ml", "Binarizer"): (Operator(1, _binarizer, as_first),),
    ("ai.onnx.ml", "FeatureVectorizer"): (Operator(1, _feature_vectorizer, _feature_vectorizer_shapes),),
    ("ai.onnx.ml", "Imputer"): (Operator(1, _imputer, as_first),),
    ("ai.onnx.ml", "Normalizer"): (Operator(1, _normalizer, of_type(_FLOAT32)),),
    ("ai.onnx.ml", "Scaler"): (Operator(1, _scaler, of_type(_FLOAT32)),),
}
