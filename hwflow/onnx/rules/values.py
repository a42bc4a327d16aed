"""Rules about constant values: stated types, not-a-number, scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from hwflow.onnx.calls import describe
from hwflow.onnx.model import Array, Model
from hwflow.onnx.rules.finding import Finding, Severity

__all__ = ["constants_are_numbers", "initializers_as_stated", "scales_positive"]

_AGAIN = "export the model again"


def initializers_as_stated(model: Model) -> Iterator[Finding]:
    """An initializer has the type that the file states for its name."""
    for name, array in model.graph.initializers.items():
        stated = model.graph.tensor_type(name)
        if stated is None:
            continue
        shape = stated.shape
        fits = stated.dtype == array.dtype and (
            shape is None
            or (
                len(shape) == array.ndim
                and all(not isinstance(d, int) or d == n for d, n in zip(shape, array.shape, strict=True))
            )
        )
        if not fits:
            yield Finding(
                Severity.ERROR,
                "initializer-type",
                f"initializer '{name}'",
                f"the type must be {describe(stated.dtype, shape)} as stated, not {describe(array.dtype, array.shape)}",
                _AGAIN,
            )


def constants_are_numbers(model: Model) -> Iterator[Finding]:
    """No weight is not-a-number: every result that depends on it would be, and integers have none."""
    for name, array in _constants(model).items():
        if array.dtype.kind in "fc" and (count := int(np.count_nonzero(np.isnan(array)))):
            yield Finding(
                Severity.ERROR,
                "constant-nan",
                f"constant '{name}'",
                f"the elements must be numbers, not NaN ({count} of {array.size} are)",
                "train or export the model again",
            )


def scales_positive(model: Model) -> Iterator[Finding]:
    """Scales of QuantizeLinear and DequantizeLinear are positive and finite."""
    constants = _constants(model)
    for index, node in enumerate(model.graph.nodes):
        if node.domain or node.op_type not in ("QuantizeLinear", "DequantizeLinear") or len(node.inputs) < 2:
            continue
        scale = constants.get(node.inputs[1])
        if scale is not None and scale.dtype.kind == "f" and (bad := _not_positive(scale)) is not None:
            yield Finding(
                Severity.ERROR,
                "scale-positive",
                f"graph/node[{index}] {node.label}",
                f"the scale '{node.inputs[1]}' must be positive and finite, not {bad}",
                "quantize the model again",
            )


def _not_positive(scale: Array) -> float | None:
    """The first element that is zero, negative, infinite or no number."""
    values = scale.astype(np.float64).reshape(-1)
    bad = values[~(np.isfinite(values) & (values > 0))]
    return float(bad[0]) if bad.size else None


def _constants(model: Model) -> Mapping[str, Array]:
    """Initializers, and tensors in Constant nodes by the name of their output."""
    found = dict(model.graph.initializers)
    for node in model.graph.nodes:
        value = node.attributes.get("value")
        if node.op_type == "Constant" and not node.domain and node.outputs and isinstance(value, np.ndarray):
            found[node.outputs[0]] = value
    return found
