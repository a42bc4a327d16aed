"""Convolutions, pools and products with weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hwflow.onnx.errors import InvalidModel, Unsupported
from hwflow.onnx.tflite.conversion import Conversion, Layout
from hwflow.onnx.tflite.file import Operator, Options, Tensor
from hwflow.onnx.tflite.rounding import rounded_twice

_AGAIN = "the file is damaged: copy or export it again"
_FIRST = Layout.CHANNELS_FIRST


def conv_2d(c: Conversion, operator: Operator) -> None:
    """Weights are [outputs, height, width, inputs of a group]."""
    options = operator.read("Conv2DOptions")
    x, w, bias = c.operands(operator, 2, 3)
    assert x is not None and w is not None, "the first two are there"  # noqa: PT018
    c.rank(x, 4), c.rank(w, 4)
    inputs, inside = x.shape[3], w.shape[3]
    if not inside or inputs % inside or w.shape[0] % max(inputs // inside, 1):
        raise InvalidModel(
            f"the weights {list(w.shape)} must suit the {inputs} channels of {x.label}", _AGAIN
        )
    _convolve(c, operator, (x, w, bias), options, (0, 3, 1, 2), inputs // inside)


def depthwise_conv_2d(c: Conversion, operator: Operator) -> None:
    """Weights are [1, height, width, outputs]; each input channel has as many outputs in a row."""
    options = operator.read("DepthwiseConv2DOptions")
    x, w, bias = c.operands(operator, 2, 3)
    assert x is not None and w is not None, "the first two are there"  # noqa: PT018
    c.rank(x, 4), c.rank(w, 4)
    inputs = x.shape[3]
    if w.shape[0] != 1 or not inputs or w.shape[3] % inputs:
        raise InvalidModel(f"the weights {list(w.shape)} must suit the {inputs} channels of {x.label}", _AGAIN)
    _convolve(c, operator, (x, w, bias), options, (3, 0, 1, 2), inputs)


def _convolve(c: Conversion, operator: Operator, tensors: tuple[Tensor, Tensor, Tensor | None], options: Options,
              order: tuple[int, ...], group: int) -> None:
    x, w, bias = tensors
    y = c.output(operator)
    _require_scales(c, x, w, order[0])
    strides, places = _sizes(options, "stride_h", "stride_w"), padding(options)
    pads: dict[str, Any] = {"dilations": _sizes(options, "dilation_h", "dilation_w"), "auto_pad": places}
    value = c.node(
        "Conv", c.real(x, _FIRST), weights(c, w, order), *biases(c, bias, x, w),
        kernel_shape=w.shape[1:3], group=group, strides=strides, **pads,
    )  # fmt: skip
    value = rounded_twice(c, value, x, w, y, axes=2)
    c.put(y, value, _FIRST, options.whole("activation"))


def _sizes(options: Options, *names: str) -> tuple[int, ...]:
    """Numbers of the options that must be 1 or more."""
    sizes = tuple(options.whole(name) for name in names)
    for name, size in zip(names, sizes, strict=True):
        if size < 1:
            raise InvalidModel(f"{name} must be 1 or more, not {size}", _AGAIN)
    return sizes


def padding(options: Options) -> str:
    """SAME puts the odd row or column behind, as ONNX' SAME_UPPER does."""
    kind = options.whole("padding")
    if kind not in (0, 1):
        raise InvalidModel(f"the padding must be SAME or VALID, not number {kind}", _AGAIN)
    return ("SAME_UPPER", "VALID")[kind]


def weights(c: Conversion, w: Tensor, order: tuple[int, ...]) -> str:
    """The real weights with their axes in `order`; those of a constant are moved in the file's integers."""
    if w.data is None:
        return c.node("Transpose", c.real(w), perm=order)
    moved = np.ascontiguousarray(w.constant.transpose(order))
    name = c.constant(moved, f"{c.names[w.index]}/weights")
    if not c.is_quantized(w):
        return name
    quantization = w.quantization
    assert quantization is not None, "it is quantized"
    axis = order.index(quantization.axis) if quantization.per_axis else None
    return c.dequantized_along(w, name, axis)


def _require_scales(c: Conversion, x: Tensor, w: Tensor, outputs: int) -> None:
    """InvalidModel where integers of `x` times `w`, whose axis `outputs` is that of the outputs, have no scale each."""
    if not (c.is_quantized(x) and c.is_quantized(w)):
        return
    assert x.quantization is not None and w.quantization is not None, "both are quantized"  # noqa: PT018
    if x.quantization.per_axis:
        raise InvalidModel(f"{x.label} must have one scale, because weights multiply it, not several", _AGAIN)
    if w.quantization.per_axis and w.quantization.axis != outputs:
        raise InvalidModel(
            f"the weights {w.label} must have one scale, or one for each output (axis {outputs}), not for each place "
            f"of axis {w.quantization.axis}", _AGAIN
        )


def biases(c: Conversion, bias: Tensor | None, x: Tensor, w: Tensor) -> tuple[str, ...]:
    """The real biases, nothing where there are none.

    Those of a quantized layer are integers of scale x times weights; the kernels do not read the scale that the file
    gives them.
    """
    if bias is None:
        return ()
    if not (c.is_quantized(x) and c.is_quantized(w)):
        return (c.real(bias),)
    if bias.type_name not in ("INT32", "INT64"):
        raise InvalidModel(f"the bias must be INT32 or INT64, not {bias.type_name}", _AGAIN)
    array = c.fixed(bias, "the bias").astype(np.int64)
    assert x.quantization is not None and w.quantization is not None, "both are quantized"  # noqa: PT018
    with np.errstate(over="ignore"):  # an infinite scale is refused by the rules
        scale = (x.quantization.scales * w.quantization.scales).astype(np.float32)
    if np.any(array != array.astype(np.int32)):  # of layers with 16-bit activations
        return (c.constant((array * scale.astype(np.float64)).astype(np.float32), f"{c.names[bias.index]}/real"),)
    name = c.constant(array.astype(np.int32), f"{c.names[bias.index]}/int32")
    return (c.node("DequantizeLinear", name, c.constant(scale, f"{c.names[bias.index]}/scale"),
                   axis=0 if scale.ndim else None),)


def fully_connected(c: Conversion, operator: Operator) -> None:
    """Weights are [outputs, inputs]; x is rows of inputs whatever its shape."""
    options = operator.read("FullyConnectedOptions")
    x, w, bias = c.operands(operator, 2, 3)
    assert x is not None and w is not None, "the first two are there"  # noqa: PT018
    y = c.output(operator)
    if options.whole("weights_format"):
        raise Unsupported("the weights must be in the default format, not shuffled", "export the model without it")
    c.rank(w, 2)
    inputs, rows = w.shape[1], math.prod(x.shape)
    if not inputs or rows % inputs:
        raise InvalidModel(f"the weights {list(w.shape)} must suit {list(x.shape)} of {x.label}", _AGAIN)
    _require_scales(c, x, w, 0)
    keep = options.flag("keep_num_dims") and len(x.shape) > 2
    if len(x.shape) == 2 and x.shape[1] == inputs:
        value = c.real(x)
    else:
        value = c.node("Reshape", c.real(x), c.wholes((-1 if x.is_open else rows // inputs, inputs)))
    value = c.node("Gemm", value, weights(c, w, (0, 1)), *biases(c, bias, x, w), transB=1)
    value = rounded_twice(c, value, x, w, y, axes=0)
    if keep:
        value = c.node("Reshape", value, c.wholes((*x.shape[:-1], w.shape[0])))
    c.put(y, value, activation=options.whole("activation"))


def pool(c: Conversion, operator: Operator) -> None:
    """MAX_POOL_2D, AVERAGE_POOL_2D, L2_POOL_2D; padded places count in none of them."""
    options = operator.read("Pool2DOptions")
    (x,), y = c.inputs(operator, 1), c.output(operator)
    c.rank(x, 4)
    value = c.real(x, _FIRST)
    window: dict[str, Any] = {"kernel_shape": _sizes(options, "filter_h", "filter_w"),
              "strides": _sizes(options, "stride_h", "stride_w"), "auto_pad": padding(options)}
    if operator.kind == "MAX_POOL_2D":
        value = c.node("MaxPool", value, **window)
    elif operator.kind == "AVERAGE_POOL_2D":
        value = c.node("AveragePool", value, **window)
    else:
        squares = c.node("Mul", value, value)
        value = c.node("Sqrt", c.node("AveragePool", squares, **window))
    c.put(y, value, _FIRST, options.whole("activation"))


def transpose_conv(c: Conversion, operator: Operator) -> None:
    """Inputs are the size of the output, weights [outputs, height, width, inputs], x and a bias."""
    options = operator.read("TransposeConvOptions")
    size, w, x, bias = c.operands(operator, 3, 4)
    assert size is not None and w is not None and x is not None, "the first three are there"  # noqa: PT018
    y = c.output(operator)
    c.rank(x, 4), c.rank(w, 4)
    _require_scales(c, x, w, 0)
    shape = c.fixed_wholes(size, "the size of the output")
    strides = _sizes(options, "stride_h", "stride_w")
    if len(shape) != 4 or w.shape[3] != x.shape[3]:
        raise InvalidModel(f"the weights {list(w.shape)} must suit {list(x.shape)} of {x.label}", _AGAIN)
    pads, extra = _pads_of_transposed(shape, x, w, strides, padding(options))
    value = c.node(
        "ConvTranspose", c.real(x, _FIRST), weights(c, w, (3, 0, 1, 2)), *biases(c, bias, x, w),
        kernel_shape=w.shape[1:3], strides=strides, pads=pads, output_padding=extra if any(extra) else None,
    )  # fmt: skip
    value = rounded_twice(c, value, x, w, y, axes=2)
    c.put(y, value, _FIRST, options.whole("activation"))


def _pads_of_transposed(shape: list[int], x: Tensor, w: Tensor, strides: tuple[int, ...],
                        kind: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is cut at the begins and the ends, and what is added at the ends: as the convolution back would pad."""
    before, after, added = [], [], []
    for k in range(2):
        wide, kernel, stride, size = x.shape[1 + k], w.shape[1 + k], strides[k], shape[1 + k]
        small = -(-size // stride) if kind == "SAME_UPPER" else -(-(size - kernel + 1) // stride)
        if small != wide:
            raise InvalidModel(
                f"an output of the size {size} must come from {small} places of {x.label}, not {wide}", _AGAIN
            )
        total = max((wide - 1) * stride + kernel - size, 0) if kind == "SAME_UPPER" else 0
        first = total // 2
        rest = (wide - 1) * stride + kernel - first - size
        before.append(first)
        after.append(max(rest, 0))
        added.append(max(-rest, 0))
    return (*before, *after), tuple(added)


def batch_matmul(c: Conversion, operator: Operator) -> None:
    """Products of matrices, the operands turned where the options say so."""
    options = operator.read("BatchMatMulOptions")
    (x, w), y = c.inputs(operator, 2), c.output(operator)
    values = []
    for tensor, turned in ((x, options.flag("adjoint_x")), (w, options.flag("adjoint_y"))):
        rank = c.rank(tensor, 2, 3, 4, 5)
        value = c.real(tensor)
        order = (*range(rank - 2), rank - 1, rank - 2)
        values.append(c.node("Transpose", value, perm=order) if turned else value)
    c.put(y, c.node("MatMul", *values))

