"""Training as the ONNX specification describes it: initialization, training steps, and inference on the same state.

    trainer = Trainer(model)
    trainer.initialize()
    for x, y in batches:
        outputs = trainer.step({"x": x, "y": y})
    predictions = trainer.infer({"x": x})

The state variables are the initializers that the bindings of the model's TrainingInfo name, in one scope for the main
graph and all algorithms.  The model itself never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from hwflow.onnx.errors import TrainingError
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Array, Graph, Model, Operand, TensorType, Training, Value
from hwflow.onnx.run.evaluate import Program
from hwflow.onnx.run.operands import constants_of, describe, describe_operand, frozen


class Trainer:
    """A model with its state variables.  `infer` leaves the state as it is, `initialize` and `step` change it."""

    def __init__(self, model: Model, limits: Limits = DEFAULT_LIMITS) -> None:
        """Raises TrainingError where bindings do not fit, and what preparing the graphs raises."""
        if not model.training:
            raise TrainingError(
                "the model must have training information to be trained, not none", "export it with some"
            )
        self._model = model
        self._limits = limits
        self._state = self._initial_state()
        for index, training in enumerate(model.training):
            _require_bindings(model.graph, training, f"training_info[{index}]", self._state)
        self._inference = Program(replace(model, graph=self._with_state(model.graph)), limits)
        self._inference.require_supported()
        self._steps = [self._algorithm(index) for index in range(len(model.training))]

    @property
    def state(self) -> Mapping[str, Array]:
        """The state variables by name, as they are now; arrays that cannot be written to."""
        return MappingProxyType(dict(self._state))

    def initialize(self) -> None:
        """Run the initialization graphs of all instances, in their order, and assign what they are bound to."""
        for index, training in enumerate(self._model.training):
            if training.initialization is None:
                continue
            program = Program(replace(self._model, graph=training.initialization, training=()), self._limits)
            where = f"training_info[{index}]/initialization"
            self._assign(training.initialization_binding, program.run({}), where)

    def step(
        self, feeds: Mapping[str, object], index: int = 0, fetch: Sequence[str] | None = None
    ) -> dict[str, Operand]:
        """Run training algorithm number `index` once and update the state that it is bound to.

        `feeds` holds the inputs of the main graph and those of the algorithm.  The result is `fetch`, any tensors of
        both, by default the outputs of the algorithm.  All updates happen behind the evaluation, at once.
        """
        if not 0 <= index < len(self._steps):
            raise TrainingError(f"the algorithm must be 0 to {len(self._steps) - 1}, not {index}")
        program, training = self._steps[index], self._model.training[index]
        if program is None or training.algorithm is None:
            raise TrainingError(f"training_info[{index}] must have an algorithm to be run, not none")
        fetched = [value.name for value in training.algorithm.outputs] if fetch is None else list(fetch)
        names = dict.fromkeys((*fetched, *training.update_binding.values()))
        results = program.run(self._fed(feeds), tuple(names))
        self._assign(training.update_binding, results, f"training_info[{index}]/algorithm")
        return {name: results[name] for name in fetched}

    def infer(self, feeds: Mapping[str, object], fetch: Sequence[str] | None = None) -> dict[str, Operand]:
        """Run the main graph on the state as it is now."""
        main = self._model.graph.initializers.keys() | self._model.graph.sparse_initializers.keys()
        state = {name: array for name, array in self._fed(feeds).items() if name in main or name not in self._state}
        return self._inference.run(state, fetch)

    def _fed(self, feeds: Mapping[str, object]) -> dict[str, object]:
        clash = [name for name in feeds if name in self._state]
        if clash:
            raise TrainingError(
                f"'{clash[0]}' must not be fed: it is a state variable, set by the model's own bindings"
            )
        return {**self._state, **feeds}

    def _initial_state(self) -> dict[str, Array]:
        graphs = [self._model.graph, *(t.algorithm for t in self._model.training if t.algorithm is not None)]
        known: dict[str, Array] = {}
        for graph in reversed(graphs):  # the main graph last: its initializers win
            known.update(constants_of(graph, graph.name, self._limits))
        bound = (n for t in self._model.training for n in (*t.initialization_binding, *t.update_binding))
        return {name: known[name] for name in bound if name in known}

    def _with_state(self, graph: Graph) -> Graph:
        """The graph with its state variables as inputs that may be fed."""
        present = graph.initializers.keys() | graph.sparse_initializers.keys()
        others = tuple(value for value in graph.overridable if value.name not in self._state)
        state = (
            Value(name, TensorType(array.dtype, array.shape)) for name, array in self._state.items() if name in present
        )
        return replace(graph, overridable=(*others, *state))

    def _algorithm(self, index: int) -> Program | None:
        """The main graph and behind it the algorithm, as one graph."""
        main, algorithm = self._model.graph, self._model.training[index].algorithm
        if algorithm is None:
            return None
        joined = Graph(
            name=algorithm.name,
            nodes=(*main.nodes, *algorithm.nodes),
            inputs=(*main.inputs, *algorithm.inputs),
            outputs=algorithm.outputs,
            initializers={**algorithm.initializers, **main.initializers, **self._state},
            sparse_initializers={
                name: sparse
                for name, sparse in {**algorithm.sparse_initializers, **main.sparse_initializers}.items()
                if name not in self._state
            },
            overridable=(*main.overridable, *algorithm.overridable),
        )
        program = Program(replace(self._model, graph=self._with_state(joined), training=()), self._limits)
        program.require_supported()
        return program

    def _assign(self, binding: Mapping[str, str], results: Mapping[str, Operand], where: str) -> None:
        new = {}
        for name, source in binding.items():
            value, old = results[source], self._state[name]
            if not isinstance(value, np.ndarray) or (value.dtype, value.shape) != (old.dtype, old.shape):
                raise TrainingError(
                    f"{where}: the new value of state variable '{name}' must be {describe(old.dtype, old.shape)}, "
                    f"not {describe_operand(value)}"
                )
            new[name] = frozen(value.copy())  # results may be views of what the caller feeds
        self._state.update(new)  # type: ignore[arg-type]


def _require_bindings(main: Graph, training: Training, where: str, state: Mapping[str, Array]) -> None:
    """Raise TrainingError where a binding names no initializer, or no output of its graph."""
    initialization, algorithm = training.initialization, training.algorithm
    local: set[str] = set()
    if algorithm is not None:
        local = algorithm.initializers.keys() | algorithm.sparse_initializers.keys()
    known = main.initializers.keys() | main.sparse_initializers.keys() | local
    outputs = {value.name for value in initialization.outputs} if initialization is not None else set()
    computed = {value.name for graph in (main, algorithm) if graph is not None for value in graph.outputs}
    for kind, binding, sources in (
        ("initialization_binding", training.initialization_binding, outputs),
        ("update_binding", training.update_binding, computed),
    ):
        for name, source in binding.items():
            if name not in known or name not in state:
                raise TrainingError(
                    f"{where}/{kind}: the key must be an initializer of the main graph or of the algorithm, "
                    f"not '{name}'", "export the model again"
                )
            if source not in sources:
                graph = "initialization" if kind.startswith("init") else "algorithm"
                raise TrainingError(
                    f"{where}/{kind}: the value must be an output of the {graph} graph, not '{source}'",
                    "export the model again"
                )
