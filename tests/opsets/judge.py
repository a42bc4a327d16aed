"""One random network against its oracles: the numpy meaning of each node, and onnxruntime where it runs the set.

Four comparisons, each of which only the one before it could excuse:

1. onnxruntime against the numpy meaning: the oracles agree with each other.
2. `hwflow.onnx.evaluate` of the file, and onnxruntime on the file that `convert_opset` raises to `RAISED`.
3. Of a float model, the model in reals that quantization makes of it, in onnxruntime: floats in another order, no more.
   Its integers: the error is what half a step of 8 bits in every tensor does to the numpy meaning, within `FACTOR`.
4. Of a QDQ model, whose numbers float32 computes without rounding: the golden model's results, equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.onnx.oracle import ChildOracle, Refused
from tests.opsets.growing import Growing, Step
from tests.opsets.walk import NEWEST, QDQ_SINCE, network

Array = np.ndarray
Rows = dict[str, Array]

#: Rows that each network computes; they calibrate it, too.
ROWS = 8

#: The operator set that files are raised to; onnxruntime has all of its operators.
RAISED = 21

#: Floats computed in another order: relative to the largest of a tensor.
CLOSE = 1e-4

#: How much more than the noise model says, the error of a quantized network may be.
FACTOR = 4

#: Its draws; in some, all elements of a tensor are off by as much.
DRAWS = (False, True, False, True)

#: All that may be refused: part of the message, and what it is about.
REFUSED: Mapping[str, str] = {
    "which no QuantizeLinear made integer": "a QDQ model with a layer between floats",
    "a function after a layer must only rise or only fall": "a QDQ model whose layer ends in a curve of each channel",
    "which none of its integers means": "a QDQ model that pads with a value between integers",
    "must have one value, or one per channel of": "a constant along height or width behind a layer",
    "normalizes with the statistics of the batch, as in training": "BatchNormalization in training form",
}


@dataclass(frozen=True)
class Outcome:
    """`oracle`: "onnxruntime" or "numpy"; `refused`: by which part of a message, if at all; `noise`: error by model."""

    opset: int
    qdq: bool
    oracle: str
    refused: str = ""
    noise: float = 0.0


@dataclass
class Tally:
    """What became of many networks; `wrong` says the seed and what differs."""

    outcomes: list[Outcome]
    wrong: list[str]

    @property
    def refused(self) -> dict[str, int]:
        return {what: count for what in REFUSED if (count := sum(o.refused == what for o in self.outcomes))}


def of_seed(seed: int) -> Growing:
    """The operator sets in turn; of those that have QuantizeLinear every third round is a QDQ model."""
    opset = 1 + seed % NEWEST
    return network(seed, opset, exact=opset >= QDQ_SINCE and seed // NEWEST % 3 == 0)


def judged(seeds: range) -> Tally:
    """The networks of these seeds."""
    tally = Tally([], [])
    with ChildOracle() as ort:
        for seed in seeds:
            try:
                tally.outcomes.append(judge(of_seed(seed), ort))
            except Exception as error:
                tally.wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
    return tally


def judge(net: Growing, ort: ChildOracle) -> Outcome:
    """AssertionError where hwflow evaluates, converts or quantizes another model than the file says."""
    model, rng = net.model(), np.random.default_rng(0)
    rows = {name: rng.standard_normal((ROWS, *shape)).astype(np.float32) for name, shape in net.inputs.items()}
    means = net.mean(rows)
    expected = {name: np.stack([values[name] for values in means]) for name in net.outputs}
    ran = runs(ort, model, rows)
    if isinstance(ran, dict):
        agree(ran, expected, net.exact, "onnxruntime against the text")
    found = [onnx.evaluate(model, {name: array[k] for name, array in rows.items()}) for k in range(ROWS)]
    agree({name: np.stack([row[name] for row in found]) for name in net.outputs}, expected, net.exact, "evaluate")
    if net.opset < RAISED:
        agree(required(ort, onnx.convert_opset(model, RAISED), rows), expected, net.exact, "convert_opset")
    oracle = "onnxruntime" if isinstance(ran, dict) else "numpy"
    try:
        quantized = quantize(model, None if net.exact else rows)
    except HwflowError as error:
        return Outcome(net.opset, net.exact, oracle, reason(error))
    made = golden.predict(quantized, rows)
    if net.exact:
        agree(made, expected, True, "golden")
        return Outcome(net.opset, True, oracle)
    agree(required(ort, quantized.twin, rows), expected, False, "the model in reals")
    found_noise = noise(net, rows, made, means)
    assert found_noise <= FACTOR, f"golden: the error is {found_noise:.1f} times the noise of 8 bits"
    return Outcome(net.opset, False, oracle, "", found_noise)


def runs(ort: ChildOracle, model: Model, rows: Rows) -> Rows | str:
    """What onnxruntime gives of each row; why not where it refuses the model."""
    try:
        found = [ort.run(model, {name: array[k] for name, array in rows.items()}) for k in range(ROWS)]
    except Refused as refused:
        return str(refused)
    names = [value.name for value in model.graph.outputs]
    return {name: np.stack([row[k] for row in found]) for k, name in enumerate(names)}


def required(ort: ChildOracle, model: Model, rows: Rows) -> Rows:
    """The same of a model that onnxruntime has to run."""
    found = runs(ort, model, rows)
    assert isinstance(found, dict), f"onnxruntime must run what hwflow made: {found}"
    return found


def agree(made: Rows, expected: Rows, exact: bool, who: str) -> None:
    """Equal where `exact` or integers, else close."""
    for name, want in expected.items():
        got = made[name]
        assert got.shape == want.shape, f"{who}: '{name}' has the shape {got.shape}, not {want.shape}"
        most = float(np.abs(want).max())
        bound = 0.0 if exact or want.dtype.kind == "i" else CLOSE * max(most, 1e-3)
        apart = np.abs(got.astype(np.float64) - want)
        many = np.count_nonzero(~(apart <= bound))
        where = f"{who}: '{name}' differs in {many} of {apart.size} elements"
        assert not many, f"{where}, by {apart.max():.3g} of {most:.3g}"


def noise(net: Growing, rows: Rows, made: Rows, means: list[Rows]) -> float:
    """The error of the outputs by what half a step of 8 bits in every tensor does to them: the worst output.

    What chooses among numbers (places, or ones where they are) is looked at by the exact numbers that it chooses, and
    by the noise of these: a choice between nearly equal ones is a small error, one along a wrong axis a large one.
    """
    rng, ratios = np.random.default_rng(1), []
    draws = [net.mean(rows, rng, alike=alike) for alike in DRAWS]
    for name in net.outputs:
        step = next(step for step in net.steps if name in step.outputs)
        source = step.inputs[0]
        numbers = source if step.chooses and isinstance(source, str) else name
        exact, *noisy = (np.stack([values[numbers] for values in every]) for every in (means, *draws))
        wanted, found = np.stack([values[name] for values in means]), made[name]
        if step.chooses and (wanted.dtype.kind == "i" or len(step.outputs) == 1):
            wanted, found = (chosen(step, exact, places) for places in (wanted, found))
        error, usual = np.sqrt(np.mean((found - wanted) ** 2)), np.sqrt(np.mean((np.stack(noisy) - exact) ** 2))
        ratios.append(float(error / max(usual, CLOSE * np.abs(exact).max(), 1e-9)))
    return max(ratios)


def chosen(step: Step, given: Array, places: Array) -> Array:
    """Of numbers [rows, ...] those at `places` along the step's axis, or where a row has ones their mean."""
    if step.axis is None:
        ones = places.reshape(len(given), -1)
        return (given.reshape(len(given), -1) * ones).sum(axis=1) / ones.sum(axis=1)
    axis = step.axis + 1
    return np.take_along_axis(given, (places if places.ndim == given.ndim else np.expand_dims(places, axis)), axis)


def reason(error: HwflowError) -> str:
    """Which of `REFUSED` the message says."""
    text = str(error)
    found = [words for words in REFUSED if words in text]
    if not found:
        raise AssertionError(f"refused: {text}") from error
    return found[0]
