"""The steps of a program that is ready to run: bound nodes in order, over a dict of values.

Each value goes away after its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np

from hwflow.onnx.errors import EvaluationError
from hwflow.onnx.limits import Meter
from hwflow.onnx.model import Array, DType, Node, Operand
from hwflow.onnx.ops.base import Call, GraphRunner, Operator
from hwflow.onnx.run.calls import check_types, run_quietly
from hwflow.onnx.run.operands import size_of
from hwflow.onnx.schemas import Schema

#: The values of a scope by name.
Values: TypeAlias = dict[str, Operand]

#: Called with a node and the name and value of one of its outputs; gives the value that the nodes after it read.
Watch: TypeAlias = Callable[[Node, str, Operand], Operand]


@dataclass
class NodeStep:
    """One node: `where` is its place for messages, `reads` its inputs and what its graphs take from around them."""

    node: Node
    where: str
    path: str
    opset: int
    schema: Schema | None
    operator: Operator | None
    reads: tuple[str, ...]
    bodies: Mapping[str, Body]
    function: Body | None
    #: Element types of inputs that were compared with the schema already.
    seen: set[tuple[DType | type, ...]] = field(default_factory=set)

    def run(self, values: Values, meter: Meter) -> tuple[Operand, ...]:
        meter.node(self.where)
        operands = [values[name] if name else None for name in self.node.inputs]
        if self.function is not None:
            return self.function.run(operands, {}, meter)
        assert self.operator is not None  # Binder.require_complete
        call = Call(self.node, self.opset, self.path, self.schema, meter, self._runner(values, meter))
        key = tuple(v.dtype if isinstance(v, np.ndarray) else type(v) for v in operands)
        if key not in self.seen:
            check_types(call, operands)
            if list not in key and dict not in key:  # those do not tell the types of their elements
                self.seen.add(key)
        return run_quietly(call, self.operator, operands)

    def _runner(self, values: Values, meter: Meter) -> GraphRunner | None:
        if not self.bodies:
            return None

        def run_graph(name: str, inputs: Sequence[Operand]) -> tuple[Operand, ...]:
            return self.bodies[name].run(inputs, values, meter)

        return run_graph


@dataclass(frozen=True)
class Steps:
    """The steps that some values depend on, in order, each with the names of the values that end with it."""

    ordered: tuple[tuple[NodeStep, tuple[str, ...]], ...]
    reads: frozenset[str]

    @classmethod
    def of(cls, steps: Sequence[NodeStep], names: Iterable[str]) -> Self:
        """`steps` in their order, to compute `names`.

        Any other value ends with the last step that reads it, or with the one that makes it where none does.
        """
        alive = set(names)
        last_use: dict[str, int] = {}
        for index, step in enumerate(steps):
            last_use.update((name, index) for name in step.node.outputs if name)
            last_use.update((name, index) for name in step.reads if name in last_use)
        ends: list[list[str]] = [[] for _ in steps]
        for name, index in last_use.items():
            if name not in alive:
                ends[index].append(name)
        reads = {name for step in steps for name in step.reads} | alive
        return cls(tuple(zip(steps, map(tuple, ends), strict=True)), frozenset(reads))

    def run(self, values: Values, meter: Meter, watch: Watch | None = None) -> None:
        for step, last_uses in self.ordered:
            for name, result in zip(step.node.outputs, step.run(values, meter), strict=False):
                if name:
                    values[name] = result if watch is None else watch(step.node, name, result)
                    size = size_of(result)
                    if size > meter.limits.tensor_bytes and isinstance(result, np.ndarray):
                        meter.tensor(result.shape, result.dtype, step.where)
                    meter.hold(size, step.where)
            for name in last_uses:
                meter.hold(-size_of(values.pop(name)), step.where)


@dataclass(frozen=True)
class Body:
    """A graph in an attribute, or a function: `captures` are the names that it reads from the graph around it."""

    path: str
    inputs: tuple[str, ...]
    required: int  # how many of the inputs must be given
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]
    steps: Steps
    captures: tuple[str, ...]
    computed: tuple[str, ...]  # outputs that nodes of the body make

    def run(self, inputs: Sequence[Operand], outer: Mapping[str, Operand], meter: Meter) -> tuple[Operand, ...]:
        """The outputs for inputs by position.  Those that a function's call leaves off are left out inside too."""
        if not self.required <= len(inputs) <= len(self.inputs):
            raise EvaluationError(
                f"the inputs must be {len(self.inputs)}, not {len(inputs)}", "export the model again", where=self.path
            )
        values: Values = {name: outer[name] for name in self.captures}
        values.update(self.constants)
        values.update(zip(self.inputs, inputs, strict=False))
        for name in self.inputs[len(inputs) :]:
            values.setdefault(name)
        self.steps.run(values, meter)
        for name in self.computed:
            meter.hold(-size_of(values[name]), self.path)
        return tuple(values[name] for name in self.outputs)
