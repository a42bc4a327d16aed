"""A quantized model as a folder: the layer graph, the host programs and the QDQ model as ONNX files, the notes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import open_plain

from hwflow.layers.store import load_graph, save_graph
from hwflow.onnx import load, save
from hwflow.outcome import OutcomeWarning
from hwflow.quantize.quantized import Quantized, View

_MODELS = ("prologue", "epilogue", "qdq", "twin")
_NOTES, _SETTINGS, _VIEWS, _ORIGINALS = "notes.txt", "quantize.yaml", "views.npz", "originals.npz"
_ORIGINAL = "original.onnx"
_WARNINGS = "warnings.json"


def save_quantized(quantized: Quantized, folder: Path) -> None:
    """Write into the existing `folder`: graph.yaml, arrays.npz, prologue.onnx, epilogue.onnx, qdq.onnx, twin.onnx,
    original.onnx, notes.txt, warnings.json, views.npz, originals.npz, and quantize.yaml where there are settings."""
    save_graph(quantized.graph, folder)
    for name in _MODELS:
        save(getattr(quantized, name), folder / f"{name}.onnx")
    (folder / _NOTES).write_text("".join(f"{note}\n" for note in quantized.notes), encoding="utf-8")
    (folder / _SETTINGS).write_text(quantized.settings, encoding="utf-8")
    (folder / _WARNINGS).write_text(json.dumps([w.facts() for w in quantized.warnings]), encoding="utf-8")
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
            warnings = tuple(map(OutcomeWarning.from_facts, json.load(file)))
        views, originals = (_read_views(folder / name) for name in (_VIEWS, _ORIGINALS))
    except (OSError, ValueError, KeyError, TypeError, UnicodeDecodeError, zipfile.BadZipFile) as error:
        raise HwflowError(
            f"'{folder}' must hold a quantized model, which it does not ({error})",
            "delete the folder and quantize again"
        ) from None
    return Quantized(graph, prologue, epilogue, tuple(notes), qdq, twin, views, settings, original, originals, warnings)


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
