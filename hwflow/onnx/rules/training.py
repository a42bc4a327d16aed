"""Rules about training information: which state variables there are and what sets them (TR).

That an algorithm continues the main graph, so that its nodes may read everything there, is a matter of scopes and is
checked with those (rules NM).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, error, quoted
from hwflow.onnx.rules.symbols import initializer_names

_REMEDY = "correct the binding"


def bindings(document: Document) -> Iterator[Finding]:
    """A binding maps a state variable, once, to an output of the graph that computes its value."""
    main = set(initializer_names(document.proto.graph))
    main_outputs = {value.name for value in document.proto.graph.output}
    updated: dict[str, int] = {}
    for index, training in enumerate(document.proto.training_info):
        path = f"training_info[{index}]"
        variables = main | set(initializer_names(training.algorithm))
        yield from _initialization(training, variables, f"{path}/initialization_binding")
        yield from _update(training, variables, main_outputs, f"{path}/update_binding")
        for key in {entry.key: None for entry in training.update_binding}:
            if key in updated:
                message = f"{quoted(key)} must be updated by one algorithm, not by training_info[{updated[key]}] too"
                yield error("TR-04", f"{path}/update_binding", message, _REMEDY)
            updated.setdefault(key, index)


def _keys(entries: Iterable[pb.StringStringEntryProto], variables: set[str], rule: str, path: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for entry in entries:
        if entry.key in seen:
            yield error("TR-04", path, f"{quoted(entry.key)} must be bound once, not twice", _REMEDY)
        seen.add(entry.key)
        if entry.key not in variables:
            message = f"{quoted(entry.key)} must be an initializer of the main graph or of the algorithm, not unknown"
            yield error(rule, path, message, _REMEDY)


def _initialization(training: pb.TrainingInfoProto, variables: set[str], path: str) -> Iterator[Finding]:
    entries = training.initialization_binding
    yield from _keys(entries, variables, "TR-02", path)
    if entries and not training.HasField("initialization"):
        yield error("TR-05", path, "an initialization must be given for the bindings, not left out", _REMEDY)
        return
    outputs = {value.name for value in training.initialization.output}
    for entry in entries:
        if entry.value not in outputs:
            message = (
                f"{quoted(entry.key)} must be bound to an output of the initialization, not to {quoted(entry.value)}"
            )
            yield error("TR-03", path, message, _REMEDY)


def _update(
    training: pb.TrainingInfoProto, variables: set[str], main_outputs: set[str], path: str
) -> Iterator[Finding]:
    yield from _keys(training.update_binding, variables, "TR-06", path)
    outputs = main_outputs | {value.name for value in training.algorithm.output}
    for entry in training.update_binding:
        if entry.value not in outputs:
            message = f"{quoted(entry.key)} must be bound to an output of the algorithm, not to {quoted(entry.value)}"
            yield error("TR-06", path, message, _REMEDY)


RULES = (bindings,)
