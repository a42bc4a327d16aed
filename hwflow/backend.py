"""ONNX's own Backend interface (onnx.backend.base), without the package onnx.

    rep = hwflow.backend.prepare(model)
    outputs = rep.run([x])

A model is an onnx.ModelProto (or anything else with SerializeToString), the bytes of one, a path, or an hwflow Model.
What hwflow does not evaluate raises BackendUnsupported, a NotImplementedError as ONNX's test runner expects it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, Union

import numpy as np

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.advice import RANDOM
from hwflow.onnx.container.files import load, loads
from hwflow.onnx.container.reader import MAX_IR_VERSION
from hwflow.onnx.errors import EvaluationError, Unsupported
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Model, Node, Operand, TensorType, Value
from hwflow.onnx.operators import OPERATORS
from hwflow.onnx.run.evaluate import Program
from hwflow.onnx.run.functions import graphs_of
from hwflow.onnx.schemas import NEWEST, canonical_domain

__all__ = [
    "Backend",
    "BackendRep",
    "BackendUnsupported",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

#: Operators whose results are random whatever their inputs are; Dropout is so in training only, where suites agree.
_RANDOM = frozenset(name for (_, name), row in OPERATORS.items() if row.advice is RANDOM)

#: What callers may pass as a model.
AnyModel: TypeAlias = Union[Model, bytes, str, os.PathLike[str], Any]


class BackendUnsupported(Unsupported, NotImplementedError):
    """A valid model that hwflow does not evaluate; the message lists everything that it lacks."""


@contextmanager
def _unsupported() -> Iterator[None]:
    try:
        yield
    except Unsupported as error:
        raise BackendUnsupported(str(error)) from None


class BackendRep:
    """A prepared model."""

    def __init__(self, model: Model, order: Sequence[str], limits: Limits, comparable: bool) -> None:
        """`order` names the inputs as the file lists them, those that have an initializer too."""
        self._program = Program(model, limits)
        self._required = {value.name for value in model.graph.inputs}
        self._outputs = tuple(value.name for value in model.graph.outputs)
        self._order = tuple(order)
        self._comparable = comparable
        self._program.require_supported()

    def run(self, inputs: Any, **_: Any) -> tuple[Operand, ...]:
        """The outputs in the order of the graph.

        `inputs` is a dict by name, a list or tuple by position, or a single array.  By position they are all inputs of
        the file, or all that have no initializer.
        """
        with _unsupported():
            found = self._program.run(self._feeds(inputs))
        outputs = tuple(found[name] for name in self._outputs)
        if self._comparable:
            _require_comparable(outputs)
        return outputs

    def _feeds(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        names = self._order if len(given) == len(self._order) else [n for n in self._order if n in self._required]
        if len(given) > len(names):
            raise EvaluationError(
                f"the inputs must be at most {len(self._order)} ({', '.join(self._order) or 'none'}), not {len(given)}"
            )
        return dict(zip(names, given, strict=False))


def _require_comparable(outputs: Sequence[Operand]) -> None:
    """ONNX's runner takes the length of each element of a sequence, which a tensor of rank 0 has not."""
    for output in outputs:
        if isinstance(output, list) and any(isinstance(e, np.ndarray) and e.ndim == 0 for e in output):
            raise BackendUnsupported(
                "a sequence with a scalar cannot be compared by ONNX's test runner",
                "use prepare(..., comparable=False)",
            )


def _require_determined(model: Model) -> None:
    """ONNX does not say which numbers a generator gives for a seed, so that no two backends agree."""
    found = sorted({node.op_type for node in _all_nodes(model) if not node.domain and node.op_type in _RANDOM})
    if found:
        raise BackendUnsupported(
            f"the random numbers of {', '.join(found)} are not defined by ONNX and cannot be compared",
            "use prepare(..., comparable=False)",
        )


def _all_nodes(model: Model) -> Iterator[Node]:
    waiting = [*model.graph.nodes, *(node for function in model.functions for node in function.nodes)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(inner for _, graph in graphs_of(node) for inner in graph.nodes)


class Backend:
    """The interface as class methods; the functions of this module are the same."""

    @classmethod
    def is_compatible(cls, model: AnyModel, device: str = "CPU", **_: Any) -> bool:
        """True: whether a model can be evaluated is what `prepare` says, with the reasons."""
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """numpy computes on the processor."""
        return device.partition(":")[0].upper() == "CPU"

    @classmethod
    def prepare(
        cls, model: AnyModel, device: str = "CPU", *, limits: Limits = DEFAULT_LIMITS, comparable: bool = True, **_: Any
    ) -> BackendRep:
        """Read a model and bind its nodes.  Raises HwflowError; BackendUnsupported for what hwflow lacks.

        The interface exists to compare backends: outputs that ONNX does not define (random numbers) or that its runner
        cannot compare (sequences of scalars) are unsupported, unless `comparable` is False.
        """
        if not cls.supports_device(device):
            raise BackendUnsupported(f"the device must be CPU, not {device!r}")
        with _unsupported():
            read, order = _read(model)
            if comparable:
                _require_determined(read)
            return BackendRep(read, order, limits, comparable)

    @classmethod
    def run_model(cls, model: AnyModel, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Operand, ...]:
        """Prepare and run once."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], Sequence[int]]] | None = None,
        **options: Any,
    ) -> tuple[Operand, ...]:
        """Run one onnx.NodeProto on arrays; `opset_version` says which operator set, by default the newest."""
        inputs = [inputs] if isinstance(inputs, np.ndarray) else inputs
        model = _one_node(node, inputs, outputs_info, options.pop("opset_version", None))
        return cls.run_model(model, inputs, device, **options)


def _read(model: AnyModel) -> tuple[Model, tuple[str, ...]]:
    """The model and the names of its inputs in the order of the file."""
    if isinstance(model, Model):
        return model, _names(model)
    if isinstance(model, (str, os.PathLike)):
        read = load(model)
        return read, _order(read, Path(model).read_bytes)
    data = model if isinstance(model, bytes) else bytes(getattr(model, "SerializeToString", lambda: model)())
    read = loads(data)
    return read, _order(read, lambda: data)


def _names(model: Model) -> tuple[str, ...]:
    return tuple(value.name for value in (*model.graph.inputs, *model.graph.overridable))


def _order(model: Model, data: Callable[[], bytes]) -> tuple[str, ...]:
    """Inputs with and without an initializer stand apart in a Model; only the file knows how they were mixed."""
    if not model.graph.overridable:
        return _names(model)
    return tuple(value.name for value in pb.ModelProto.FromString(data()).graph.input)


def _one_node(node: Any, inputs: Any, outputs_info: Any, opset: int | None) -> Model:
    """A model around a node.  The types of its inputs are those of the arrays."""
    proto = pb.NodeProto.FromString(node.SerializeToString())
    names = list(dict.fromkeys(name for name in proto.input if name))
    arrays = [inputs[name] for name in names] if isinstance(inputs, Mapping) else list(inputs)
    if len(arrays) != len(names):
        raise EvaluationError(f"the inputs must be {len(names)} ({', '.join(names) or 'none'}), not {len(arrays)}")
    domain = canonical_domain(proto.domain)
    version = opset or NEWEST.get(domain, 1)
    file = pb.ModelProto(ir_version=MAX_IR_VERSION)
    file.opset_import.add(domain=domain, version=version)
    file.graph.name = "one node"
    file.graph.node.append(proto)
    graph = loads(file.SerializeToString()).graph
    values = tuple(Value(name, _type_of(array)) for name, array in zip(names, arrays, strict=True))
    types = [TensorType(np.dtype(dtype), tuple(shape)) for dtype, shape in outputs_info or ()]
    outputs = tuple(filter(None, graph.nodes[0].outputs))
    results = tuple(Value(name, types[k] if k < len(types) else None) for k, name in enumerate(outputs))
    return Model(replace(graph, inputs=values, outputs=results), MAX_IR_VERSION, {"": NEWEST[""], domain: version})


def _type_of(value: Any) -> TensorType | None:
    if value is None or isinstance(value, (list, dict)):
        return None
    array = np.asarray(value)
    dtype = np.dtype(np.object_) if array.dtype.kind in "UT" else array.dtype
    return TensorType(dtype, array.shape)


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
is_compatible = Backend.is_compatible
