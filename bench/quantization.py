"""Measures the quantizer: golden layers against onnxruntime, and integer accuracy against float accuracy.

    python -m bench.quantization MODELS_DIR

`layers` compares each layer of the golden model, on that layer's own inputs, with onnxruntime (graph optimisation off)
running the QDQ model.  `accuracies` compares top-1 accuracy of the float or QDQ file with that of the integers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from bench.sections import table
from hwflow import golden, onnx
from hwflow.data.dataset import Dataset, accuracy, load_dataset
from hwflow.layers.base import Layer
from hwflow.layers.formats import IntArray, Tensor
from hwflow.onnx.model import Model, Value
from hwflow.quantize import QDQ_PASSES, Quantized, quantize
from tests.quantize.models import session

FLOAT = (
    "digits_mlp",
    "digits_cnn",
    "digits_cnn_legacy",
    "mnist_cntk",
    "motions_conv1d",
    "tiny_ad_autoencoder_float",
    "tiny_kws_dscnn_float",
    "mnist_resdw",
    "tiny_resnet8_float",
)
QDQ = (
    "digits_cnn_int8_qdq",
    "tiny_ad_autoencoder_int8",
    "tiny_kws_dscnn_int8",
    "tiny_resnet8_int8",
    "mnist_resdw_int8_qdq",
    "digits_brevitas_w4a4_qcdq",
    "digits_brevitas_w4a4_qonnx",
    "qonnx_tfc_2w2a",
    "qonnx_tfc_1w2a",
)


#: The share of a layer's elements that must be what onnxruntime makes of them.
EQUAL = 0.999
HEADER = ("model", "layers", "least equal layer", "largest difference in a layer", "outputs equal end to end",
          "accuracy of the file", "of the integers", "relative error of the outputs")  # fmt: skip


@dataclass(frozen=True)
class Agreement:
    """One layer (or the whole model: layer "end to end") against onnxruntime."""

    model: str
    layer: str
    elements: int
    equal: float
    worst: int


@dataclass(frozen=True)
class Accuracy:
    """Top-1 of the model file and of its integers; None for models without labels."""

    model: str
    reference: float | None
    integer: float | None
    relative_error: float
    frames_per_second: float


def read(models: Path, name: str) -> tuple[Model, Dataset, Quantized]:
    """A third-party model, its data, and its integers."""
    model = onnx.load(models / "models" / f"{name}.onnx")
    dataset = load_dataset(models / "data" / f"{name}.npz", model)
    return model, dataset, quantize(model, dataset.calibration)


def runtime(model: Model, fetch: list[str]) -> ort.InferenceSession:
    """onnxruntime with graph optimisation off, giving the tensors `fetch`."""
    types = {**model.graph.types, **{v.name: v.type for v in model.graph.outputs}}
    outputs = tuple(Value(name, types.get(name)) for name in fetch)
    graph = onnx.Graph(
        model.graph.name, model.graph.nodes, model.graph.inputs, outputs, model.graph.initializers, model.graph.types
    )
    shown = Model(graph, model.ir_version, {k: v for k, v in model.opsets.items() if k in ("", "ai.onnx.ml")})
    return session(shown)


def compared(
    dataset: Dataset, quantized: Quantized
) -> Iterator[tuple[Layer, tuple[IntArray, ...], IntArray, IntArray]]:
    """Each layer, what onnxruntime gives it, what it makes of that, and what onnxruntime makes of it.

    Sums that leave the hardware as they are have no tensor of their own in the QDQ model, nor has a part of a Concat:
    these layers are left out, and what reads them is compared.
    """
    model = quantized.qdq
    for step in QDQ_PASSES:
        model = step.run(model)
    model = onnx.infer(model)
    graph = quantized.graph
    known = {result for node in model.graph.nodes for result in node.outputs}
    inner = {layer.output: layer.output.removesuffix(".frame") for layer in graph.layers}
    inner = {tensor: source for tensor, source in inner.items() if source in known}
    names = list(dict.fromkeys(inner.values()))
    run = runtime(model, names)
    rows = [run.run(None, {k: v[i] for k, v in dataset.inputs.items()}) for i in range(dataset.rows)]
    found = {name: np.stack(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    expected: dict[str, IntArray] = dict(golden.run_prologue(quantized, dataset.inputs))
    for tensor, source in inner.items():
        expected[tensor] = frames(found[source], graph.tensors[tensor], quantized.views[tensor].index)
    for layer in graph.layers:
        inputs = tuple(expected[source] for source in layer.inputs)
        made = layer.evaluate(graph, *inputs)
        if layer.output in inner:
            yield layer, inputs, made, expected[layer.output]
        else:
            expected[layer.output] = made


def layers(name: str, dataset: Dataset, quantized: Quantized) -> Iterator[Agreement]:
    """Each layer of the golden model on what onnxruntime gives it, then all of them together."""
    theirs: dict[str, IntArray] = {}
    for layer, _, made, expected in compared(dataset, quantized):
        theirs[layer.output] = expected
        yield _agreement(name, layer.name, made, expected)
    graph = quantized.graph
    whole = golden.run(graph, golden.run_prologue(quantized, dataset.inputs), keep=True)
    last = [layer.output for layer in graph.layers if layer.output in theirs][-1]
    yield _agreement(name, "end to end", whole[last], theirs[last])


def _agreement(model: str, layer: str, made: IntArray, expected: IntArray) -> Agreement:
    return Agreement(model, layer, made.size, float(np.mean(made == expected)), int(np.abs(made - expected).max()))


def frames(values: npt.NDArray[np.generic], tensor: Tensor, index: IntArray) -> IntArray:
    """What onnxruntime gives for a tensor, [n, *its shape], as integer frames; `index` gives each element's place."""
    if values.dtype.kind == "f":  # a MaxPool of dequantized integers: exact multiples of the scale
        values = np.rint(values / np.float32(tensor.scale)) + tensor.zero_point
    frame = tensor.frame
    raster = np.empty((len(values), frame.elements), np.int64)
    raster[:, index.ravel()] = values.reshape(len(values), -1).astype(np.int64)
    return raster.reshape(len(values), frame.height, frame.width, frame.channels)


def accuracies(name: str, dataset: Dataset, quantized: Quantized) -> Accuracy:
    """The integers against the outputs that the data file states."""
    started = time.perf_counter()
    outputs = golden.predict(quantized, dataset.inputs)
    seconds = time.perf_counter() - started
    key = next(iter(dataset.outputs))
    stated, made = dataset.outputs[key].astype(np.float64), outputs[key].astype(np.float64)
    error = float(np.sqrt(np.mean((made - stated) ** 2) / np.mean(stated**2)))
    if dataset.labels is None:
        return Accuracy(name, None, None, error, dataset.rows / seconds)
    labels = dataset.labels
    return Accuracy(name, accuracy(dataset.outputs, labels), accuracy(outputs, labels), error, dataset.rows / seconds)


def main(models: Path) -> int:
    """Prints a line per model; 1 where a layer is not what onnxruntime makes of the same inputs."""
    rows, below = [], list[Agreement]()
    for name in (*QDQ, *FLOAT):
        _, dataset, quantized = read(models, name)
        *found, whole = layers(name, dataset, quantized)
        least, worst = min(found, key=lambda a: a.equal), max(a.worst for a in found)
        below += [a for a in found if a.equal < EQUAL or a.worst > 1]
        seen = accuracies(name, dataset, quantized)
        both = [f"{100 * v:.2f} %" if v is not None else "no labels" for v in (seen.reference, seen.integer)]
        shares = f"{100 * least.equal:.3f} %", worst, f"{100 * whole.equal:.2f} %"
        rows.append((name, len(found), *shares, *both, f"{seen.relative_error:.1e}"))
    print(table(HEADER, rows))
    for a in below:
        seen = f"{100 * a.equal:.3f} % of {a.elements} equal, the others at most {a.worst} off"
        print(f"\nBelow the promise: {a.model}, {a.layer}: {seen}.")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
