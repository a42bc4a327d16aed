"""ONNX's own Backend interface (onnx.backend.base), without the package onnx.

    rep = hwflow.backend.prepare(model)
    outputs = rep.run([x])

A model is an onnx.ModelProto (or anything else with SerializeToString), the bytes of one, a path, or an hwflow Model.
What hwflow does not evaluate raises BackendUnsupported, a NotImplementedError as ONNX's test runner expects it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, Union

import numpy as np

from hwflow.onnx import evaluate
from hwflow.onnx.errors import EvaluationError, Unsupported
from hwflow.onnx.files import load, loads
from hwflow.onnx.model import Model, Operand

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

    def __init__(self, model: Model, order: Sequence[str]) -> None:
        """`order` names the inputs as the file lists them, those that have an initializer too."""
        self._model = model
        self._order = tuple(order)

    def run(self, inputs: Any, **_: Any) -> tuple[Operand, ...]:
        """The outputs in the order of the graph.

        `inputs` is a dict by name, a list or tuple by position, or a single array.  By position they are all inputs of
        the file, or all that have no initializer.
        """
        with _unsupported():
            found = evaluate(self._model, self._feeds(inputs))
        return tuple(found[value.name] for value in self._model.graph.outputs)

    def _feeds(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        required = {value.name for value in self._model.graph.inputs}
        names = self._order if len(given) == len(self._order) else [n for n in self._order if n in required]
        if len(given) > len(names):
            raise EvaluationError(
                f"the inputs must be at most {len(self._order)} ({', '.join(self._order) or 'none'}), not {len(given)}"
            )
        return dict(zip(names, given, strict=False))


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
    def prepare(cls, model: AnyModel, device: str = "CPU", **_: Any) -> BackendRep:
        """Read a model and bind its nodes.  Raises HwflowError; BackendUnsupported for what hwflow lacks."""
        if not cls.supports_device(device):
            raise BackendUnsupported(f"the device must be CPU, not {device!r}")
        with _unsupported():
            return BackendRep(*_read(model))

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
        model = _one_node(node, inputs, options.pop("opset_version", None))
        return cls.run_model(model, inputs, device, **options)


def _read(model: AnyModel) -> tuple[Model, tuple[str, ...]]:
    """The model and the names of its inputs in the order of the file."""
    if isinstance(model, (str, os.PathLike)):
        return _ordered(load(model), Path(model).read_bytes)
    if isinstance(model, Model):
        return _ordered(model, None)
    if not isinstance(model, (bytes, bytearray, memoryview)):
        model = model.SerializeToString()
    data = bytes(model)
    return _ordered(loads(data), lambda: data)


def _ordered(model: Model, data: Any) -> tuple[Model, tuple[str, ...]]:
    return model, tuple(value.name for value in (*model.graph.inputs, *model.graph.overridable))


def _one_node(node: Any, inputs: Any, opset: int | None) -> bytes:
    raise BackendUnsupported("run_node")


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
is_compatible = Backend.is_compatible
