"""Scan: until version 9 every tensor has a batch axis, and sequences may be shorter than their tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Steps
from hwflow.onnx.model import Graph, TensorType, Value

_ONE, _REST = np.ones(1, np.int64), np.iinfo(np.int64).max


def _scan_per_sample(site: NodeConversion) -> None:
    """Scan to 9: a Scan over the samples of the batch, whose body is the Scan of one sample."""
    lengths, *operands = site.node.inputs
    body, count = site.attribute("body"), site.attribute("num_scan_inputs")
    sample = _Sample(site, body, len(operands) - count, site.attribute("directions"))
    inputs = [lengths, *operands] if lengths else operands
    names = [site.fresh(f"{name}.sample") for name in inputs]
    values = tuple(Value(new, _sample_type(site, old)) for new, old in zip(names, inputs, strict=True))
    graph = site.inner(values, lambda: sample.outputs(names[0] if lengths else "", names[-len(operands) :]))
    site.result("Scan", *inputs, body=graph, num_scan_inputs=len(inputs))


def _sample_type(site: NodeConversion, name: str) -> TensorType | None:
    tensor = site.tensor(name)
    if tensor is None:
        return None
    return TensorType(tensor.dtype, None if tensor.shape is None else tensor.shape[1:])


@dataclass
class _Sample:
    """The Scan of one sample: `states` operands are variables, the others sequences."""

    site: NodeConversion
    body: Graph
    states: int
    directions: tuple[int, ...] | None

    def outputs(self, length: str, operands: list[str]) -> list[str]:
        """The last state, and the collected outputs, in zeros up to the longest sequence."""
        sequences = operands[self.states :]
        short = [self._first(name, length) for name in sequences] if length else sequences
        results = self.site.add_all(
            "Scan", *operands[: self.states], *short, count=len(self.body.outputs),
            body=self.body, num_scan_inputs=len(sequences), scan_input_directions=self.directions,
        )  # fmt: skip
        if not length:
            return list(results)
        collected = zip(results[self.states :], self.body.outputs[self.states :], strict=True)
        return [*results[: self.states], *(self._filled(name, value, sequences[0]) for name, value in collected)]

    def _size(self, name: str) -> str:
        """The number of elements of the first axis."""
        return self.site.add("Gather", self.site.add("Shape", name), self.site.constant([0], np.int64), axis=0)

    def _first(self, name: str, length: str) -> str:
        """The first `length` elements of the first axis."""
        site = self.site
        marks = site.add("NonZero", site.add("ConstantOfShape", self._size(name), value=_ONE))
        return site.add("Compress", name, site.add("Less", site.add("Squeeze", marks, axes=(0,)), length), axis=0)

    def _filled(self, name: str, value: Value, sequence: str) -> str:
        site = self.site
        if value.tensor is None:
            raise site.refuse(
                f"the type of the body's output '{value.name}' decides with which zeros short sequences are filled, "
                "and the file does not tell it",
                "state the type of the output, or export the model again",
            )
        lacking = site.add("Sub", self._size(sequence), self._size(name))
        rest = site.add("Slice", site.add("Shape", name), starts=(1,), ends=(_REST,), axes=(0,))
        zeros = np.zeros(1, value.tensor.dtype)
        filling = site.add("ConstantOfShape", site.add("Concat", lacking, rest, axis=0), value=zeros)
        return site.add("Concat", name, filling, axis=0)


UP: Steps = {"Scan": {9: _scan_per_sample}}
