"""Calibration rows on their way through a float model and through what becomes of it, node by node, side by side.

A layer is tuned on what really reaches it: the results of the layers before it, which are integers already.  So both
versions of every tensor are kept for all rows, from the node that makes it to the last one that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from hwflow.onnx import prepare
from hwflow.onnx.model import Array, Graph, Model, Node, Value
from hwflow.onnx.rewrite.renaming import reads
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.graphs import ancestors

#: One array per calibration row.
Rows: TypeAlias = list[Array]

#: Both versions of all tensors that are needed at one time stay below this many bytes, or fewer rows are taken.
_MEMORY = 1 << 28


def quantized(values: Array, form: ActivationForm) -> Array:
    """What becomes of float `values` that are made integers of `form` and floats again; same shape and type."""
    return form.reals(form.integers(np.asarray(values, np.float32))).astype(values.dtype)


def runner(
    node: Node, opsets: Mapping[str, int], constants: Mapping[str, Array]
) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """`node` alone, made ready once: from all that it reads, but for `constants`, to its outputs, by name."""
    names = dict.fromkeys(reads(node))
    held = {name: constants[name] for name in names if name in constants}
    feeds = tuple(Value(name, None) for name in names if name not in held)
    outputs = tuple(Value(name, None) for name in node.outputs if name)
    program = prepare(Model(Graph("one node", (node,), feeds, outputs, held), 10, opsets))

    def run(values: Mapping[str, Array]) -> dict[str, Array]:
        found = program.run({value.name: values[value.name] for value in feeds})
        return {name: np.asarray(array) for name, array in found.items()}

    return run


@dataclass
class Streams:
    """`real` holds tensors of the float model, `integer` those of the model whose layers are integers as far as known.

    Both map names to rows, and to the same rows where no integer has been met yet.  `nodes` are all that is computed.
    """

    model: Model
    activations: Mapping[str, ActivationForm]
    nodes: Sequence[Node]
    real: dict[str, Rows] = field(default_factory=dict)
    integer: dict[str, Rows] = field(default_factory=dict)
    #: Tensor to the last of `nodes` that reads it.
    last: dict[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        self.last = {name: node for node in self.nodes for name in reads(node)}

    @staticmethod
    def start(
        model: Model, activations: Mapping[str, ActivationForm], rows: Mapping[str, Array], layers: Iterable[Node]
    ) -> Streams:
        """As many `rows` as fit into memory, spread evenly, at the inputs of `model`.

        `layers` are the nodes of interest: what none of them depends on is never computed.
        """
        nodes = ancestors(model.graph, [name for node in layers for name in node.outputs])
        if not nodes:
            return Streams(model, activations, nodes)
        count = min(len(rows[value.name]) for value in model.graph.inputs)
        probe = Streams(model, activations, nodes)
        probe._feed(rows, [0])
        fitting = max(1, _MEMORY // max(1, probe._peak()))
        streams = Streams(model, activations, nodes)
        streams._feed(rows, np.linspace(0, count - 1, min(count, fitting)).round().astype(int).tolist())
        return streams

    def _feed(self, rows: Mapping[str, Array], chosen: Sequence[int]) -> None:
        for value in self.model.graph.inputs:
            if value.name not in self.last:
                continue
            arrays = [rows[value.name][k] for k in chosen]
            self._put(value.name, arrays, arrays)

    def _peak(self) -> int:
        """Bytes of all tensors of the rows that are there, at the node where most are held, both versions."""
        peak = 0
        for node in self.nodes:
            self.advance(node)
            peak = max(peak, sum(array.nbytes for rows in self.real.values() for array in rows))
        return 2 * peak

    def _put(self, name: str, real: Rows, integer: Rows) -> None:
        form = self.activations.get(name)
        self.real[name] = real
        self.integer[name] = integer if form is None else [quantized(array, form) for array in integer]

    def results(self, node: Node) -> dict[str, Rows]:
        """What `node` makes of the float model's tensors, by name."""
        return self._run(node, self.model.graph.initializers, self.real)

    def advance(
        self,
        node: Node,
        real: Mapping[str, Rows] | None = None,
        changed: Node | None = None,
        constants: Mapping[str, Array] | None = None,
    ) -> None:
        """Go past `node`: its results come into both streams, and what no node behind it reads goes away.

        `real` are its `results` where they are known already.  In the integer stream `changed`, which reads
        `constants`, stands in its place.
        """
        initializers = self.model.graph.initializers
        real = self.results(node) if real is None else real
        same = changed is None and all(self.real[n] is self.integer[n] for n in reads(node) if n not in initializers)
        integer = real if same else self._run(changed or node, {**initializers, **(constants or {})}, self.integer)
        for name, rows in real.items():
            self._put(name, rows, integer[name])
        self._drop(node)

    def _run(self, node: Node, constants: Mapping[str, Array], values: Mapping[str, Rows]) -> dict[str, Rows]:
        run = runner(node, self.model.opsets, constants)
        names = [name for name in dict.fromkeys(reads(node)) if name not in constants]
        count = len(values[names[0]]) if names else len(next(iter(values.values()), [None]))
        rows = [run({name: values[name][k] for name in names}) for k in range(count)]
        return {name: [row[name] for row in rows] for name in node.outputs if name}

    def _drop(self, node: Node) -> None:
        for name in [name for name in self.real if self.last.get(name, node) is node]:
            del self.real[name], self.integer[name]
