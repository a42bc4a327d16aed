"""Which results nobody wants: found in the data, in what was measured, and layer by layer.

Every threshold stands here, with its reason.  docs/quantization-guide.md explains each warning to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import yaml

from hwflow import golden
from hwflow.accuracy.layers import LayerNoise, farthest_of, layer_noise, most_harmful
from hwflow.accuracy.measure import Accuracy, OutputNoise, compare, float_outputs
from hwflow.accuracy.task import question
from hwflow.data.dataset import Dataset
from hwflow.golden import Progress
from hwflow.layers.formats import IntFormat
from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Model
from hwflow.outcome import OutcomeCode, OutcomeWarning
from hwflow.quantize import Quantized

#: The widest weights and activations that post-training quantization makes.
_BITS = 8
#: Share of elements outside of the range from which a wider range is tried before finer steps; methods that weigh
#: errors clip some tenths of a per cent on purpose, at few bits more.
_SATURATED = 0.01
#: A layer whose values fill less of its range than this gains more from a narrower range than from more bits.
_UNUSED = 1 / 20
#: Where values reach so many times as far as the range, bits are not what is missing.
_BEYOND = 10.0
_OTHER_RANGE = "its range is far too {}: calibrate with rows like those of the data, or leave out its `range`"


def remedy_of(quantized: Quantized, layer: LayerNoise | None) -> str:
    """The change for `layer`, or in general where it is None or has no settings of its own."""
    if not quantized.settings:
        return "its integers are fixed in the model: train or export it with more bits, or start from the float model"
    chosen = yaml.safe_load(quantized.settings)["layers"]
    own = chosen.get(layer.layer) if layer is not None else None
    if layer is None or own is None:
        return "give it more bits (--bits 8), or calibrate with more rows like those of the data"
    if layer.reach is not None and layer.reach < _UNUSED:
        return _OTHER_RANGE.format("wide")
    narrow: dict[str, object] = {}
    if layer.weights and IntFormat.parse(layer.weights).bits < _BITS:
        narrow["weights"] = {"bits": _BITS}
    if IntFormat.parse(layer.activations).bits < _BITS:
        narrow["output"] = {"bits": _BITS}
    beyond = (layer.saturated or 0.0) > _SATURATED
    if narrow and not (beyond and layer.reach is not None and layer.reach > _BEYOND):
        line = file_text({"layers": {layer.layer: narrow}})
        return f"give it more bits, in --settings: {line}, or let --accuracy-drop choose those of all layers"
    method = own.get("output", {}).get("method")
    if beyond and method == "minmax":
        return _OTHER_RANGE.format("narrow")
    if beyond:
        wide = {"layers": {layer.layer: {"output": {"method": "minmax"}}}}
        return f"try a wider range, in --settings: {file_text(wide)}"
    if method == "minmax":
        return f"try finer steps, in --settings: {file_text({'layers': {layer.layer: {'output': {'method': 'mse'}}}})}"
    return f"try, in --settings: {file_text({'equalize': True})}"


def file_text(document: Any) -> str:
    """`document` as YAML in one line, which is a whole settings file."""
    return str(yaml.safe_dump(document, default_flow_style=True, width=float("inf"), allow_unicode=True)).strip()


#: Signal to noise of an output, in decibels: noise of a tenth of the power is a third of the size, and answers change.
LEAST_DB = 10.0
#: Points of top-1, AUC or R2 that may be lost in silence: post-training quantization to 8 bits costs below one.
MOST_LOST = 5.0
#: A loss counts from so many standard errors: 4 rows lost and none gained, whatever the number of rows.
LEAST_ERRORS = 2.0
#: The data may reach so many times as far as the integers: rare peaks that calibration did not see are 2 or 3 times.
MOST_REACH = 10.0
#: The data must fill this share of the integers: less leaves 3 of 8 bits.  Ranges that calibration chose wide do not.
LEAST_USED = 1 / 20
#: Fewer rows may be alike, or of one class, by chance.
LEAST_ROWS = 10
#: A class with more of the labels than this is a good guess for every row.
MOST_OF_ONE = 0.9
#: Rows of an output that differ by less, relative to its size, are equal but for rounding of float32.
LEAST_VARIED = 1e-4
#: Labels count from another number where shifting them by one explains half of the rows more: chance never does.
SHIFT_GAINS = 0.5
#: Rows on which layers are compared, where the caller does not say.
LAYER_ROWS = 16

#: What changes the order of numbers alone.
_MOVES = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")

#: The layers of the integer model measured, when it is asked: that takes time, and good results do not need it.
Layers = Callable[[], Sequence[LayerNoise]]


def data_warnings(quantized: Quantized, dataset: Dataset) -> tuple[OutcomeWarning, ...]:
    """Warnings about the data, for these integers: calibration, labels, and ranges, of which only the ends
    are looked at."""
    warnings = list(quantized.warnings)
    if dataset.labels_one_hot:
        assert dataset.labels is not None
        warnings.append(OutcomeWarning(
            OutcomeCode.ONE_HOT_LABELS, "labels", "are one-hot",
            "they are taken for classes; store labels.argmax(1) to say so"))  # fmt: skip
    for name in () if quantized.warnings else dict.fromkeys(quantized.graph.inputs):
        source = _origin(quantized.twin, quantized.views[name].source) if name in quantized.views else ""
        if source in dataset.inputs:
            warnings.extend(_of_range(quantized, dataset, name, source))
    return tuple(warnings)


def _origin(model: Model, tensor: str) -> str:
    """The tensor that has the numbers of `tensor` in another order, as far up as there is one."""
    makers = {name: node for node in model.graph.nodes for name in node.outputs}
    while tensor in makers and makers[tensor].op_type in _MOVES:
        tensor = makers[tensor].inputs[0]
    return tensor


def _of_range(quantized: Quantized, dataset: Dataset, tensor: str, source: str) -> Iterator[OutcomeWarning]:
    """Rows of an input against what its integers hold."""
    integers, rows = quantized.graph.tensors[tensor], dataset.inputs[source]
    if rows.dtype.kind != "f":
        return
    held = farthest_of(integers, integers.format.low, integers.format.high)
    reach = float(np.abs(rows.astype(np.float64)).max(initial=0.0))
    low, high = float(rows.min()), float(rows.max())
    exceeded, unused = reach > MOST_REACH * held, integers.format.bits > 1 and 0 < reach < LEAST_USED * held
    if exceeded or unused:
        code = OutcomeCode.RANGE_EXCEEDED if exceeded else OutcomeCode.RANGE_UNUSED
        seen = f"is from {low:.3g} to {high:.3g} in the data, and its integers reach {held:.3g}"
        yield OutcomeWarning(code, f"input '{source}'", seen, _scaling(quantized, held, low, high))


def _scaling(quantized: Quantized, held: float, low: float, high: float) -> str:
    """The remedy for data of another scale; pixels are the mistake that is made most."""
    of = "calibration" if quantized.settings else "the model"
    if low >= 0 and 100 < high <= 255 and held < 10:
        return f"pixels from 0 to 255, which {of} had scaled: scale the data alike, mostly by 1 / 255"
    if low >= 0 and high <= 1 and 100 < held < 512:
        return f"pixels from 0 to 1, of which {of} had 0 to 255: scale the data alike, mostly by 255"
    if quantized.settings:
        return "calibrate (calib_ arrays) with rows like those of the data"
    return "give rows of the scale that the model was quantized for"


def layer_warnings(quantized: Quantized, noises: Sequence[LayerNoise]) -> tuple[OutcomeWarning, ...]:
    """The first layer whose values leave its integers far behind; those behind it follow from it."""
    for noise in noises:
        if noise.reach is not None and noise.reach > MOST_REACH:
            where = f"layer '{noise.layer}'" if noise.layer else f"input '{noise.source}'"
            remedy = ("calibrate (calib_ arrays) with rows like those of the data" if quantized.settings else
                      "give rows of the scale that the model was quantized for")  # fmt: skip
            return (OutcomeWarning(
                OutcomeCode.RANGE_EXCEEDED, where,
                f"has values {noise.reach:.0f} times as far from 0 as its integers reach", remedy),)  # fmt: skip
    return ()


def measured_warnings(
    accuracy: Accuracy, model: Model, quantized: Quantized, dataset: Dataset, layers: Layers
) -> tuple[OutcomeWarning, ...]:
    """Warnings about what was measured: causes in the data first, then outputs, then what they are worth.

    A finding that follows from another is left out: no loss of accuracy where all rows are of one class.
    """
    data = data_warnings(quantized, dataset)
    cause = next((warning for warning in data if warning.code is not OutcomeCode.ONE_HOT_LABELS), None)
    blamed = _Blame(quantized, layers, cause)
    odd: dict[str, tuple[OutcomeWarning, ...]] = {}
    for noise in accuracy.outputs:
        odd[noise.output] = tuple(_of_numbers(noise, accuracy.rows, model, dataset, blamed))
    of_outputs = [warning for warnings in odd.values() for warning in warnings]
    if not odd.get(accuracy.output):
        of_outputs.extend(_one_class(accuracy, blamed) or _lost(accuracy, blamed))
    if not any(warning.code is OutcomeCode.ONE_CLASS for warning in of_outputs):
        of_outputs.extend(_low([noise for noise in accuracy.outputs if not odd[noise.output]], blamed))
    exceeded = layer_warnings(quantized, blamed.measured) if cause is None else ()
    return (*data, *_shifted(accuracy), *exceeded, *of_outputs)


class _Blame:
    """Which layer hurts most and what helps it; measured when first asked.  `cause` is a fault of the data."""

    def __init__(self, quantized: Quantized, layers: Layers, cause: OutcomeWarning | None) -> None:
        self.quantized, self.layers, self.cause = quantized, layers, cause
        self.measured: tuple[LayerNoise, ...] = ()

    def worst(self) -> LayerNoise | None:
        self.measured = self.measured or tuple(self.layers())
        return most_harmful(self.measured)

    def remedy(self, layer: LayerNoise | None) -> str:
        if self.cause is not None:
            return f"first mend {self.cause.where}"
        return remedy_of(self.quantized, layer)

    def warning(self, code: OutcomeCode, output: str, seen: str) -> OutcomeWarning:
        """About an output; the layer that hurts most is what it names, where one is known."""
        worst = self.worst()
        if worst is None:
            return OutcomeWarning(code, output, seen, self.remedy(None))
        return OutcomeWarning(code, f"layer '{worst.layer}'", f"hurts most: {output} {seen}", self.remedy(worst))

    def named(self, layer: str) -> LayerNoise | None:
        self.worst()
        return next((noise for noise in self.measured if noise.layer == layer), None)


def _of_numbers(
    noise: OutputNoise, rows: int, model: Model, dataset: Dataset, blamed: _Blame
) -> Iterator[OutcomeWarning]:
    """An output that is not finite, or the same for every row."""
    where = f"output '{noise.output}'"
    if noise.real.odd_row is not None:
        row = noise.real.odd_row
        node = _first_not_finite(model, {name: array[row] for name, array in dataset.inputs.items()})
        yield OutcomeWarning(
            OutcomeCode.NOT_FINITE, f"node '{node}'" if node else where,
            f"gives NaN or infinite numbers in row {row}, in the float model, too",
            "look at that row, and at what the node divides by or takes the logarithm of")  # fmt: skip
    elif noise.integer.odd_row is not None:
        yield OutcomeWarning(
            OutcomeCode.NOT_FINITE, where, f"is NaN or infinite in row {noise.integer.odd_row}, and finite in float",
            "add a small number in front of the last Log, Sqrt or Div, which rounding brings to 0")  # fmt: skip
    elif noise.integer.varies == 0 and noise.real.varies is not None and not noise.counts:
        yield from _constant(noise, rows, dataset, blamed)


def _constant(noise: OutputNoise, rows: int, dataset: Dataset, blamed: _Blame) -> Iterator[OutcomeWarning]:
    if rows < LEAST_ROWS:
        return
    code, where = OutcomeCode.CONSTANT_OUTPUT, f"output '{noise.output}'"
    assert noise.real.varies is not None
    same = f"is the same for all {rows} rows"
    if all(_equal(array) for array in dataset.inputs.values()):
        yield OutcomeWarning(code, where, f"{same}: the rows of the data are equal", "give rows that differ")
        return
    layer = _first_constant(blamed.quantized, dataset)
    place, seen = (f"layer '{layer}'", f"{same}, and so is {where}") if layer else (where, same)
    if noise.real.varies >= LEAST_VARIED:
        yield OutcomeWarning(code, place, f"{seen}, but not in float", blamed.remedy(blamed.named(layer)))
    else:
        remedy = f"look at its weights, and at the scale of {blamed.cause.where if blamed.cause else 'the data'}"
        yield OutcomeWarning(code, place, f"{seen}, in the float model, too", remedy)


def _one_class(accuracy: Accuracy, blamed: _Blame) -> list[OutcomeWarning]:
    """Every row is taken for the same class, and the labels have several."""
    there, taken, labels = (_counts(accuracy, which) for which in ("real", "integer", "label"))
    if len(taken) != 1 or accuracy.rows < LEAST_ROWS or max(labels.values()) > MOST_OF_ONE * accuracy.rows:
        return []
    (name,) = taken
    seen = f"takes all {accuracy.rows} rows for class {name}, of {len(labels)} in the labels"
    output = f"output '{accuracy.output}'"
    if len(there) > 1:
        return [blamed.warning(OutcomeCode.ONE_CLASS, output, seen)]
    remedy = "prepare the rows as in training (scale, order of channels)"
    return [OutcomeWarning(OutcomeCode.ONE_CLASS, output, f"{seen}, in the float model, too", remedy)]


def _low(outputs: Sequence[OutputNoise], blamed: _Blame) -> Iterator[OutcomeWarning]:
    """The noisiest output below the bound; indices have no noise, states are none of the answers."""
    below = [noise for noise in outputs
             if not (noise.counts or noise.state) and noise.snr_db is not None and noise.snr_db < LEAST_DB]  # fmt: skip
    if not below:
        return
    noise = min(below, key=lambda output: output.snr_db or 0.0)
    more = f" and {len(below) - 1} more" if len(below) > 1 else ""
    seen = f"has {noise.snr_db:.1f} dB signal to noise, below {LEAST_DB:g}"
    yield blamed.warning(OutcomeCode.LOW_SNR, f"output '{noise.output}'{more}", seen)


def _lost(accuracy: Accuracy, blamed: _Blame) -> Iterator[OutcomeWarning]:
    """More is lost than the bound, and more than chance explains on so many rows."""
    headline = accuracy.headline
    if headline is None or headline.real is None or headline.lost is None or headline.chance is None:
        return
    lost = round(headline.lost, 6)  # 1 - 0.95 is a little more than 0.05
    if lost <= MOST_LOST or lost < round(LEAST_ERRORS * headline.chance, 6) or headline.real <= 0:
        return
    if headline.name == "top-1":
        seen = f"loses {lost:.1f} points of top-1, {round(lost * accuracy.rows / 100)} of {accuracy.rows} rows"
    elif headline.name == "R2":
        seen = f"loses {lost / 100:.2f} of R2 on {accuracy.rows} rows"
    else:
        seen = f"loses {lost:.1f} points of {headline.name} on {accuracy.rows} rows"
    yield blamed.warning(OutcomeCode.ACCURACY_LOST, f"output '{headline.output}'", seen)


def _shifted(accuracy: Accuracy) -> Iterator[OutcomeWarning]:
    """Labels that count from another number than the scores, as the float model's answers show."""
    if accuracy.rows < LEAST_ROWS:
        return
    right = {by: sum(pair.real for pair in accuracy.confusion if pair.label + by == pair.found) for by in (-1, 0, 1)}
    by = max((-1, 1), key=lambda shift: right[shift])
    if right[by] - right[0] > SHIFT_GAINS * accuracy.rows:
        yield OutcomeWarning(
            OutcomeCode.SHIFTED_LABELS, "labels",
            f"are off by one: float answers label {'+' if by > 0 else '-'} 1 in {right[by]} of {accuracy.rows} rows, "
            f"the label in {right[0]}",
            f"store labels {'+' if by > 0 else '-'} 1")  # fmt: skip


def _counts(accuracy: Accuracy, which: str) -> Mapping[int, int]:
    """How many rows have each class: as `label`, or as the answer of the `real` or `integer` model."""
    counts: dict[int, int] = {}
    for pair in accuracy.confusion:
        key, count = (pair.label, pair.real) if which == "label" else (pair.found, getattr(pair, which))
        if count:
            counts[key] = counts.get(key, 0) + count
    return counts


def _equal(rows: Array) -> bool:
    return bool((rows == rows[:1]).all())


def _first_not_finite(model: Model, row: Mapping[str, Array]) -> str:
    """The first node that makes NaN or infinity of finite numbers; empty where a body or a constant does."""
    names = [name for node in model.graph.nodes for name in node.outputs if name]
    values = {**row, **evaluate(model, row, names)}

    def odd(name: str) -> bool:
        value = values.get(name)
        return isinstance(value, np.ndarray) and value.dtype.kind == "f" and not bool(np.isfinite(value).all())

    for node in model.graph.nodes:
        if any(map(odd, node.outputs)) and not any(map(odd, node.inputs)):
            return node.name or node.outputs[0]
    return ""


def _first_constant(quantized: Quantized, dataset: Dataset) -> str:
    """The first layer that gives the same integers for every row, and reads others; empty where none does."""
    graph = quantized.graph
    rows = {name: array[:LAYER_ROWS] for name, array in dataset.inputs.items()}
    values = golden.run(graph, golden.run_prologue(quantized, rows))
    for layer in graph.layers:
        if _equal(values[layer.output]) and not all(_equal(values[name]) for name in layer.inputs):
            return layer.name
    return ""


def measure(
    model: Model, quantized: Quantized, dataset: Dataset, progress: Progress | None = None
) -> tuple[Accuracy, dict[str, Array]]:
    """Both models on every row of `dataset`: the accuracy with its warnings, and the integer outputs [n, *shape].

    HwflowError where the labels do not fit the model.
    """
    asked = question(model, dataset)
    reference = float_outputs(model, dataset.inputs)
    outputs = golden.predict(quantized, dataset.inputs, progress)
    accuracy = compare(asked, dataset, reference, outputs)
    warnings = measured_warnings(
        accuracy, model, quantized, dataset, lambda: layer_noise(quantized, dataset.first(LAYER_ROWS).inputs)
    )
    return replace(accuracy, warnings=warnings), outputs
