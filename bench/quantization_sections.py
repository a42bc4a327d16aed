"""The sections of docs/quantization.md: accuracy of the integers, agreement with onnxruntime, export, speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.sections import Bench, percent, program, table
from hwflow import golden, onnx
from hwflow.data.dataset import Dataset, accuracy, classes, load_dataset
from hwflow.onnx.model import Array, Model
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.settings import LayerSettings, QuantizationSettings, WeightSettings

#: Float models with labels, and the largest loss of top-1 accuracy (points) at 8 bits that the project promises.
INT8 = ("digits_mlp", "digits_cnn", "mnist_cntk", "mnist_resdw", "tiny_kws_dscnn_float", "motions_conv1d")
INT8_LOSS = 0.5
#: Float models whose weights are tried at fewer bits, and the largest loss at 4.
FEW_BITS = ("digits_cnn", "mnist_cntk", "tiny_kws_dscnn_float")
INT4_LOSS = 1.5
RESNET = "tiny_resnet8_float"
#: Rows that the promise about the time of calibration is for.
RESNET_ROWS = 32
NO_MODELS = "Not measured: no folder of third-party models was given."


@dataclass(frozen=True)
class Subject:
    """A third-party model with its data."""

    name: str
    model: Model
    data: Dataset


def subjects(bench: Bench, *names: str) -> Iterator[Subject]:
    assert bench.models is not None
    for name in names:
        model = onnx.load(bench.models / "models" / f"{name}.onnx")
        yield Subject(name, model, load_dataset(bench.models / "data" / f"{name}.npz", model))


def weights(bits: int) -> QuantizationSettings:
    """`bits` for every weight, 8 for activations."""
    return QuantizationSettings(default=LayerSettings(weights=WeightSettings(bits=bits)))


def loss(subject: Subject, quantized: Quantized) -> tuple[float, float]:
    """Top-1 accuracy of the stated float outputs, and of the integers, on all rows."""
    assert subject.data.labels is not None
    made = golden.predict(quantized, subject.data.inputs)
    pair = accuracy(subject.data.outputs, subject.data.labels), accuracy(made, subject.data.labels)
    assert pair[0] is not None
    assert pair[1] is not None
    return pair[0], pair[1]


def signal_to_noise(real: Array, made: Array) -> float:
    """dB."""
    noise = float(np.sum((made.astype(np.float64) - real) ** 2))
    return 10 * float(np.log10(np.sum(real.astype(np.float64) ** 2) / noise)) if noise else np.inf


def int8(bench: Bench) -> str:
    """Post-training quantization to 8 bits against float."""
    if bench.models is None:
        return NO_MODELS
    rows = []
    for subject in subjects(bench, *INT8):
        before, after = loss(subject, quantize(subject.model, subject.data.calibration))
        lost = 100 * (before - after)
        if lost > INT8_LOSS:
            bench.failures.append(f"int8 {subject.name}: {lost:.2f} points lost")
        rows.append((subject.name, subject.data.rows, percent(before), percent(after), f"{lost:+.2f}"))
    return table(("model", "rows", "float", "int8", "points lost"), rows)


def resnet(bench: Bench) -> str:
    """The MLPerf Tiny ResNet-8 at 8 bits: labels, signal to noise, and the time that calibration takes."""
    if bench.models is None:
        return NO_MODELS
    (subject,) = subjects(bench, RESNET)
    calibration = {name: values[:RESNET_ROWS] for name, values in subject.data.calibration.items()}
    started = time.perf_counter()
    quantized = quantize(subject.model, calibration)
    seconds = time.perf_counter() - started
    made = next(iter(golden.predict(quantized, subject.data.inputs).values()))
    stated = next(iter(subject.data.outputs.values()))
    same = int(np.sum(classes(made) == classes(stated)))
    ratio = signal_to_noise(stated, made)
    if same < 19 or ratio < 20 or seconds > 60:
        bench.failures.append(f"{RESNET}: {same} labels, {ratio:.1f} dB, {seconds:.0f} s")
    return table(("what", "seen"), [
        (f"same class as float, of {subject.data.rows}", same),
        ("signal to noise of the output (after Softmax) against float", f"{ratio:.1f} dB"),
        (f"calibrate and quantize, {RESNET_ROWS} rows", f"{seconds:.1f} s"),
    ])  # fmt: skip


def few_bits(bench: Bench) -> str:
    """Weights of few bits, activations of 8."""
    if bench.models is None:
        return NO_MODELS
    rows = []
    for subject in subjects(bench, *FEW_BITS):
        cells, before = [], 0.0
        for bits in (8, 6, 5, 4, 3, 2, 1):
            before, after = loss(subject, quantize(subject.model, subject.data.calibration, settings=weights(bits)))
            if bits == 4 and 100 * (before - after) > INT4_LOSS:
                bench.failures.append(f"int4 {subject.name}: {100 * (before - after):.2f} points lost")
            cells.append(percent(after))
        rows.append((subject.name, percent(before), *cells))
    return table(("model", "float", *(f"{bits} bits" for bits in (8, 6, 5, 4, 3, 2, 1))), rows)


def imports(bench: Bench) -> str:
    """Models that came quantized: the integers against onnxruntime and against stored outputs."""
    if bench.models is None:
        return NO_MODELS
    return program(bench, "bench.quantization", str(bench.models))


def qoperators(bench: Bench) -> str:
    """Models that onnxruntime made in QOperator format, layer by layer."""
    if bench.models is None:
        return NO_MODELS
    return program(bench, "bench.qoperator", str(bench.models))


def export(bench: Bench) -> str:
    """Every model written as a standard QDQ model and read again."""
    if bench.models is None:
        return NO_MODELS
    rows = []
    for subject in subjects(bench, *INT8, RESNET, *(n for n in _quantized_models(bench.models))):
        first = quantize(subject.model, subject.data.calibration)
        again = quantize(onnx.loads(onnx.dumps(first.qdq)))
        same = again.graph == first.graph
        if not same:
            bench.failures.append(f"export {subject.name}: another graph")
        rows.append((subject.name, len(first.graph.layers), "identical" if same else "DIFFERENT"))
    return table(("model", "layers", "graph of the exported model"), rows)


def _quantized_models(models: Path) -> tuple[str, ...]:
    from bench.quantization import QDQ

    return tuple(name for name in QDQ if (models / "models" / f"{name}.onnx").is_file())


def golden_speed(bench: Bench) -> str:
    """The golden model against onnxruntime on the exported QDQ model, one core each."""
    if bench.models is None:
        return NO_MODELS
    return program(bench, "bench.golden_speed", str(bench.models))


#: Models whose widths are searched, and the drop in points.
SEARCHED, DROP = ("digits_cnn", "mnist_cntk"), "1.0"


def frontier(bench: Bench) -> str:
    """The cheapest widths for an accuracy, against 8 bits everywhere."""
    rows = []
    for subject in bench.subjects(SEARCHED):
        answer = bench.hwflow("quantize", subject, "--accuracy-drop", DROP)
        if "error" in answer:
            rows.append([subject.name, f"failed: {answer['error']}", *[""] * 6])
            continue
        search = answer["search"]
        for title in ("widest", "winner"):
            design = search[title]
            used = [design["resources"][kind] for kind in ("lut", "ff", "dsp", "ram")]
            bits = " ".join(map(str, design["bits"]))
            rows.append([subject.name, title, bits, *used, percent(design["price"]), f"{design['drop']:.2f}"])
    header = ("model", "design", "bits: input, then weights and result of each layer", "LUT", "FF", "DSP", "RAM",
              "price", "points lost")  # fmt: skip
    return table(header, rows)


QUANTIZATION_SECTIONS: dict[str, Callable[[Bench], str]] = {
    "quantization-int8": int8,
    "quantization-resnet": resnet,
    "quantization-few-bits": few_bits,
    "quantization-imports": imports,
    "quantization-qoperator": qoperators,
    "quantization-export": export,
    "quantization-speed": golden_speed,
    "quantization-frontier": frontier,
}
