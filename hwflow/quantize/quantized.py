"""The result of quantization, and its folder: the layer graph, the host programs and the QDQ model, the notes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError
from hwflow_base.files.facts import plain, read_facts
from hwflow_base.files.sources import open_plain
from hwflow_base.short_repr import drawn_html, screen

from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import EqualByValue, IntArray
from hwflow.layers.store import load_graph, save_graph
from hwflow.onnx import load, save
from hwflow.onnx.inference.maps import class_names
from hwflow.onnx.model import Model
from hwflow.outcome import OutcomeWarning
from hwflow.quantize.chosen import Chosen


@dataclass(frozen=True, eq=False)
class View(EqualByValue):
    """Where the values behind a tensor of the layer graph are found.

    `source` names a tensor of `Quantized.twin`, or of `Quantized.original`; `index` has its shape (batch 1), and an
    entry is the element's place in the raster (h, w, c) of the frame.
    """

    source: str
    index: IntArray


@dataclass(frozen=True, eq=False)
class Quantized(ByValue):
    """An integer graph, what the host computes around it, and where both came from.

    `prologue` maps the user's inputs to integer frames, `epilogue` maps frames to the user's outputs; each frame is an
    integer ONNX tensor [1, height, width, channels] named like its tensor of `graph`.  `notes` says what the user
    should know.  `qdq` is the same model as a standard QDQ model, for other runtimes; importing it gives this graph
    again.  `twin` is the model in reals: what `graph` would compute without rounding of activations (for a float model:
    without rounding of weights, too); `views` maps tensors of `graph` to the twin's.  `settings` is the YAML text that
    makes the same graph of the same float model and data; empty for a model that came quantized.  `original` is the
    model as its file has it, and `originals` maps tensors of `graph` to its tensors, reals or integers.
    `warnings` is what is the matter with the calibration, and `chosen` what was chosen on rows that were held back.
    """

    graph: LayerGraph
    prologue: Model
    epilogue: Model
    notes: tuple[str, ...]
    qdq: Model
    twin: Model
    views: Mapping[str, View] = field(default_factory=dict)
    settings: str = ""

    _repr_html_ = drawn_html

    def __repr__(self) -> str:
        before, after = (", ".join(node.op_type for node in program.graph.nodes) or "nothing"
                          for program in (self.prologue, self.epilogue))
        return screen(f"Quantized '{self.graph.name}': {len(self.graph.layers)} layers",
                      [f"on the host before the layers: {before}", f"on the host after the layers: {after}",
                       *self.graph.shown()])

    @property
    def classes(self) -> Mapping[str, tuple[str | int, ...]]:
        """The names of the columns of each output that is a sequence of maps (ZipMap) in the file, by output."""
        return class_names(self.epilogue)

    original: Model | None = None
    originals: Mapping[str, View] = field(default_factory=dict)
    warnings: tuple[OutcomeWarning, ...] = ()
    chosen: Chosen | None = None


_MODELS = ("prologue", "epilogue", "qdq", "twin")
_NOTES, _SETTINGS, _VIEWS, _ORIGINALS = "notes.txt", "quantize.yaml", "views.npz", "originals.npz"
_ORIGINAL = "original.onnx"
_WARNINGS, _CHOSEN = "warnings.json", "chosen.json"


def save_quantized(quantized: Quantized, folder: Path) -> None:
    """Write into the existing `folder`: graph.yaml, arrays.npz, prologue.onnx, epilogue.onnx, qdq.onnx, twin.onnx,
    original.onnx, notes.txt, warnings.json, chosen.json, views.npz, originals.npz, and quantize.yaml where there are
    settings."""
    save_graph(quantized.graph, folder)
    for name in _MODELS:
        save(getattr(quantized, name), folder / f"{name}.onnx")
    (folder / _NOTES).write_text("".join(f"{note}\n" for note in quantized.notes), encoding="utf-8")
    (folder / _SETTINGS).write_text(quantized.settings, encoding="utf-8")
    (folder / _WARNINGS).write_text(json.dumps(plain(quantized.warnings)), encoding="utf-8")
    (folder / _CHOSEN).write_text(json.dumps(plain((quantized.chosen,) if quantized.chosen else ())), encoding="utf-8")
    if quantized.original is not None:
        save(quantized.original, folder / _ORIGINAL)
    for name, views in ((_VIEWS, quantized.views), (_ORIGINALS, quantized.originals)):
        np.savez(folder / name, allow_pickle=False, **_arrays(views))


def load_quantized(folder: Path) -> Quantized:
    """Read what `save_quantized` wrote.  HwflowError where a file is missing or damaged."""
    graph = load_graph(folder)
    prologue, epilogue, qdq, twin = (load(folder / f"{name}.onnx") for name in _MODELS)
    original = load(folder / _ORIGINAL) if (folder / _ORIGINAL).exists() else None
    try:
        with open_plain(folder / _NOTES) as file:
            notes = file.read().decode("utf-8").splitlines()
        with open_plain(folder / _SETTINGS) as file:
            settings = file.read().decode("utf-8")
        with open_plain(folder / _WARNINGS) as file:
            warnings = read_facts(file.read(), tuple[OutcomeWarning, ...])
        chosen = _read_chosen(folder / _CHOSEN)
        views, originals = (_read_views(folder / name) for name in (_VIEWS, _ORIGINALS))
    except (OSError, ValueError, KeyError, TypeError, UnicodeDecodeError, zipfile.BadZipFile) as error:
        raise HwflowError(
            f"'{folder}' must hold a quantized model, which it does not ({error})",
            "delete the folder and quantize again"
        ) from None
    return Quantized(graph, prologue, epilogue, tuple(notes), qdq, twin, views, settings, original, originals, warnings,
                     chosen)


def _read_chosen(path: Path) -> Chosen | None:
    """None also where the folder is of a version that chose nothing."""
    if not path.exists():
        return None
    with open_plain(path) as file:
        return next(iter(read_facts(file.read(), tuple[Chosen, ...])), None)


def _read_views(path: Path) -> dict[str, View]:
    with open_plain(path) as file, np.load(file, allow_pickle=False) as archive:
        return _views({name: archive[name] for name in archive.files})


def _arrays(views: Mapping[str, View]) -> dict[str, np.ndarray[Any, Any]]:
    """The names of tensors and sources as two arrays, the indices as one each."""
    tensors, sources = list(views), [view.source for view in views.values()]
    names = {"tensors": np.array(tensors, np.str_), "sources": np.array(sources, np.str_)}
    return {**names, **{f"index_{k}": view.index for k, view in enumerate(views.values())}}


def _views(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, View]:
    pairs = zip(arrays["tensors"].tolist(), arrays["sources"].tolist(), strict=True)
    return {tensor: View(source, arrays[f"index_{k}"]) for k, (tensor, source) in enumerate(pairs)}
