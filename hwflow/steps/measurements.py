"""What `Flow` measures on the rows of the data, cached below build/<model>: both models' outputs, and every layer."""

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
    from ..flow import Flow


def required_dataset(flow: Flow, need: str) -> Dataset:
    """The user's data.  HwflowError: the model's file is no model, or there is no data; then `need` says what for."""
    _ = flow.source
    if flow.dataset is None:
        raise HwflowError(need, "give an NPZ file with --data (docs/data-files.md)")
    return flow.dataset


def accuracy(flow: Flow) -> Accuracy | None:
    """Float against integer model over all rows of the data, with its warnings; None without data."""
    dataset = flow.dataset
    if dataset is None:
        return None
    asked = question(flow.model, dataset)  # labels that do not fit are refused before anything is computed
    quantized, folder = flow.quantized, flow.folder / "golden"
    expected = [array for _, array in sorted(dataset.outputs.items())]
    labels = [] if dataset.labels is None else [dataset.labels]
    key = digest(flow.quantize_key, _float_key(flow), repr(asked), *map(content, [*labels, *expected]))

    def make(place: Path) -> None:
        reference = _float_outputs(flow, dataset)
        with flow.console.rows("golden model") as progress:
            outputs = golden.predict(quantized, dataset.inputs, progress)
        facts = compare(asked, dataset, reference, outputs).facts()
        (place / "accuracy.json").write_text(json.dumps(facts))
        held = {f"out_{name}": array for name, array in golden.as_batch(outputs).items()}
        held |= {f"classes_{name}": np.array(names) for name, names in class_names(quantized.epilogue).items()}
        np.savez(place / "outputs.npz", allow_pickle=False, **held)

    cached_step(folder, key, make)
    found = Accuracy.from_facts(json.loads((folder / "accuracy.json").read_text()))
    return flow.judged(found, quantized, dataset)


def _float_key(flow: Flow) -> str:
    rows = {} if flow.dataset is None else flow.dataset.inputs
    return digest(onnx.dumps(flow.model), *(content(array) for _, array in sorted(rows.items())))


def _float_outputs(flow: Flow, dataset: Dataset) -> Mapping[str, Array]:
    """The float model on every row; its own step, because settings of the quantization change nothing of it."""
    names = [value.name for value in outputs_of_rows(flow.model)]

    def make(place: Path) -> None:
        with flow.console.rows("float model") as progress:
            outputs = float_outputs(flow.model, dataset.inputs, progress)
        np.savez(place / "outputs.npz", allow_pickle=False, **{f"{k}": outputs[n] for k, n in enumerate(names)})

    cached_step(flow.folder / "float", _float_key(flow), make)
    with np.load(flow.folder / "float" / "outputs.npz", allow_pickle=False) as archive:
        return {name: archive[f"{k}"] for k, name in enumerate(names)}


def layer_noises(flow: Flow) -> tuple[LayerNoise, ...]:
    """The noise of every layer on the first rows of the data; nothing without data, or where no rows are asked."""
    if flow.dataset is None or not flow.layer_rows:
        return ()
    dataset, quantized = flow.dataset.first(flow.layer_rows), flow.quantized
    folder = flow.folder / "layers"
    key = digest(flow.quantize_key, *(content(array) for _, array in sorted(dataset.inputs.items())))

    def make(place: Path) -> None:
        with flow.console.rows("layer by layer") as progress:
            noises = layer_noise(quantized, dataset.inputs, progress)
        (place / "layers.json").write_text(json.dumps([asdict(noise) for noise in noises]))

    cached_step(folder, key, make)
    noises = tuple(map(LayerNoise.from_facts, json.loads((folder / "layers.json").read_text())))
    flow.warned.add(layer_warnings(quantized, noises))
    return noises
