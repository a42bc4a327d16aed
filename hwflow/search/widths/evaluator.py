"""Designs of one model, quantized, costed and measured on data; the answers are kept in a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.state import StateLines
from hwflow_rtl.vendor import Resources

from hwflow import golden
from hwflow.layers.formats import IntArray
from hwflow.onnx import dumps
from hwflow.onnx.model import Array
from hwflow.quantize import Quantized
from hwflow.quantize.settings import MOST_WEIGHT_BITS, QuantizationSettings
from hwflow.search.widths.cost import Pace
from hwflow.search.widths.knobs import Bits, Knob, KnobKind, settings_with
from hwflow.search.widths.metric import Metric
from hwflow.search.widths.points import Design, Point

T = TypeVar("T")

#: Answers by key, as plain data; the keys tell the designs of one model, data set and board apart.
Store = MutableMapping[str, Mapping[str, Any]]

#: Bits of weights that add next to no noise, untuned.
PROBE_BITS = MOST_WEIGHT_BITS
#: Rows that noise is probed on.
PROBE_ROWS = 64


@dataclass
class ModelEvaluator:
    """`quantize` makes the integer model of settings, with or without full tuning, always the same one.

    `name` tells tuned designs of this `base` apart in the store.  With `fine_weights` probes have weights of
    `PROBE_BITS` where they are at their widest, so that noise of weights which tuning takes away hides nothing.
    """

    quantize: Callable[[QuantizationSettings, bool], Quantized]
    base: QuantizationSettings
    knobs: Sequence[Knob]
    pace: Pace
    metric: Metric
    store: Store = field(default_factory=dict)
    name: str = ""
    fine_weights: bool = False
    _last: tuple[tuple[Bits, bool], Quantized] | None = None
    _frames: dict[bytes, dict[str, IntArray]] = field(default_factory=dict)

    def quantized(self, bits: Bits, *, tuned: bool) -> Quantized:
        """The integer model of these widths; asking twice in a row costs nothing."""
        if self._last is None or self._last[0] != (bits, tuned):
            settings = settings_with(self.base, self.knobs, bits, tuned=tuned)
            self._last = (bits, tuned), self.quantize(settings, tuned)
        return self._last[1]

    def design(self, bits: Bits) -> Design:
        """The cost, from the store or from the layers' cost models."""
        return self._design(bits, tuned=False)

    def _design(self, bits: Bits, *, tuned: bool) -> Design:
        def make() -> Mapping[str, object]:
            design = self.pace.design(self.quantized(bits, tuned=tuned).graph)
            return asdict(design) | {"resources": design.resources.counts()}

        def read(facts: Mapping[str, Any]) -> Design:
            return Design(Resources.of_counts(facts["resources"]), float(facts["price"]), dict(facts["parts"]))

        return self._stored(f"{self._tuned if tuned else 'cost'} {_text(bits)}", make, read)

    def probe(self, bits: Bits) -> float:
        """The noise on rows spread evenly over the data."""
        dataset = self.metric.dataset
        count = min(dataset.rows, PROBE_ROWS)

        def make() -> Mapping[str, object]:
            quantized = self._probed(bits)
            spread = np.linspace(0, dataset.rows - 1, count).astype(int)
            rows = np.arange(count) if quantized.graph.streaming else spread  # one sequence, from its start
            frames = {name: frames[rows] for name, frames in self._enter(quantized).items()}
            feeds = _rows(dataset.inputs, rows)
            outputs = golden.run_epilogue(quantized, golden.run(quantized, frames, keep=False), feeds)
            return {"noise": self.metric.noise(outputs, rows)}

        kind = "probe of fine weights" if self.fine_weights else "probe"
        return self._stored(f"{kind} {_text(bits)}", make, lambda facts: float(facts["noise"]))

    def _probed(self, bits: Bits) -> Quantized:
        """What is probed in place of the design `bits`."""
        fine = tuple(PROBE_BITS if knob.kind is KnobKind.WEIGHTS and width == knob.widths[0] else width
                     for knob, width in zip(self.knobs, bits, strict=True))
        if not self.fine_weights or fine == bits:
            return self.quantized(bits, tuned=False)
        try:
            return self.quantized(fine, tuned=False)
        except HwflowError:  # a layer of weights that cannot be so wide
            return self.quantized(bits, tuned=False)

    def measure(self, bits: Bits, *, tuned: bool = False) -> Point:
        """Cost and accuracy on all rows."""
        design = self._design(bits, tuned=tuned)

        def make() -> Mapping[str, object]:
            quantized = self.quantized(bits, tuned=tuned)
            made = golden.run(quantized, self._enter(quantized), keep=False)
            outputs = golden.run_epilogue(quantized, made, self.metric.dataset.inputs)
            score = self.metric.score(outputs)
            return {"noise": self.metric.noise(outputs), "accuracy": score.value, "drop": score.drop}

        def read(facts: Mapping[str, Any]) -> Point:
            measured = (float(facts[name]) for name in ("noise", "accuracy", "drop"))
            return Point(bits, tuned, design.resources, design.price, *measured)

        return self._stored(f"measure {self._tuned if tuned else 'untuned'} {_text(bits)}", make, read)

    @property
    def _tuned(self) -> str:
        return f"tuned {self.name}".strip()

    def _enter(self, quantized: Quantized) -> dict[str, IntArray]:
        """The frames of all rows; they depend on the prologue alone, which few designs differ in."""
        key = dumps(quantized.prologue)
        if key not in self._frames:
            self._frames.clear()
            self._frames[key] = golden.run_prologue(quantized, self.metric.dataset.inputs)
        return self._frames[key]

    def _stored(self, key: str, make: Callable[[], Mapping[str, Any]], read: Callable[[Mapping[str, Any]], T]) -> T:
        """The answer to `key` in the store; made anew where that is absent or not what `make` gives."""
        if key in self.store:
            try:
                return read(self.store[key])
            except (KeyError, TypeError, ValueError, AttributeError):
                pass
        facts = make()
        self.store[key] = facts
        return read(facts)


def _rows(arrays: Mapping[str, Array], rows: IntArray) -> dict[str, Array]:
    return {name: array[rows] for name, array in arrays.items()}


def _text(bits: Bits) -> str:
    return ",".join(map(str, bits))


class Answers(MutableMapping[str, Mapping[str, object]]):
    """Answers of the search in `file`, a line each; those of another `context` are left alone."""

    def __init__(self, file: Path, context: str):
        self.lines = StateLines(file)
        self.context = context
        self.answers: dict[str, Mapping[str, object]] = {}
        for line in self.lines:
            key, answer = line.get("key"), line.get("answer")
            if line.get("context") == context and isinstance(key, str) and isinstance(answer, dict):
                self.answers[key] = answer

    def __getitem__(self, key: str) -> Mapping[str, object]:
        return self.answers[key]

    def __setitem__(self, key: str, answer: Mapping[str, object]) -> None:
        self.answers[key] = answer
        self.lines.add({"context": self.context, "key": key, "answer": answer})

    def __delitem__(self, key: str) -> None:
        del self.answers[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)
