"""Random numbers, and Dropout.

ONNX leaves the generator open: these are the streams of numpy's RandomState, which numpy promises never to change.
A node without a seed has the seed 0, so that every run gives the same result.
"""

from __future__ import annotations

import numpy as np

from hwflow.onnx.dtypes import element_type
from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.element_types import convert, widened
from hwflow.onnx.ops.softmax import softmax


def _generator(call: Call) -> np.random.RandomState:
    """Attribute `seed` is a float of 32 bits (an integer for Dropout); what is no small integer gives its bits."""
    stated = call.node.attributes.get("seed", 0)
    seed = call.integer("seed", 0) if isinstance(stated, int) else call.number("seed", 0.0)
    if seed == seed and abs(seed) < 1 << 32 and seed == int(seed):
        return np.random.RandomState(int(seed) % (1 << 32))
    return np.random.RandomState(int(np.float32(seed).view(np.uint32)))


def _dtype(call: Call, default: DType | None = None) -> DType:
    if default is not None and not call.has("dtype"):
        return default
    return element_type(call.integer("dtype"), f"the output of {call.node.label}").dtype


def _normal(call: Call, like: Known) -> Arr:
    call.check_size(like.shape, np.dtype(np.float64))
    mean, scale = call.number("mean"), call.number("scale")
    if not scale >= 0:
        raise call.error(f"attribute 'scale' must be 0 or more, not {scale}", "export the model again")
    return np.asarray(mean + scale * _generator(call).standard_normal(like.shape)).astype(like.dtype)


def _uniform(call: Call, like: Known) -> Arr:
    call.check_size(like.shape, np.dtype(np.float64))
    low, high = call.number("low"), call.number("high")
    return np.asarray(low + (high - low) * _generator(call).random_sample(like.shape)).astype(like.dtype)


def _by_attribute(call: Call) -> Known:
    return Known(_dtype(call, np.dtype(np.float32)), call.integers("shape"))


def _by_input(call: Call, x: Arr | Known) -> Known:
    return Known(_dtype(call, x.dtype), x.shape)


def _random_normal(call: Call) -> Arr:
    return _normal(call, _by_attribute(call))


def _random_uniform(call: Call) -> Arr:
    return _uniform(call, _by_attribute(call))


def _random_normal_like(call: Call, x: Arr) -> Arr:
    return _normal(call, _by_input(call, x))


def _random_uniform_like(call: Call, x: Arr) -> Arr:
    return _uniform(call, _by_input(call, x))


def _bernoulli(call: Call, probability: Arr) -> Arr:
    """1 with the probability that the input gives for each element."""
    call.check_size(probability.shape, np.dtype(np.float64))
    drawn = _generator(call).random_sample(probability.shape) < widened(probability)
    return convert(np.asarray(drawn), _dtype(call, probability.dtype))


def _multinomial(call: Call, x: Arr) -> Arr:
    """Classes drawn for each row by probabilities whose logarithms, up to a constant, are the row."""
    known = _multinomial_shapes(call, Known(x.dtype, x.shape))
    call.check_size(known.shape, np.dtype(np.float64))
    (rows, count), classes = known.shape, x.shape[1]
    if rows and count and not classes:
        raise call.error("the input must have one class or more, not none")
    call.work(rows * (classes + count))
    steps = np.cumsum(softmax(widened(x).astype(np.float64), 1), axis=1)
    drawn = _generator(call).random_sample((rows, count))
    chosen = [np.searchsorted(step, row, side="right") for step, row in zip(steps, drawn, strict=True)]
    return np.array(chosen, known.dtype).reshape(known.shape).clip(0, max(classes - 1, 0))


def _multinomial_shapes(call: Call, x: Known) -> Known:
    dtype, count = _dtype(call, np.dtype(np.int32)), call.integer("sample_size")
    if x.ndim != 2 or count < 0 or dtype not in (np.int32, np.int64):
        raise call.error(
            f"the input must be [rows, classes], 'sample_size' 0 or more and 'dtype' int32 or int64, "
            f"not {list(x.shape)}, {count} and {dtype.name}", "export the model again"
        )
    return Known(dtype, (x.shape[0], count))


def _dropped(call: Call, x: Arr, ratio: float) -> tuple[Arr, Arr]:
    if not 0 <= ratio < 1:
        raise call.error(f"the ratio must be 0 to below 1, not {ratio}")
    call.check_size(x.shape, np.dtype(np.float64))
    mask = _generator(call).random_sample(x.shape) >= ratio
    w = widened(x)
    return np.asarray(w * mask * w.dtype.type(1 / (1 - ratio))).astype(x.dtype), mask


def _kept(x: Arr, mask: DType) -> tuple[Arr, Arr]:
    return x, np.broadcast_to(np.ones((), mask), x.shape)


def _dropout_1(call: Call, x: Arr) -> tuple[Arr, Arr]:
    """With `is_test` nothing is dropped; the mask has the type of the input."""
    if call.integer("is_test"):
        return _kept(x, x.dtype)
    y, mask = _dropped(call, x, call.number("ratio"))
    return y, mask.astype(x.dtype)


def _dropout_7(call: Call, x: Arr) -> tuple[Arr, Arr]:
    """Versions 7 and 10 are for inference: nothing is dropped."""
    return _kept(x, _mask_type(call, x))


def _mask_type(call: Call, x: Arr | Known) -> DType:
    return np.dtype(np.bool_) if call.opset >= 10 else x.dtype


def _dropout(call: Call, x: Arr, ratio: Arr | None = None, training: Arr | None = None) -> tuple[Arr, Arr]:
    for name, operand in (("ratio", ratio), ("training_mode", training)):
        if operand is not None and operand.size != 1:
            raise call.error(f"input '{name}' must be one number, not have the shape {list(operand.shape)}")
    share = 0.5 if ratio is None else float(ratio.reshape(())[()])
    if training is None or not bool(training.reshape(())[()]) or share == 0:
        return _kept(x, np.dtype(np.bool_))
    return _dropped(call, x, share)


def _dropout_shapes(call: Call, x: Known, *others: Known | None) -> tuple[Known, Known]:
    return Known(x.dtype, x.shape), Known(_mask_type(call, x), x.shape)


OPERATORS: Table = {
    ("", "RandomNormal"): (Operator(1, _random_normal, _by_attribute),),
    ("", "RandomUniform"): (Operator(1, _random_uniform, _by_attribute),),
    ("", "RandomNormalLike"): (Operator(1, _random_normal_like, _by_input),),
    ("", "RandomUniformLike"): (Operator(1, _random_uniform_like, _by_input),),
    ("", "Bernoulli"): (Operator(15, _bernoulli, _by_input),),
    ("", "Multinomial"): (Operator(7, _multinomial, _multinomial_shapes),),
    ("", "Dropout"): (
        Operator(1, _dropout_1, _dropout_shapes),
        Operator(7, _dropout_7, _dropout_shapes),
        Operator(12, _dropout, _dropout_shapes),
    ),
}
