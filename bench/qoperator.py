"""Models in QOperator format, made by onnxruntime's quantizer of float models, and compared with onnxruntime.

    python -m bench.qoperator MODELS_DIR
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime.quantization as ort_quantization
from onnxruntime.quantization import QuantFormat, QuantType
from onnxruntime.quantization.shape_inference import quant_pre_process

from bench.quantization import EQUAL, frames
from bench.sections import table
from hwflow import golden, onnx
from hwflow.data.dataset import Dataset, load_dataset
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Model, Value
from hwflow.quantize import Quantized, quantize
from tests.quantize.models import session

#: Rows that onnxruntime calibrates with, and rows that are compared.
CALIBRATED, COMPARED = 40, 100


class Rows(ort_quantization.CalibrationDataReader):
    """Feeds for onnxruntime's calibration."""

    def __init__(self, feeds: list[dict[str, np.ndarray]]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> Any:
        return next(self._feeds, None)


def qoperator(models: Path, name: str, folder: Path, **options: Any) -> tuple[Model, Dataset]:
    """The float model `name` in QOperator format (files go into `folder`), and rows of its data."""
    path, ready, made = models / "models" / f"{name}.onnx", folder / "ready.onnx", folder / "made.onnx"
    data = load_dataset(models / "data" / f"{name}.npz", onnx.load(path)).first(COMPARED)
    feeds = [{key: rows[k] for key, rows in data.inputs.items()} for k in range(min(CALIBRATED, data.rows))]
    quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
    ort_quantization.quantize_static(str(ready), str(made), Rows(feeds), quant_format=QuantFormat.QOperator, **options)
    return onnx.load(made), data


def layers(model: Model, data: Dataset, quantized: Quantized) -> Iterator[tuple[str, IntArray, IntArray]]:
    """Each layer's integers, made from what onnxruntime gives it in `model`, and onnxruntime's own."""
    graph = quantized.graph
    names = {layer.output: layer.output.removesuffix(".frame") for layer in graph.layers}
    shown = replace(model.graph, outputs=tuple(Value(name, None) for name in names.values()))
    runtime = session(onnx.infer(replace(model, graph=shown)))
    rows = [runtime.run(None, {k: v[i] for k, v in data.inputs.items()}) for i in range(data.rows)]
    found = dict(golden.run_prologue(quantized, data.inputs))
    for tensor, values in zip(names, zip(*rows, strict=True), strict=True):
        found[tensor] = frames(np.stack(values), graph.tensors[tensor], quantized.views[tensor].index)
    for layer in graph.layers:
        made = layer.evaluate(graph, *(found[source] for source in layer.inputs))
        yield layer.name, made, found[layer.output]


#: Kinds of onnxruntime's quantizer.  Seven bits of weights: without VNNI its product of uint8 and int8 saturates sums.
KINDS: dict[str, dict[str, Any]] = {
    "uint8, weights int8 of 7 bits": {
        "activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "reduce_range": True,
    },
    "int8, weights int8 per channel": {
        "activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True,
    },
    "uint8, weights uint8": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
}  # fmt: skip
MODELS = ("digits_mlp", "digits_cnn", "mnist_resdw", "tiny_kws_dscnn_float", "tiny_resnet8_float", "motions_conv1d")


def main(models: Path) -> int:
    """Prints a line per model and kind; 1 where a layer is not what onnxruntime makes of the same inputs."""
    rows, bad = [], 0
    for name in MODELS:
        for kind, options in KINDS.items():
            with tempfile.TemporaryDirectory() as folder:
                model, data = qoperator(models, name, Path(folder), **options)
            found = list(layers(model, data, quantize(model)))
            equal = min(float(np.mean(made == expected)) for _, made, expected in found)
            worst = max(int(np.abs(made - expected).max()) for _, made, expected in found)
            bad += equal < EQUAL or worst > 1
            rows.append((name, kind, len(found), f"{100 * equal:.3f} %", worst))
    print(table(("model", "kind", "layers", "least equal layer", "largest difference"), rows))
    return 1 if bad else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of onnxruntime's quantizer
    logging.disable()
    sys.exit(main(Path(sys.argv[1])))
