"""A model made ready once to be run many times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hwflow.onnx.about import names_file
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits, Meter
from hwflow.onnx.model import Model, Operand
from hwflow.onnx.run.binding import Binder, Scope
from hwflow.onnx.run.feeds import Sizes, check_feeds, output_notes
from hwflow.onnx.run.functions import Functions
from hwflow.onnx.run.operands import constants_of
from hwflow.onnx.run.steps import Step, Steps, Values, Watch


@names_file
def prepare(model: Model, limits: Limits = DEFAULT_LIMITS) -> Program:
    """Bind a model's nodes.  Raises Unsupported with all operators that are missing, LimitError, InvalidModel."""
    program = Program(model, limits)
    program.require_supported()
    return program


@contextmanager
def _in_stack() -> Iterator[None]:
    """Nesting is limited by `Limits.depth`; who raises that limit may meet the interpreter's own."""
    try:
        yield
    except RecursionError:
        raise LimitError(
            "graphs and functions must fit into the interpreter's stack, not be nested so deeply", "lower --limit depth"
        ) from None


class Program:
    """A model that is ready to run.  Runs do not change it; several threads may run it at once."""

    def __init__(self, model: Model, limits: Limits = DEFAULT_LIMITS) -> None:
        self._graph = model.graph
        self._limits = limits
        self._binder = Binder(Functions(model.functions, limits), limits)
        with _in_stack():
            self._binder.functions.require_bounded(model.graph.nodes, model.opsets, "the model")
        self._opsets = model.opsets
        self._bound: dict[int, Step] = {}
        self._steps: dict[tuple[str, ...], Steps] = {}
        self._constants = constants_of(model.graph, "graph", limits)

    def run(
        self,
        feeds: Mapping[str, Any],
        fetch: Sequence[str] | None = None,
        notes: list[str] | None = None,
        watch: Watch | None = None,
    ) -> dict[str, Operand]:
        """The values of `fetch`, by default the outputs of the graph; `hwflow.onnx.evaluate` says more.

        `notes` receives a sentence for each output that is not what the model states of it, and the like.  `watch`
        sees, and may replace, every value that a node of the main graph computes.
        """
        names = tuple(value.name for value in self._graph.outputs) if fetch is None else tuple(fetch)
        steps, sizes, meter = self.steps(names), Sizes(), Meter(self._limits)
        values: Values = dict(self._constants)
        values.update(check_feeds(self._graph, feeds, steps.reads.__contains__, sizes))
        with _in_stack(), np.errstate(all="ignore"):
            steps.run(values, meter, watch)
        if notes is not None:
            notes += sizes.notes + output_notes(self._graph.outputs, values, sizes)
        return {name: values[name] for name in names}

    def require_supported(self) -> None:
        """Raise Unsupported, with all operators that are missing, where the outputs of the graph cannot be computed."""
        self.steps(tuple(value.name for value in self._graph.outputs))

    def steps(self, names: tuple[str, ...]) -> Steps:
        """What computes some values.  Raises Unsupported, and HwflowError for names that are not there."""
        if names not in self._steps:
            nodes = self._graph.nodes
            inputs = (value.name for value in (*self._graph.inputs, *self._graph.overridable))
            scope = Scope("graph", self._opsets, frozenset((*inputs, *self._constants)), "graph")
            with _in_stack():
                needed, _ = self._binder.needed(nodes, names, scope, self._bound)
            self._binder.require_complete()
            self._steps[names] = Steps.of([self._bound[index] for index in needed], names)
        return self._steps[names]
