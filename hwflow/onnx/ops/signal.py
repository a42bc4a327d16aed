"""Signals: window functions, Fourier transforms, and the matrix of the mel scale.

Complex numbers are pairs (real, imaginary) in a last axis of 2; a last axis of 1 means real numbers.
"""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.dtypes import element_type
from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Kernel, Known, Operator, ShapeRule, Table, axis_in
from hwflow.onnx.ops.element_types import widened, working_type
from hwflow.onnx.ops.shapes import one_integer


def _made_type(call: Call) -> DType:
    return element_type(call.integer("output_datatype"), f"the output of {call.node.label}").dtype


def _window(*factors: float) -> tuple[Kernel, ShapeRule]:
    """A window that is a sum of factor times cosine of 0, 1, 2... turns over its length."""

    def kernel(call: Call, size: Arr) -> Arr:
        count, dtype = _count(call, size, "the size of the window", 1), _made_type(call)
        call.check_size((count,), np.dtype(np.float64))
        turn = 2 * np.pi / max(1, count if call.integer("periodic") else count - 1)
        angles = np.arange(count) * turn
        return np.asarray(sum(f * np.cos(k * angles) for k, f in enumerate(factors))).astype(dtype)

    def shapes(call: Call, size: Known) -> Known:
        return Known(_made_type(call), (_count(call, size.value, "the size of the window", 1),))

    return kernel, shapes


def _count(call: Call, array: Arr | None, what: str, low: int = 0) -> int:
    assert array is not None  # `constant` of the operator
    count = one_integer(call, array, what)
    if count < low:
        raise call.error(f"{what} must be {low} or more, not {count}", "export the model again")
    return count


def _dft_17(call: Call, x: Arr, length: Arr | None = None) -> Arr:
    return _dft(call, x, length, call.integer("axis"))


def _dft_20(call: Call, x: Arr, length: Arr | None = None, axis: Arr | None = None) -> Arr:
    return _dft(call, x, length, -2 if axis is None else one_integer(call, axis, "the axis"))


def _dft(call: Call, x: Arr, length: Arr | None, axis: int) -> Arr:
    at, count, shape = _dft_sizes(call, x, length, axis)
    call.check_size(shape, np.dtype(np.complex128))
    call.work(10 * math.prod(shape) * max(1, count).bit_length())
    signal = _complex(x)
    if call.integer("inverse"):
        if call.integer("onesided"):
            return np.fft.irfft(signal, count, axis=at)[..., None].astype(x.dtype, copy=False)
        return _pairs(np.fft.ifft(signal, count, axis=at), x.dtype)
    transform = np.fft.rfft if call.integer("onesided") else np.fft.fft
    return _pairs(transform(signal, count, axis=at), x.dtype)


def _complex(x: Arr) -> Arr:
    """Pairs as complex numbers, the last axis taken away; real numbers stay real."""
    wide = widened(x)
    if x.shape[-1] == 1:
        return wide[..., 0]
    return np.asarray(wide[..., 0] + 1j * wide[..., 1])


def _pairs(x: Arr, dtype: DType) -> Arr:
    return np.stack((x.real, x.imag), axis=-1).astype(dtype, copy=False)


def _dft_sizes(call: Call, x: Arr | Known, length: Arr | None, axis: int) -> tuple[int, int, tuple[int, ...]]:
    """The axis from the front, the length of the transform, and the shape of the output."""
    if x.ndim < 2 or x.shape[-1] not in (1, 2):
        raise call.error(f"the last axis of the input must be 1 (real) or 2 (complex), not of {list(x.shape)}")
    at = axis_in(call, axis, x.ndim)
    if at == x.ndim - 1:
        raise call.error(
            f"the axis must not be the last, that of complex numbers, not {axis}", "export the model again"
        )
    onesided, inverse = bool(call.integer("onesided")), bool(call.integer("inverse"))
    if onesided and x.shape[-1] != (2 if inverse else 1):
        kind = "complex for the inverse" if inverse else "real"
        raise call.error(f"the input of a one-sided transform must be {kind}, not have the shape {list(x.shape)}")
    if length is not None:
        count = _count(call, length, "the length of the transform", 1)
    else:
        count = 2 * (x.shape[at] - 1) if onesided and inverse else x.shape[at]
    if count < 1:
        raise call.error(f"the length of the transform must be 1 or more, not {count}")
    half = onesided and not inverse
    shape = (*x.shape[:at], count // 2 + 1 if half else count, *x.shape[at + 1 : -1], 1 if onesided and inverse else 2)
    return at, count, shape


def _dft_shapes_17(call: Call, x: Known, length: Known | None = None) -> Known:
    length_value = None if length is None else length.value
    return Known(x.dtype, _dft_sizes(call, x, length_value, call.integer("axis"))[2])


def _dft_shapes_20(call: Call, x: Known, length: Known | None = None, axis: Known | None = None) -> Known:
    length_value = None if length is None else length.value
    at = -2 if axis is None or axis.value is None else one_integer(call, axis.value, "the axis")
    return Known(x.dtype, _dft_sizes(call, x, length_value, at)[2])


def _stft(call: Call, x: Arr, step: Arr, window: Arr | None = None, length: Arr | None = None) -> Arr:
    """Transforms of frames of the signal [batch, length, 1 or 2], each times the window."""
    hop, count, shape = _stft_sizes(call, x, step, window, length)
    call.check_size((*shape[:2], count, 2), np.dtype(np.float64))
    call.work(10 * math.prod(shape[:2]) * count * count.bit_length())
    signal = _complex(x)
    frames = np.lib.stride_tricks.sliding_window_view(signal, count, axis=1)[:, ::hop]
    if window is not None:
        frames = frames * window.astype(working_type(x.dtype), copy=False)
    return _pairs((np.fft.rfft if call.integer("onesided") else np.fft.fft)(frames), x.dtype)


def _stft_sizes(
    call: Call, x: Arr | Known, step: Arr | None, window: Arr | Known | None, length: Arr | None
) -> tuple[int, int, tuple[int, ...]]:
    """The step between frames, their length, and the shape of the output."""
    if x.ndim != 3 or x.shape[2] not in (1, 2):
        raise call.error(f"the signal must have the shape [batch, length, 1 or 2], not {list(x.shape)}")
    onesided = bool(call.integer("onesided"))
    if onesided and x.shape[2] == 2:
        raise call.error("'onesided' must be 0 for a complex signal, not 1", "export the model again")
    if window is not None and window.ndim != 1:
        raise call.error(f"the window must have one axis, not the shape {list(window.shape)}")
    hop = _count(call, step, "the step of frames", 1)
    count = window.shape[0] if window is not None else x.shape[1]
    if length is not None:
        count = _count(call, length, "the length of frames", 1)
        if window is not None and window.shape != (count,):
            raise call.error(f"the window must have the length of frames, {count}, not {window.shape[0]}")
    if not 1 <= count <= x.shape[1]:
        raise call.error(f"the length of frames must be 1 to the signal's {x.shape[1]}, not {count}")
    frames = (x.shape[1] - count) // hop + 1
    return hop, count, (x.shape[0], frames, count // 2 + 1 if onesided else count, 2)


def _stft_shapes(
    call: Call, x: Known, step: Known, window: Known | None = None, length: Known | None = None
) -> Known:
    return Known(x.dtype, _stft_sizes(call, x, step.value, window, None if length is None else length.value)[2])


def _mel_shape(call: Call, bins: Arr | None, length: Arr | None) -> tuple[int, int]:
    return (
        _count(call, length, "the length of the transform", 1) // 2 + 1,
        _count(call, bins, "the number of mel bins"),
    )


def _mel_weights(call: Call, bins: Arr, length: Arr, rate: Arr, low: Arr, high: Arr) -> Arr:
    """Triangles [frequency, mel bin] whose corners are evenly spaced on the scale 2595 log10(1 + f / 700)."""
    shape = _mel_shape(call, bins, length)
    call.check_size(shape, np.dtype(np.float64))
    sampling = one_integer(call, rate, "the sample rate")
    if sampling < 1 or low.size != 1 or high.size != 1:
        raise call.error(f"the sample rate must be 1 or more and the edges one number each, not {sampling}")
    bottom, top = (2595 * np.log10(1 + float(edge.reshape(())) / 700) for edge in (low, high))
    # The definition divides by the number of corners, not by that of the intervals between them.
    corners = bottom + np.arange(shape[1] + 2) * ((top - bottom) / (shape[1] + 2))
    hertz = 700 * (10 ** (corners / 2595) - 1)
    at = np.floor((one_integer(call, length, "the length of the transform") + 1) * hertz / sampling)
    left, centre, right = at[:-2], at[1:-1], at[2:]
    row = np.arange(shape[0])[:, None]
    rising = np.where((row >= left) & (row <= centre), (row - left) / np.maximum(1, centre - left), 0)
    rising = np.where((left == centre) & (row == centre), 1, rising)
    falling = (row >= centre) & (row < right)
    return np.where(falling, (right - row) / np.maximum(1, right - centre), rising).astype(_made_type(call))


def _mel_shapes(call: Call, bins: Known, length: Known, *others: Known) -> Known:
    return Known(_made_type(call), _mel_shape(call, bins.value, length.value))


OPERATORS: Table = {
    ("", "HannWindow"): (Operator(17, *_window(0.5, -0.5), constant=(0,)),),
    ("", "HammingWindow"): (Operator(17, *_window(25 / 46, -21 / 46), constant=(0,)),),
    ("", "BlackmanWindow"): (Operator(17, *_window(0.42, -0.5, 0.08), constant=(0,)),),
    ("", "DFT"): (
        Operator(17, _dft_17, _dft_shapes_17, constant=(1,)),
        Operator(20, _dft_20, _dft_shapes_20, constant=(1, 2)),
    ),
    ("", "STFT"): (Operator(17, _stft, _stft_shapes, constant=(1, 3)),),
    ("", "MelWeightMatrix"): (Operator(17, _mel_weights, _mel_shapes, constant=(0, 1)),),
}
