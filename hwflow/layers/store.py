"""A layer graph as two files of a folder: `graph.yaml` for people, `arrays.npz` for the weights and tables.

The same graph gives the same bytes, and reading gives an equal graph.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import yaml
from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import open_plain

from hwflow.layers import KINDS
from hwflow.layers.base import Layer, LayerGraph, Origin, State
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.rescale import Requantize, Rescale, Rounding, Thresholds

GRAPH, ARRAYS = "graph.yaml", "arrays.npz"

#: What reading a damaged or foreign file raises.
_DAMAGE = (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, yaml.YAMLError,
           zipfile.BadZipFile)  # fmt: skip


def save_graph(graph: LayerGraph, folder: Path) -> None:
    """Write `graph` into the existing `folder`."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    text = {
        "name": graph.name,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "tensors": [_plain(tensor, "", arrays) for tensor in graph.tensors.values()],
        "states": [_plain(state, f"state{k}", arrays) for k, state in enumerate(graph.states)],
        "layers": [{"kind": x.kind, **_plain(x, f"{k}", arrays)} for k, x in enumerate(graph.layers)],
        "origins": {name: asdict(origin) for name, origin in graph.origins.items()},
    }
    (folder / GRAPH).write_text(yaml.safe_dump(text, sort_keys=False, default_flow_style=None, width=120))
    np.savez(folder / ARRAYS, **arrays)  # type: ignore[arg-type]


def load_graph(folder: Path) -> LayerGraph:
    """Read what `save_graph` wrote.  HwflowError where the files are missing, damaged, or contradict each other."""
    try:
        with open_plain(folder / GRAPH) as file:
            text = yaml.safe_load(file.read().decode("utf-8"))
        with open_plain(folder / ARRAYS) as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        graph = _graph(text, arrays)
        graph.check()
    except _DAMAGE as error:
        raise HwflowError(
            f"'{folder}' must hold a layer graph ({GRAPH} and {ARRAYS}), which it does not: {_first(error)}",
            "delete the folder and quantize again"
        ) from None
    return graph


def _first(error: BaseException) -> str:
    """The first line of a library's message."""
    return (str(error).splitlines() or [type(error).__name__])[0]


#: Fields that files from before them do not have, and what they are there; that value is not written.
_LATER = {"outward": 0}


def _plain(value: Any, place: str, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """`value` as text, numbers, lists and dictionaries; arrays go into `arrays` and leave their name."""
    if isinstance(value, np.ndarray):
        arrays[place] = value
        return place
    if isinstance(value, (IntFormat, Rounding)):
        return str(value)
    if isinstance(value, (Frame, Tensor, Layer, State, Requantize, Thresholds)):
        left_out = [name for name, usual in _LATER.items() if getattr(value, name, None) == usual]
        return {f.name: _plain(getattr(value, f.name), f"{place}.{f.name}", arrays)
                for f in fields(value) if f.name not in left_out}  # type: ignore[arg-type]
    return list(value) if isinstance(value, tuple) else value


def _graph(text: Mapping[str, Any], arrays: Mapping[str, Any]) -> LayerGraph:
    kinds = {kind.kind: kind for kind in KINDS}
    tensors = [_object(Tensor, item, arrays) for item in text["tensors"]]
    layers = [
        _object(kinds[item["kind"]], {k: v for k, v in item.items() if k != "kind"}, arrays) for item in text["layers"]
    ]
    origins = {_typed(str, name, arrays): _object(Origin, item, arrays) for name, item in text["origins"].items()}
    ends = tuple(text["inputs"]), tuple(text["outputs"])
    states = tuple(_object(State, item, arrays) for item in text.get("states", ()))  # not in files from before states
    return LayerGraph(text["name"], {t.name: t for t in tensors}, tuple(layers), *ends, states, origins)


def _object(cls: type[Any], values: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    """An instance of the dataclass `cls`."""
    hints = get_type_hints(cls)
    names = {f.name for f in fields(cls)}
    values = {name: usual for name, usual in _LATER.items() if name in names} | dict(values)
    if names != set(values):
        raise ValueError(f"{cls.__name__} must have the fields {sorted(names)}, not {sorted(values)}")
    return cls(**{name: _typed(hints[name], value, arrays) for name, value in values.items()})


def _typed(hint: Any, value: Any, arrays: Mapping[str, Any]) -> Any:
    if hint is IntFormat:
        return IntFormat.parse(value)
    if hint in (Frame, Requantize):
        return _object(hint, value, arrays)
    if hint == Rescale:
        return _object(Thresholds if "values" in value else Requantize, value, arrays)
    if get_args(hint) and hint.__origin__ is tuple:
        return _tuple(get_args(hint), value)
    if get_args(hint):  # an array
        array = arrays[value]
        if array.dtype != np.int64:
            raise ValueError(f"array '{value}' must be int64, not {array.dtype}")
        return array
    if hint in (int, str, bool) and type(value) is not hint:
        raise ValueError(f"'{value}' must be of type {hint.__name__}")
    return hint(value)


def _tuple(kinds: tuple[Any, ...], values: Any) -> tuple[Any, ...]:
    """Numbers or names, as many as `kinds`, or any number where `kinds` ends with an ellipsis."""
    count = len(values) if kinds[-1] is Ellipsis else len(kinds)
    if not isinstance(values, list) or len(values) != count or any(type(value) is not kinds[0] for value in values):
        raise ValueError(f"{values} must be a list of {count} of type {kinds[0].__name__}")
    return tuple(values)
