"""Keys of integers and of data: digests of all that they depend on."""

from __future__ import annotations

from dataclasses import asdict

from hwflow_base.files.cache import content, digest

from ..data.dataset import Dataset
from ..onnx import dumps
from ..onnx.model import Model
from ..quantize.settings import QuantizationSettings


def integers_key(model: Model, settings: QuantizationSettings, dataset: Dataset | None) -> str:
    """The digest of all that the integers of `model` depend on: weights, calibration rows, shapes, settings."""
    calibration = [] if dataset is None else [array.tobytes() for _, array in sorted(dataset.calibration.items())]
    return digest(dumps(model), repr(asdict(settings)), *calibration)


def data_key(dataset: Dataset | None) -> str:
    """A digest of the rows of the data, their labels and their expected outputs; empty without data."""
    if dataset is None:
        return ""
    labels = [] if dataset.labels is None else [dataset.labels]
    named = [*sorted(dataset.inputs.items()), *sorted(dataset.outputs.items())]
    return digest(*(part for name, array in named for part in (name, content(array))), *map(content, labels))
