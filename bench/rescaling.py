"""Measures the bits of the rescaling: agreement with onnxruntime, what is left, and the cost.

    python -m bench.rescaling agreement MODELS_DIR
    python -m bench.rescaling rest MODELS_DIR
    python -m bench.rescaling ties MODELS_DIR
    python -m bench.rescaling units [BOARD]
    python -m bench.rescaling plans MODELS_DIR

`agreement` compares whole networks, in front of the Softmax, and each layer on what onnxruntime gives it (graph
optimisation off).  `rest` looks at the elements that still differ with 32 bits: how far their exact real value is from
the middle of two steps.  `ties` gives onnxruntime the windows of ResNet-8's mean whose exact value is a tie, with
their pixels in other orders.  `units` synthesizes a requantizer of 20-bit sums for 64 channels.  `plans` shows what the
solver makes of models on several boards.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import hwflow
from bench.quantization import compared, layers
from bench.sections import table
from hwflow import onnx
from hwflow.data.dataset import Dataset, load_dataset
from hwflow.layers import IntFormat, Requantize
from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.layers.matrix_layer import MatrixLayer
from hwflow.layers.pools import AveragePool
from hwflow.quantize import Quantized
from hwflow.synth import load_board
from tests.quantize.models import Qdq, session
from tests.synth.side_by_side import used_by
from tests.synth.stage_samples import STAGES

MODELS = ("tiny_kws_dscnn_int8", "tiny_resnet8_int8", "mnist_resdw_int8_qdq")
WIDTHS = (18, 20, 22, 24, 26, 28, 32, "auto")
SUM = IntFormat(40, signed=True)
#: Boards of the plans, and the model of each.
PLANS = (("ulx3s_85f", "tiny_kws_dscnn_int8"), ("ulx3s_85f", "tiny_resnet8_int8"),
         ("ulx3s_85f", "mnist_resdw_int8_qdq"), ("ulx3s_85f", "digits_cnn_int8_qdq"),
         ("ulx3s_12f", "tiny_kws_dscnn_int8"), ("ulx3s_12f", "digits_cnn_int8_qdq"),
         ("tangnano9k", "tiny_kws_dscnn_int8"), ("tangnano9k", "digits_cnn_int8_qdq"),
         ("icebreaker", "tiny_kws_dscnn_int8"), ("icebreaker", "digits_cnn_int8_qdq"))  # fmt: skip


def made(folder: Path, name: str, bits: int | str) -> tuple[Dataset, Quantized]:
    model = onnx.load(folder / "models" / f"{name}.onnx")
    dataset = load_dataset(folder / "data" / f"{name}.npz", model)
    return dataset, hwflow.quantize_model(model, dataset, rescale_bits=bits)  # type: ignore[arg-type]


def agreement(folder: Path) -> str:
    rows = []
    for name, bits in itertools.product(MODELS, WIDTHS):
        dataset, quantized = made(folder, name, bits)
        *found, whole = layers(name, dataset, quantized)
        wrong = sum(round((1 - each.equal) * each.elements) for each in found)
        count = sum(each.elements for each in found)
        rows.append((name, bits, wrong, count, f"{100 * whole.equal:.2f} %", whole.worst))
    return table(("model", "rescale bits", "elements that differ, layer by layer", "of", "outputs equal",
                  "largest difference"), rows)  # fmt: skip


def rest(folder: Path) -> str:
    rows = []
    for name in MODELS:
        dataset, quantized = made(folder, name, 32)
        for layer, inputs, ours, theirs in compared(dataset, quantized):
            differs = ours != theirs
            if differs.any():
                distance = from_a_tie(quantized.graph, layer, inputs)[differs]
                rows.append((name, layer.name.split(";")[0], ours.size, int(differs.sum()), f"{distance.max():.1e}"))
    return table(("model", "layer", "elements", "that differ", "the farthest from a tie, in steps"), rows)


def from_a_tie(graph: LayerGraph, layer: Layer, inputs: tuple[IntArray, ...]) -> np.ndarray:
    """How far the exact result of each element, in steps, is from the middle of two."""
    assert isinstance(layer, MatrixLayer | AveragePool)
    q = layer.requantize
    assert isinstance(q, Requantize)
    none = np.zeros_like(q.bias)
    plain = Requantize(none, none + 1, none, 0, SUM.low, SUM.high)
    tensor = replace(graph.tensors[layer.output], format=SUM, zero_point=0)
    sums = replace(layer, requantize=plain).evaluate(
        replace(graph, tensors={**graph.tensors, layer.output: tensor}), *inputs)
    product = ((sums << q.fraction) + q.bias) * q.multiplier
    rest = product & ((np.int64(1) << q.shift) - 1)
    return np.abs(np.ldexp(rest.astype(np.float64), -q.shift) - 0.5)


def ties(folder: Path) -> str:
    dataset, quantized = made(folder, "tiny_resnet8_int8", 32)
    layer, (x,), ours, theirs = next(each for each in compared(dataset, quantized) if isinstance(each[0], AveragePool))
    tied = from_a_tie(quantized.graph, layer, (x,))[:, 0, 0] == 0
    source = quantized.graph.tensors[layer.inputs[0]]
    build = Qdq((1, 1, *layer.kernel), np.int8).dequantize(source.scale, source.zero_point)
    build.node("AveragePool", kernel_shape=list(layer.kernel)).quantize(source.scale, source.zero_point)
    run, rng, rows = session(build.model()), np.random.default_rng(1), []
    for row, channel in np.argwhere(tied):
        pixels = x[row, :, :, channel].ravel().astype(np.int8)
        shuffled = [rng.permutation(pixels).reshape(1, 1, *layer.kernel) for _ in range(1000)]
        results = np.array([run.run(None, {"input": window})[0].item() for window in shuffled])
        low = results.min()
        rows.append((row, channel, int(pixels.astype(np.int64).sum()), int(ours[row, 0, 0, channel]),
                     int(theirs[row, 0, 0, channel]), f"{np.mean(results == low):.1%} {low}, "
                     f"{np.mean(results == low + 1):.1%} {low + 1}"))  # fmt: skip
    header = ("frame", "channel", "sum", "half to even", "onnxruntime", "its results of 1 000 orders of the pixels")
    return table(header, rows)


def units(board_name: str) -> str:
    board, rows = load_board(board_name), []
    shapes = list(itertools.product((1, 2, 4, 16), ("dsp", "fabric"), (18, 22, 26, 32)))
    samples = [STAGES["Requantizer"](board.technology(), channels=64, bits=20, style=style, interval=interval, shifts=3,
                                     factor_bits=bits) for interval, style, bits in shapes]
    with tempfile.TemporaryDirectory() as folder:
        used = used_by([sample.unit() for sample in samples], board, Path(folder))
    for (interval, style, bits), sample, part in zip(shapes, samples, used, strict=True):
        plan = board.technology().placed(sample.cost())
        rows.append((interval, {"dsp": "blocks", "fabric": "logic"}[style], bits, part.lut, round(plan.lut), part.ff,
                     part.dsp, part.ram))
    return table(("cycles a result", "multiplies in", "bits", "LUT", "planned", "FF", "DSP", "RAM"), rows)


def plans(folder: Path) -> str:
    return table(("board", "model", "rescale bits", "execution", "interval", "LUT", "FF", "DSP", "RAM"),
                 list(plan_rows(folder)))  # fmt: skip


def plan_rows(folder: Path) -> Iterator[tuple[object, ...]]:
    for (board, name), bits in itertools.product(PLANS, (18, 22, "auto")):
        _, quantized = made(folder, name, bits)
        plan = hwflow.make_plan(quantized, board)
        needs = plan.resources
        yield (board, name, bits, str(plan.execution), plan.interval, round(needs.lut), round(needs.ff), needs.dsp,
               needs.ram)  # fmt: skip


def main(what: str, where: str = "ulx3s_85f") -> int:
    if what == "units":
        print(units(where))
    else:
        print({"agreement": agreement, "rest": rest, "ties": ties, "plans": plans}[what](Path(where)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
