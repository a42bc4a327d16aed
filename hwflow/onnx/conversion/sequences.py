"""Operators over the steps of a sequence: recurrent layers, and Scan.

Until version 9 of Scan every tensor has a batch axis, and sequences may be shorter than their tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Steps, Without, narrow, newer
from hwflow.onnx.model import Graph, Node, TensorType, Value

_BY_NAME = Without(("output_sequence",))


def _output_sequence(site: NodeConversion) -> None:
    """Below version 7 an attribute says, besides its name, whether the whole sequence is an output."""
    narrow(site, attributes=site.attributes(output_sequence=int(site.names(0))))


def _spelled(site: NodeConversion) -> None:
    """GRU to 3: the default direction was misspelt in version 1."""
    direction = site.attribute("direction")
    site.keep(attributes=site.attributes(direction="forward" if direction == "foward" else direction))


def _gru_first(site: NodeConversion) -> None:
    outputs = [*site.node.outputs, ""][:2]
    outputs[1] = outputs[1] or site.fresh(f"{outputs[0] or 'gru'}.last")
    narrow(site, outputs=outputs, attributes=site.attributes(direction=site.attribute("direction")))


def _time_first(site: NodeConversion) -> None:
    """Before version 14 time is the first axis of a sequence, and directions that of a state."""
    if not site.attribute("layout"):
        narrow(site)
        return
    site.require_types()
    states = (5, 6) if site.node.op_type == "LSTM" else (5,)
    inputs = [
        site.add("Transpose", name, perm=(1, 0, 2)) if name and position in (0, *states) else name
        for position, name in enumerate(site.node.inputs)
    ]
    moved = [name and site.fresh(f"{name}.time_first") for name in site.node.outputs]
    narrow(site, inputs=inputs, outputs=moved, attributes=site.attributes("layout"))
    for position, (result, name) in enumerate(zip(moved, site.node.outputs, strict=True)):
        if name:
            order = (2, 0, 1, 3) if position == 0 else (1, 0, 2)
            site.write(Node("Transpose", (result,), (name,), {"perm": order}, name))


_ONE, _REST = np.ones(1, np.int64), np.iinfo(np.int64).max

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


def _scan_with_batch(site: NodeConversion) -> None:
    """Scan 8 goes over a batch of sequences: here one of them."""
    states = len(site.node.inputs) - site.attribute("num_scan_inputs")
    rows = len(site.node.outputs) - states
    for name in ("scan_input_axes", "scan_output_axes", "scan_output_directions"):
        if any(site.attribute(name) or ()):
            raise newer(site, f"attribute '{name}' ({site.attribute(name)})")
    inputs = ["", *(site.add("Unsqueeze", name, axes=(0,)) for name in site.node.inputs)]
    outputs = tuple(name and site.fresh(f"{name}.batch") for name in site.node.outputs)
    directions = site.attribute("scan_input_directions")
    same = {name: site.node.attributes[name] for name in ("body", "num_scan_inputs")}
    more = {} if directions is None else {"directions": tuple(directions)}
    assert rows >= 0
    site.write(replace(site.node, inputs=tuple(inputs), outputs=outputs, attributes={**same, **more}))
    for result, name in zip(outputs, site.node.outputs, strict=True):
        if name:
            site.write(Node("Squeeze", (result,), (name,), {"axes": (0,)}, name))


UP: Steps = {
    "GRU": {3: _spelled, 7: _BY_NAME}, "LSTM": {7: _BY_NAME}, "RNN": {7: _BY_NAME}, "Scan": {9: _scan_per_sample},
}

DOWN: Steps = {
    "GRU": {3: _gru_first, 7: _output_sequence, 14: _time_first},
    "LSTM": {7: _output_sequence, 14: _time_first},
    "RNN": {7: _output_sequence, 14: _time_first},
    "Scan": {9: _scan_with_batch},
}
