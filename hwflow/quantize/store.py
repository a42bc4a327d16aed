"""A quantized model as a folder: the layer graph, the host programs and the QDQ model as ONNX files, the notes."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hwflow.errors import HwflowError
from hwflow.layers.store import load_graph, save_graph
from hwflow.onnx import load, save
from hwflow.quantize.quantized import Quantized, View
from hwflow.sources import open_plain

__all__ = ["load_quantized", "save_quantized"]

_MODELS = ("prologue", "epilogue", "qdq", "twin")
_NOTES, _SETTINGS, _VIEWS = "notes.txt", "quantize.yaml", "views.npz"


def save_quantized(quantized: Quantized, folder: Path) -> None:
    """Write into the existing `folder`: graph.yaml, arrays.npz, prologue.onnx, epilogue.onnx, qdq.onnx, twin.onnx,
    notes.txt, views.npz, and quantize.yaml where there are settings."""
    save_graph(quantized.graph, folder)
    for name in _MODELS:
        save(getattr(quantized, name), folder / f"{name}.onnx")
    (folder / _NOTES).write_text("".join(f"{note}\n" for note in quantized.notes), encoding="utf-8")
    (folder / _SETTINGS).write_text(quantized.settings, encoding="utf-8")
    np.savez(folder / _VIEWS, allow_pickle=False, **_arrays(quantized.views))


def load_quantized(folder: Path) -> Quantized:
    """Read what `save_quantized` wrote.  HwflowError where a file is missing or damaged."""
    graph = load_graph(folder)
    prologue, epilogue, qdq, twin = (load(folder / f"{name}.onnx") for name in _MODELS)
    try:
        with open_plain(folder / _NOTES) as file:
            notes = file.read().decode("utf-8").splitlines()
        with open_plain(folder / _SETTINGS) as file:
            settings = file.read().decode("utf-8")
        with open_plain(folder / _VIEWS) as file, np.load(file, allow_pickle=False) as archive:
            views = _views({name: archive[name] for name in archive.files})
    except (OSError, ValueError, KeyError, UnicodeDecodeError, zipfile.BadZipFile) as error:
        raise HwflowError(
            f"'{folder}' must hold a quantized model, which it does not ({error}); delete the folder and quantize again"
        ) from None
    return Quantized(graph, prologue, epilogue, tuple(notes), qdq, twin, views, settings)


def _arrays(views: Mapping[str, View]) -> dict[str, np.ndarray[Any, Any]]:
    """The names of tensors and sources as two arrays, the indices as one each."""
    tensors, sources = list(views), [view.source for view in views.values()]
    names = {"tensors": np.array(tensors, np.str_), "sources": np.array(sources, np.str_)}
    return {**names, **{f"index_{k}": view.index for k, view in enumerate(views.values())}}


def _views(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, View]:
    pairs = zip(arrays["tensors"].tolist(), arrays["sources"].tolist(), strict=True)
    return {tensor: View(source, arrays[f"index_{k}"]) for k, (tensor, source) in enumerate(pairs)}
