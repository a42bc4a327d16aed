"""Measurements on the rows of the data, cached below build/<model>: both models' outputs, and every layer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hwflow_base.files.cache import cached_step, content, digest
from hwflow_base.files.facts import plain, read_facts

from .. import golden, onnx
from ..accuracy import Accuracy, LayerNoise, compare, float_outputs, layer_noise, question
from ..data.dataset import Dataset
from ..onnx.inference.maps import class_names
from ..onnx.model import Array
from ..onnx.run.sequences import outputs_of_rows
from ..quantize import Quantized
from .reporter import Reporter


@dataclass(frozen=True)
class Measurements:
    """The measurements of `model` and its integers `quantized`, whose key is `key`, on `dataset`, kept in `folder`."""

    model: onnx.Model
    quantized: Quantized
    dataset: Dataset
    key: str
    folder: Path
    reporter: Reporter

    def accuracy(self) -> Accuracy:
        """Float against integer model over all rows of the data, without warnings."""
        dataset, quantized, folder = self.dataset, self.quantized, self.folder / "golden"
        asked = question(self.model, dataset)
        expected = [array for _, array in sorted(dataset.outputs.items())]
        labels = [] if dataset.labels is None else [dataset.labels]
        key = digest(self.key, self._float_key(), repr(asked), *map(content, [*labels, *expected]))

        def make(place: Path) -> None:
            reference = self._float_outputs()
            with self.reporter.rows("golden model") as progress:
                outputs = golden.predict(quantized, dataset.inputs, progress)
            facts = compare(asked, dataset, reference, outputs).facts()
            (place / "accuracy.json").write_text(json.dumps(facts))
            arrays = {f"out_{name}": array for name, array in golden.as_batch(outputs).items()}
            arrays |= {f"classes_{name}": np.array(names) for name, names in class_names(quantized.epilogue).items()}
            np.savez(place / "outputs.npz", allow_pickle=False, **arrays)

        cached_step(folder, key, make)
        return read_facts((folder / "accuracy.json").read_bytes(), Accuracy)

    def _float_key(self) -> str:
        return digest(onnx.dumps(self.model), *(content(array) for _, array in sorted(self.dataset.inputs.items())))

    def _float_outputs(self) -> Mapping[str, Array]:
        """The float model on every row; its own step, because settings of the quantization change nothing of it."""
        names = [value.name for value in outputs_of_rows(self.model)]

        def make(place: Path) -> None:
            with self.reporter.rows("float model") as progress:
                outputs = float_outputs(self.model, self.dataset.inputs, progress)
            np.savez(place / "outputs.npz", allow_pickle=False, **{f"{k}": outputs[n] for k, n in enumerate(names)})

        cached_step(self.folder / "float", self._float_key(), make)
        with np.load(self.folder / "float" / "outputs.npz", allow_pickle=False) as archive:
            return {name: archive[f"{k}"] for k, name in enumerate(names)}

    def layer_noises(self, count: int) -> tuple[LayerNoise, ...]:
        """The noise of every layer on the first `count` rows of the data."""
        dataset, folder = self.dataset.first(count), self.folder / "layers"
        key = digest(self.key, *(content(array) for _, array in sorted(dataset.inputs.items())))

        def make(place: Path) -> None:
            with self.reporter.rows("layer by layer") as progress:
                noises = layer_noise(self.quantized, dataset.inputs, progress)
            (place / "layers.json").write_text(json.dumps(plain(noises)))

        cached_step(folder, key, make)
        return read_facts((folder / "layers.json").read_bytes(), tuple[LayerNoise, ...])
