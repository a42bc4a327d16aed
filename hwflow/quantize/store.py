"""A quantized model as a folder: the layer graph, the host programs and the QDQ model as ONNX files, the notes."""

from __future__ import annotations

from pathlib import Path

from hwflow.errors import HwflowError
from hwflow.layers.store import load_graph, save_graph
from hwflow.onnx import load, save
from hwflow.quantize.quantized import Quantized

__all__ = ["load_quantized", "save_quantized"]

_MODELS = ("prologue", "epilogue", "qdq")
_NOTES = "notes.txt"


def save_quantized(quantized: Quantized, folder: Path) -> None:
    """Write into the existing `folder`: graph.yaml, arrays.npz, prologue.onnx, epilogue.onnx, qdq.onnx, notes.txt."""
    save_graph(quantized.graph, folder)
    for name in _MODELS:
        save(getattr(quantized, name), folder / f"{name}.onnx")
    (folder / _NOTES).write_text("".join(f"{note}\n" for note in quantized.notes), encoding="utf-8")


def load_quantized(folder: Path) -> Quantized:
    """Read what `save_quantized` wrote.  HwflowError where a file is missing or damaged."""
    graph = load_graph(folder)
    prologue, epilogue, qdq = (load(folder / f"{name}.onnx") for name in _MODELS)
    try:
        notes = (folder / _NOTES).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HwflowError(
            f"'{folder / _NOTES}' must be readable ({error}); delete the folder and quantize again"
        ) from None
    return Quantized(graph, prologue, epilogue, tuple(notes), qdq)
