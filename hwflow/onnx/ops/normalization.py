"""Normalization: by mean and variance of batch, layer, group or channel, by length, and by neighbours."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.element_types import float_attribute, widened, working_type
from hwflow.onnx.ops.shapes import after, as_first, common_shape


def _batch_normalization(
    call: Call, x: Arr, scale: Arr, bias: Arr, mean: Arr, variance: Arr
) -> Arr | tuple[Arr, ...]:
    """x [n, c, ...], the parameters [c], or [c, ...] with 'spatial' 0 (before version 9)."""
    shape = _parameter_shape(call, x, scale, bias, mean, variance)
    wide = working_type(np.result_type(x.dtype, scale.dtype, mean.dtype) if x.dtype.kind == "f" else x.dtype)
    values, statistics = x.astype(wide, copy=False), (mean, variance)
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
        for old, new in zip(statistics, (batch_mean, batch_variance), strict=True)
    ]
    saved = [new.astype(old.dtype) for old, new in zip(statistics, (batch_mean, batch_variance), strict=True)]
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


def standardized(x: Arr, axes: tuple[int, ...], epsilon: float) -> tuple[Arr, Arr, Arr]:
    """x with mean 0 and variance 1 over the axes; the mean and 1 / sqrt(variance + epsilon), their axes kept."""
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    inverse = np.reciprocal(np.sqrt(variance + variance.dtype.type(epsilon)))
    return centred * inverse, mean, inverse


def root_mean_square(x: Arr, axes: tuple[int, ...], epsilon: float) -> Arr:
    """x divided by the root of its mean square over the axes."""
    mean = np.mean(x * x, axis=axes, keepdims=True)
    return np.asarray(x / np.sqrt(mean + mean.dtype.type(epsilon)))


def _stash(call: Call) -> tuple[DType, DType]:
    """The type that 'stash_type' names, and that in which its sums are made."""
    named = float_attribute(call, "stash_type", np.dtype(np.float32))
    return named, working_type(named)


def _layer_normalization(call: Call, x: Arr, scale: Arr, bias: Arr | None = None) -> tuple[Arr, Arr, Arr]:
    """Over all axes from 'axis' on; scale and bias broadcast to x."""
    named, wide = _stash(call)
    _check_broadcast(call, x, scale, bias)
    axes = tuple(range(axis_in(call, call.integer("axis"), x.ndim), x.ndim))
    normal, mean, inverse = standardized(x.astype(wide, copy=False), axes, call.number("epsilon"))
    y = normal.astype(x.dtype, copy=False) * scale
    y = np.asarray(y if bias is None else y + bias).astype(x.dtype, copy=False)
    return y, mean.astype(named, copy=False), inverse.astype(named, copy=False)


def _layer_shapes(call: Call, x: Known, scale: Known, bias: Known | None = None) -> tuple[Known, Known, Known]:
    first, (named, _) = axis_in(call, call.integer("axis"), x.ndim), _stash(call)
    _check_broadcast(call, x, scale, bias)
    statistics = Known(named, (*x.shape[:first], *(1,) * (x.ndim - first)))
    return Known(x.dtype, x.shape), statistics, statistics


def _check_broadcast(call: Call, x: Arr | Known, *parameters: Arr | Known | None) -> None:
    """Refuse a scale or bias that does not broadcast to the shape of x."""
    for parameter in parameters:
        if parameter is None:
            continue
        try:
            fits = common_shape(x.shape, parameter.shape) == x.shape
        except ValueError:
            fits = False
        if not fits:
            raise call.error(
                f"scale and bias must broadcast to the input {list(x.shape)}, "
                f"not have the shape {list(parameter.shape)}"
            )


def _rms_normalization(call: Call, x: Arr, scale: Arr) -> Arr:
    """Over all axes from 'axis' on; the output has the type of the scale."""
    wide = _stash(call)[1]
    _check_broadcast(call, x, scale)
    axes = tuple(range(axis_in(call, call.integer("axis"), x.ndim), x.ndim))
    normal = root_mean_square(x.astype(wide, copy=False), axes, call.number("epsilon")).astype(x.dtype, copy=False)
    return np.asarray(normal.astype(scale.dtype, copy=False) * scale)


def _rms_shapes(call: Call, x: Known, scale: Known) -> Known:
    axis_in(call, call.integer("axis"), x.ndim)
    _check_broadcast(call, x, scale)
    return Known(scale.dtype, x.shape)


def _instance_normalization(call: Call, x: Arr, scale: Arr, bias: Arr) -> Arr:
    """x [n, c, ...], scale and bias [c]; statistics of each plane."""
    _check_channels(call, x, scale, bias)
    wide = working_type(x.dtype)
    normal = standardized(x.astype(wide, copy=False), tuple(range(2, x.ndim)), call.number("epsilon"))[0]
    ones = (1,) * (x.ndim - 2)
    y = normal * scale.astype(wide, copy=False).reshape(-1, *ones) + bias.astype(wide, copy=False).reshape(-1, *ones)
    return np.asarray(y).astype(x.dtype, copy=False)


def _check_channels(call: Call, x: Arr | Known, scale: Arr | Known, bias: Arr | Known) -> None:
    if x.ndim < 3:
        raise call.error(f"the input must have batch, channels and spatial axes, not the shape {list(x.shape)}")
    for parameter in (scale, bias):
        if parameter.shape != x.shape[1:2]:
            raise call.error(f"scale and bias must have the shape [{x.shape[1]}], not {list(parameter.shape)}")


def _group_normalization(call: Call, x: Arr, scale: Arr, bias: Arr) -> Arr:
    """x [n, c, ...] in groups of channels; scale and bias [groups] in version 18, [c] from 21 on."""
    groups = _check_groups(call, x, scale, bias)
    wide = _stash(call)[1] if call.opset >= 21 else working_type(x.dtype)
    parts = x.astype(wide, copy=False).reshape(x.shape[0], groups, -1)
    normal = standardized(parts, (2,), call.number("epsilon"))[0].astype(x.dtype, copy=False)
    shaped = normal.reshape(*x.shape[:2], -1) if call.opset >= 21 else normal
    return np.asarray(shaped * scale[:, None] + bias[:, None]).astype(x.dtype, copy=False).reshape(x.shape)


def _check_groups(call: Call, x: Arr | Known, scale: Arr | Known, bias: Arr | Known) -> int:
    groups = call.integer("num_groups")
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise call.error(f"'num_groups' must divide the channels of the input {list(x.shape)}, not be {groups}")
    lengths = (x.shape[1] if call.opset >= 21 else groups,)
    for parameter in (scale, bias):
        if parameter.shape != lengths:
            raise call.error(f"scale and bias must have the shape {list(lengths)}, not {list(parameter.shape)}")
    return groups


def _local_response(call: Call, x: Arr) -> Arr:
    """Each element divided by a power of the sum of squares of its neighbours among the channels."""
    size = call.integer("size")
    if x.ndim < 2 or size < 1:
        raise call.error(f"'size' must be 1 or more and the input have channels, not {size} and {list(x.shape)}")
    wide, channels = working_type(x.dtype), x.shape[1]
    before, after = min((size - 1) // 2, channels), min(size // 2, channels)
    values = x.astype(wide, copy=False)
    squares, total = values * values, np.zeros(x.shape, wide)
    call.work(x.size * (before + after + 1))
    for step in range(-before, after + 1):
        low, high = max(0, -step), min(channels, channels - step)
        if low < high:
            total[:, low:high] += squares[:, low + step : high + step]
    base = wide.type(call.number("bias")) + wide.type(call.number("alpha") / size) * total
    return np.asarray(values / base ** wide.type(call.number("beta"))).astype(x.dtype, copy=False)


def _lp_normalization(call: Call, x: Arr) -> Arr:
    """Divided by the sum of absolute values (p = 1) or the length (p = 2) along an axis; 0 where that is 0."""
    p, axis = call.integer("p"), axis_in(call, call.integer("axis"), x.ndim)
    if p not in (1, 2):
        raise call.error(f"'p' must be 1 or 2, not {p}", "export the model again")
    values = widened(x)
    if p == 1:
        norm = np.sum(np.abs(values), axis=axis, keepdims=True)
    else:
        norm = np.sqrt(np.sum(values * values, axis=axis, keepdims=True))
    return np.asarray(np.where(norm == 0, norm, values / norm)).astype(x.dtype, copy=False)


def _mean_variance(call: Call, x: Arr) -> Arr:
    """(x - mean) / (standard deviation + 1e-9), the constant of the operator's definition as a function."""
    axes = tuple(axis_in(call, axis, x.ndim) for axis in call.integers("axes"))
    values = widened(x)
    centred = values - np.mean(values, axis=axes, keepdims=True)
    spread = np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True))
    return np.asarray(centred / (spread + spread.dtype.type(1e-9))).astype(x.dtype, copy=False)


OPERATORS: Table = {
    ("", "BatchNormalization"): (Operator(1, _batch_normalization, _shapes),),
    ("", "LayerNormalization"): (Operator(17, _layer_normalization, _layer_shapes),),
    ("", "RMSNormalization"): (Operator(23, _rms_normalization, _rms_shapes),),
    ("", "InstanceNormalization"): (Operator(1, _instance_normalization, after(_check_channels)),),
    ("", "GroupNormalization"): (Operator(18, _group_normalization, after(_check_groups)),),
    ("", "LRN"): (Operator(1, _local_response, as_first),),
    ("", "LpNormalization"): (Operator(1, _lp_normalization, as_first),),
    ("", "MeanVarianceNormalization"): (Operator(9, _mean_variance, as_first),),
}
