"""Measurements on the rows of the data, cached below build/<model>: both models' outputs, and every layer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import cached_step, content, digest

from .. import golden, onnx
from ..accuracy import Accuracy, LayerNoise, compare, float_outputs, layer_noise, layer_warnings, question
from ..onnx.inference.maps import class_names
from ..onnx.model import Array
from ..onnx.run.sequences import outputs_of_rows

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from .pipeline import Pipeline


def required_dataset(pipeline: Pipeline, need: str) -> Dataset:
    """The user's data.  HwflowError: the model's file is no model, or there is no data; then `need` says what for."""
    _ = pipeline.source
    if pipeline.dataset is None:
        raise HwflowError(need, "give an NPZ file with --data (docs/data-files.md)")
    return pipeline.dataset


def accuracy(pipeline: Pipeline) -> Accuracy | None:
    """Float against integer model over all rows of the data, with its warnings; None without data."""
    dataset = pipeline.dataset
    if dataset is None:
        return None
    asked = question(pipeline.model, dataset)  # labels that do not fit are refused before anything is computed
    quantized, folder = pipeline.quantized, pipeline.folder / "golden"
    expected = [array for _, array in sorted(dataset.outputs.items())]
    labels = [] if dataset.labels is None else [dataset.labels]
    key = digest(pipeline.quantize_key, _float_key(pipeline), repr(asked), *map(content, [*labels, *expected]))

    def make(place: Path) -> None:
        reference = _float_outputs(pipeline, dataset)
        with pipeline.console.rows("golden model") as progress:
            outputs = golden.predict(quantized, dataset.inputs, progress)
        facts = compare(asked, dataset, reference, outputs).facts()
        (place / "accuracy.json").write_text(json.dumps(facts))
        held = {f"out_{name}": array for name, array in golden.as_batch(outputs).items()}
        held |= {f"classes_{name}": np.array(names) for name, names in class_names(quantized.epilogue).items()}
        np.savez(place / "outputs.npz", allow_pickle=False, **held)

    cached_step(folder, key, make)
    found = Accuracy.from_facts(json.loads((folder / "accuracy.json").read_text()))
    return pipeline.judged(found, quantized, dataset)


def _float_key(pipeline: Pipeline) -> str:
    rows = {} if pipeline.dataset is None else pipeline.dataset.inputs
    return digest(onnx.dumps(pipeline.model), *(content(array) for _, array in sorted(rows.items())))


def _float_outputs(pipeline: Pipeline, dataset: Dataset) -> Mapping[str, Array]:
    """The float model on every row; its own step, because settings of the quantization change nothing of it."""
    names = [value.name for value in outputs_of_rows(pipeline.model)]

    def make(place: Path) -> None:
        with pipeline.console.rows("float model") as progress:
            outputs = float_outputs(pipeline.model, dataset.inputs, progress)
        np.savez(place / "outputs.npz", allow_pickle=False, **{f"{k}": outputs[n] for k, n in enumerate(names)})

    cached_step(pipeline.folder / "float", _float_key(pipeline), make)
    with np.load(pipeline.folder / "float" / "outputs.npz", allow_pickle=False) as archive:
        return {name: archive[f"{k}"] for k, name in enumerate(names)}


def layer_noises(pipeline: Pipeline) -> tuple[LayerNoise, ...]:
    """The noise of every layer on the first rows of the data; nothing without data, or where no rows are asked."""
    if pipeline.dataset is None or not pipeline.layer_rows:
        return ()
    dataset, quantized = pipeline.dataset.first(pipeline.layer_rows), pipeline.quantized
    folder = pipeline.folder / "layers"
    key = digest(pipeline.quantize_key, *(content(array) for _, array in sorted(dataset.inputs.items())))

    def make(place: Path) -> None:
        with pipeline.console.rows("layer by layer") as progress:
            noises = layer_noise(quantized, dataset.inputs, progress)
        (place / "layers.json").write_text(json.dumps([asdict(noise) for noise in noises]))

    cached_step(folder, key, make)
    noises = tuple(map(LayerNoise.from_facts, json.loads((folder / "layers.json").read_text())))
    pipeline.warned.add(layer_warnings(quantized, noises))
    return noises
