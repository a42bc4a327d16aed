"""Evaluation of a model in numpy, node by node, in the element types that the model states."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np

from hwflow.onnx.about import names_file
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits, Meter
from hwflow.onnx.model import Array, Graph, Model, Node, Operand, TensorType, Value
from hwflow.onnx.run.binding import Binder, NodeStep, Scope, Steps, Values, Watch
from hwflow.onnx.run.feeds import Sizes, check_feeds, output_notes
from hwflow.onnx.run.functions import Functions
from hwflow.onnx.run.operands import constants_of

Derived = TypeVar("Derived")
Key = TypeVar("Key")


class PerModel(Generic[Key, Derived]):
    """For each model a dict of its own, empty at first.

    Models are told apart by identity: they are frozen, but their arrays have no hash.  An entry goes when its model
    does, before another model can get the same identity; so what is kept must not hold the model.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Model], dict[Key, Derived]]] = {}

    def __len__(self) -> int:
        """Models that are there and were asked for."""
        return len(self._entries)

    def of(self, model: Model) -> dict[Key, Derived]:
        """The dict of `model`, to read and to fill."""
        key = id(model)
        entry = self._entries.get(key)
        if entry is None or entry[0]() is not model:
            entry = self._entries[key] = weakref.ref(model, lambda _: self._entries.pop(key, None)), {}
        return entry[1]


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
        self._bound: dict[int, NodeStep] = {}
        self._steps: dict[tuple[str, ...], Steps] = {}
        self._constants = constants_of(model.graph, "graph", limits)

    def run(
        self,
        feeds: Mapping[str, object],
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
        """The steps that compute some values.  Raises Unsupported, and HwflowError for names that are not there."""
        if names not in self._steps:
            nodes = self._graph.nodes
            inputs = (value.name for value in (*self._graph.inputs, *self._graph.overridable))
            scope = Scope("graph", self._opsets, frozenset((*inputs, *self._constants)), "graph")
            with _in_stack():
                needed, _ = self._binder.needed(nodes, names, scope, self._bound)
            self._binder.require_complete()
            self._steps[names] = Steps.of([self._bound[index] for index in needed], names)
        return self._steps[names]


_PROGRAMS = PerModel[Limits, Program]()


@names_file
def evaluate(
    model: Model,
    feeds: Mapping[str, object],
    fetch: Sequence[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    notes: list[str] | None = None,
) -> dict[str, Any]:
    """The values of `fetch`, which may name any tensor of the graph; by default the graph's outputs.

    `feeds` holds one value per input, of the element type and shape that the model states (any size where it states
    none): arrays, lists for sequences, dicts for maps, None for an optional without content.  An input that has an
    initializer may be left out.  Only nodes that `fetch` depends on are computed, and only their inputs need to be fed.
    Results may be views of each other, of the feeds or of the model: treat them as read-only.  The same feeds give the
    same results, bit for bit; operators that draw random numbers start from a fixed seed.

    `notes` receives a sentence for each output that is not what the model states of it.
    Raises EvaluationError for wrong feeds and unknown names, Unsupported for operators that hwflow lacks (all of them
    in one message), LimitError where the model asks for more than `limits`.
    Each begins with the file of the model, where it was read from one.
    """
    return program_of(model, limits).run(feeds, fetch, notes)


def evaluate_nodes(
    nodes: Sequence[Node],
    feeds: Mapping[str, Array],
    results: Iterable[str],
    opsets: Mapping[str, int],
    constants: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """What `nodes`, in order, make of the tensors `feeds` and of `constants`: the tensors `results`, by name.

    The feeds are no constants: what a node must know before it runs has to be in `constants`, which may hold more.
    Raises as `evaluate` does.
    """
    inputs = tuple(Value(name, TensorType(array.dtype, array.shape)) for name, array in feeds.items())
    read = {name for node in nodes for name in node.inputs}
    held = {name: array for name, array in (constants or {}).items() if name in read and name not in feeds}
    graph = Graph("nodes", tuple(nodes), inputs, tuple(Value(name, None) for name in results), held)
    return evaluate(Model(graph, 10, opsets), feeds)


def program_of(model: Model, limits: Limits = DEFAULT_LIMITS) -> Program:
    """The model's program, made at the first call and kept as long as the model is."""
    programs = _PROGRAMS.of(model)
    if limits not in programs:
        programs[limits] = Program(model, limits)
    return programs[limits]
