"""BatchNormalization: with stored statistics, and in training with those of the batch."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.precision import working_type


def _batch_normalization(
    call: Call, x: Arr, scale: Arr, bias: Arr, mean: Arr, variance: Arr
) -> Arr | tuple[Arr, ...]:
    """x [n, c, ...], the parameters [c], or [c, ...] with 'spatial' 0 (before version 9)."""
    shape = _parameter_shape(call, x, scale, bias, mean, variance)
    wide = working_type(np.result_type(x.dtype, scale.dtype, mean.dtype) if x.dtype.kind == "f" else x.dtype)
    values, kept = x.astype(wide, copy=False), (mean, variance)
    if _training(call):
        axes = (0, *range(2, x.ndim)) if len(shape) == 1 else (0,)
        batch_mean, batch_variance = np.mean(values, axis=axes), np.var(values, axis=axes)
    else:
        batch_mean, batch_variance = mean.astype(wide, copy=False), variance.astype(wide, copy=False)
    factor = scale.astype(wide, copy=False) / np.sqrt(batch_variance + wide.type(call.number("epsilon")))
    offset = bias.astype(wide, copy=False) - batch_mean * factor
    ones = (1,) * (x.ndim - 1 - len(shape)) if x.ndim > 1 else ()
    y = values * factor.reshape(*shape, *ones) + offset.reshape(*shape, *ones)
    result = np.asarray(y).astype(x.dtype, copy=False)
    if not _training(call):
        return result
    share = call.number("momentum")
    running = [
        (old.astype(wide) * wide.type(share) + new * wide.type(1 - share)).astype(old.dtype)
        for old, new in zip(kept, (batch_mean, batch_variance), strict=True)
    ]
    saved = [new.astype(old.dtype) for old, new in zip(kept, (batch_mean, batch_variance), strict=True)]
    return (result, *running, *saved)


def _training(call: Call) -> bool:
    """Statistics of the batch: said by an attribute; in versions 7 and 9 by outputs beyond the first."""
    if call.opset >= 14:
        return bool(call.integer("training_mode"))
    if call.opset >= 7:
        return any(call.wants(i) for i in range(1, 5))
    return not call.integer("is_test")


def _parameter_shape(call: Call, x: Arr | Known, *parameters: Arr | Known) -> tuple[int, ...]:
    if x.ndim < 1:
        raise call.error("the input must have axes, not be a single number")
    shape: tuple[int, ...] = (x.shape[1] if x.ndim > 1 else 1,)
    if call.opset < 9 and not call.integer("spatial"):
        shape = x.shape[1:] or (1,)
    wrong = [p.shape for p in parameters if p.shape != shape]
    if wrong:
        raise call.error(f"the parameters must have the shape {list(shape)}, not {list(wrong[0])}")
    if not _training(call) and any(call.wants(i) for i in range(1, 5)):
        raise call.error("outputs beyond the first must not be named without training", "export the model again")
    return shape


def _shapes(call: Call, x: Known, scale: Known, bias: Known, mean: Known, variance: Known) -> tuple[Known, ...]:
    shape = _parameter_shape(call, x, scale, bias, mean, variance)
    statistics = (Known(mean.dtype, shape), Known(variance.dtype, shape))
    return (Known(x.dtype, x.shape), *statistics, *statistics)


OPERATORS: Table = {
    ("", "BatchNormalization"): (Operator(1, _batch_normalization, _shapes),),
}
