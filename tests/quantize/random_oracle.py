"""What random models have in common: a builder, onnxruntime as the oracle, and when a golden model is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime as ort
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from hwflow.quantize.settings import QuantizationSettings
from tests.quantize.random_noise import noise_of_8_bits

#: Rows of each network; they calibrate it, too.
ROWS = 24

#: How much larger than in the worst draw of the noise of 8 bits an error may be, and how many are drawn: more where
#: few are too small, for where a number turns from one step to the next is rarely near.
FACTOR, DRAWS = 2.0, (4, 32)

#: The error, by the signal, that any may have: floats behind the last integers, computed in another order.
CLOSE = 1e-4


class Drawn:
    """A model while it grows, with random choices and constants."""

    def __init__(self, seed: int, name: str) -> None:
        self.rng, self.b = np.random.default_rng([31, seed, sum(map(ord, name))]), Builder(name)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.count = 0

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def normal(self, *shape: int, deviation: float = 1.0) -> np.ndarray:
        return self.rng.normal(0, deviation, shape).astype(np.float32)

    def input(self, *shape: int) -> str:
        self.count += 1
        name = self.b.input(f"input{self.count}", np.float32, shape)
        self.shapes[name] = shape
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        self.count += 1
        return self.b.constant(f"c{self.count}", np.asarray(value, dtype or np.asarray(value).dtype))

    def node(self, op: str, *inputs: Any, shape: tuple[int, ...] | None = None, **attributes: Any) -> str:
        """A node of tensors and constants; `shape` is that of its result, else of its first input."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.count += 1
        made = self.b.node(op, *names, name=f"{op.lower()}{self.count}", **attributes)
        self.shapes[made] = shape if shape is not None else self.shapes[names[0]]
        return made

    def model(self, *outputs: str, opset: int = 21, **opsets: int) -> Model:
        for name in outputs:
            self.b.output(name)
        return self.b.model(opset=opset, **({"opsets": {"com.microsoft": 1}} if opsets else {}))


@dataclass
class Tally:
    """What became of many models; `wrong` says the seed and what is wrong."""

    right: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        refusals = "; ".join(f"{count} {why}" for why, count in self.refused.most_common())
        return f"{self.right} right, {self.refused.total()} refused ({refusals}), {len(self.wrong)} wrong"


def judged(draw: Callable[[int], Model], seeds: range, refusals: tuple[str, ...]) -> Tally:
    """The models of these seeds: golden no further from onnxruntime than 8 bits explain, or refused with one of
    `refusals`."""
    tally = Tally()
    for seed in seeds:
        try:
            found = excess(draw(seed))
        except HwflowError as error:
            text = " ".join(str(error).split())
            known = next((why for why in refusals if why in text), None)
            if known is None or error.exit_code == 70:
                tally.wrong.append(f"seed {seed}: {text[:400]}")
            else:
                tally.refused[known] += 1
        except Exception as error:  # each is an internal error to the user
            tally.wrong.append(f"seed {seed}: {type(error).__name__}: {error}"[:400])
        else:
            if found > FACTOR:
                tally.wrong.append(f"seed {seed}: the error is {found:.1f} times the noise of 8 bits")
            else:
                tally.right += 1
    return tally


def excess(model: Model, settings: QuantizationSettings | None = None) -> float:
    """The error of the golden model, of the worst output, by that of the noise of 8 bits in its worst draw."""
    model = onnx.infer(model)
    rng = np.random.default_rng(11)
    rows = {v.name: rng.standard_normal((ROWS, *v.tensor.shape)).astype(np.float32) for v in model.graph.inputs
            if v.tensor is not None}  # fmt: skip
    expected = oracle(model, rows)
    found = golden.predict(quantize(model, rows, settings=settings), rows)
    least = np.inf
    for draws in DRAWS:
        noise = noise_of_8_bits(model, rows, draws)
        usual = {name: max([CLOSE, *(distance(value, drawn) for drawn in noise[name])])
                 for name, value in expected.items()}  # fmt: skip
        least = max(distance(value, found[name]) / usual[name] for name, value in expected.items())
        if least <= FACTOR:
            break
    return least


def distance(expected: np.ndarray, found: np.ndarray) -> float:
    """The error by the signal; infinite for another shape, and for what is no number."""
    expected, found = expected.astype(np.float64), found.astype(np.float64)
    if expected.shape != found.shape or not np.isfinite(found).all():
        return np.inf
    error, signal = np.mean((expected - found) ** 2), np.mean(expected**2)
    return float(np.sqrt(error / max(signal, 1e-30)))


def oracle(model: Model, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """onnxruntime without graph optimisation; of what it does not implement, hwflow's evaluation of the file."""
    names, count = [value.name for value in model.graph.outputs], len(next(iter(rows.values())))
    try:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        run = ort.InferenceSession(onnx.dumps(model), options, providers=["CPUExecutionProvider"])
        found = [run.run(None, {k: v[i] for k, v in rows.items()}) for i in range(count)]
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error) and "not implemented" not in str(error).lower():
            raise
        found = [list(onnx.evaluate(model, {k: v[i] for k, v in rows.items()}).values()) for i in range(count)]
    return {name: np.stack(values) for name, values in zip(names, zip(*found, strict=True), strict=True)}
