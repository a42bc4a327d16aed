"""Measures the golden model against onnxruntime on the same integers: a batch of 100 rows, one core, one run.

    python -m bench.golden_speed MODELS_DIR

onnxruntime runs the exported QDQ model with its optimisations, row by row where the model fixes the batch to 1.
"""

from __future__ import annotations

import os
import sys

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # read when numpy is imported
    os.environ[_name] = "1"

from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import onnxruntime as ort  # noqa: E402

from bench.evaluation import fastest  # noqa: E402
from bench.sections import table  # noqa: E402
from hwflow import golden, onnx  # noqa: E402
from hwflow.data.dataset import load_dataset  # noqa: E402
from hwflow.quantize import quantize  # noqa: E402

MODELS = ("digits_cnn", "mnist_cntk", "motions_conv1d", "mnist_resdw", "tiny_kws_dscnn_float", "tiny_resnet8_float",
          "tiny_ad_autoencoder_float")  # fmt: skip
ROWS = 100
#: The golden model may take this many times what onnxruntime takes.
FACTOR = 10
#: Frames a second that the ResNet-8 must reach.
RESNET, LEAST = "tiny_resnet8_float", 15


def measure(models: Path, name: str) -> tuple[float, float]:
    """Seconds for the batch: golden model (host programs included), onnxruntime."""
    model = onnx.load(models / "models" / f"{name}.onnx")
    data = load_dataset(models / "data" / f"{name}.npz", model)
    quantized = quantize(model, {key: rows[:16] for key, rows in data.calibration.items()})
    inputs = {key: rows[np.arange(ROWS) % len(rows)] for key, rows in data.inputs.items()}
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(onnx.dumps(quantized.qdq), options, providers=["CPUExecutionProvider"])

    def theirs() -> None:
        for k in range(ROWS):
            session.run(None, {key: rows[k] for key, rows in inputs.items()})

    return fastest(lambda: golden.predict(quantized, inputs), 1.0), fastest(theirs, 1.0)


def main(models: Path) -> int:
    rows, bad = [], 0
    for name in MODELS:
        ours, theirs = measure(models, name)
        slow = ours > FACTOR * theirs or (name == RESNET and ROWS / ours < LEAST)
        bad += slow
        cells = f"{ROWS / ours:,.0f}", f"{ROWS / theirs:,.0f}", f"{ours / theirs:.1f}{' TOO SLOW' if slow else ''}"
        rows.append((name, *cells))
    print(table(("model", "golden, frames/s", "onnxruntime, frames/s", "times slower"), rows))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
