"""Measures what wide activations cost and gain: plans and noise of models at 8 to 16 bits.

    python -m bench.wide MODELS_DIR

In: the models of the folder.  Out: for each board, model and bits of activations (weights have 8) what the solver makes
of it, and the signal to noise of all outputs on the first rows of the data.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import hwflow
from bench.sections import table
from hwflow import golden, onnx
from hwflow.data.dataset import load_dataset
from hwflow.layers import Segments

#: Boards and the models that are planned for them.
PLANS = (("ulx3s_85f", "digits_cnn"), ("icebreaker", "digits_cnn"), ("ulx3s_85f", "tiny_kws_dscnn_float"),
         ("ulx3s_85f", "digits_transformer"))  # fmt: skip
BITS = (8, 10, 12, 16)
#: Rows that the noise is measured on.
ROWS = 20


def rows_of(folder: Path) -> Iterator[tuple[object, ...]]:
    for (board, name), bits in itertools.product(PLANS, BITS):
        model = onnx.load(folder / "models" / f"{name}.onnx")
        dataset = load_dataset(folder / "data" / f"{name}.npz", model)
        quantized = hwflow.quantize_model(model, dataset, bits=(8, bits))
        plan = hwflow.make_plan(quantized, board)
        segments = sum(isinstance(layer, Segments) for layer in quantized.graph.layers)
        needs = plan.resources
        yield (board, name, bits, f"{noise(model, quantized, dataset.inputs):.1f}", plan.interval, round(needs.lut),
               round(needs.ff), needs.dsp, needs.ram, segments)


def noise(model: onnx.Model, quantized: hwflow.Quantized, inputs: dict[str, np.ndarray]) -> float:
    """Signal to noise of all outputs together, in dB."""
    rows = {name: values[:ROWS] for name, values in inputs.items()}
    made, power, error = golden.predict(quantized, rows), 0.0, 0.0
    for k in range(ROWS):
        expected = onnx.evaluate(model, {name: values[k] for name, values in rows.items()})
        for name, values in made.items():
            real = np.asarray(expected[name], np.float64)
            power += float(np.square(real).sum())
            error += float(np.square(np.asarray(values[k], np.float64).reshape(real.shape) - real).sum())
    return 10 * float(np.log10(power / error))


def main(where: str) -> int:
    header = ("board", "model", "bits", "dB", "interval", "LUT", "FF", "DSP", "RAM", "layers in segments")
    print(table(header, list(rows_of(Path(where)))))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
