"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM: layers whose state is a variable of their own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hwflow.onnx.errors import InvalidModel, Unsupported
from hwflow.onnx.model import Array
from hwflow.onnx.tflite.conversion import Conversion
from hwflow.onnx.tflite.file import Operator, Tensor
from hwflow.onnx.tflite.windows import biases, weights

_AGAIN = "the file is damaged: copy or export it again"


def svdf(c: Conversion, operator: Operator) -> None:
    """A product with x, remembered for some runs, and a filter over what is remembered.

    The memory is [1, filters, 1, runs] here: its filter is a convolution with a group for each unit.
    """
    options = operator.read("SVDFOptions")
    x, features, time, bias, state = c.operands(operator, 3, 5)
    if x is None or features is None or time is None or state is None:
        raise InvalidModel("must have an input, two weights and a state", _AGAIN)
    c.rank(x, 2), c.rank(features, 2), c.rank(time, 2)
    filters, length = time.shape
    rank = options.whole("rank")
    if x.shape[0] != 1:
        raise Unsupported(f"the batch must be 1, not {x.shape[0]}", "export the model with a batch of 1")
    suits = rank >= 1 and filters and length and filters % rank == 0 and features.shape == (filters, x.shape[1])
    if not suits or np.prod(state.shape) != filters * length:
        raise InvalidModel(
            f"weights {list(features.shape)} and {list(time.shape)} and a state {list(state.shape)} must suit rank "
            f"{rank} and {list(x.shape)} of {x.label}", _AGAIN,
        )
    before = c.kept(state, (1, filters, 1, length))
    new = c.requantized(state, c.node("Gemm", c.real(x), weights(c, features, (0, 1)), transB=1))
    new = c.node("Reshape", new, c.wholes([1, filters, 1, 1]))
    if length > 1:
        later = c.node("Slice", before, c.wholes([1]), c.wholes([length]), c.wholes([3]))
        new = c.node("Concat", later, new, axis=3)
    after = c.keep(state, new)
    w = _time_weights(c, time, (filters // rank, rank, 1, length))
    value = c.node("Conv", after, w, *biases(c, bias, state, time), kernel_shape=(1, length), group=filters // rank)
    value = c.node("Reshape", value, c.wholes([1, filters // rank]))
    y = c.output(operator)
    # The kernel of integers wants a RELU and does not compute it: with the least integer as zero point it saturates so.
    c.put(y, value, activation=0 if c.is_quantized(y) else options.whole("activation"))


def _time_weights(c: Conversion, time: Tensor, shape: tuple[int, ...]) -> str:
    """Weights [filters, runs] as those of a convolution."""
    value = c.constant(c.fixed(time, "the weights").reshape(shape), f"{c.names[time.index]}/weights")
    return c.dequantized(time, value) if c.is_quantized(time) else value


#: Places of the inputs of UNIDIRECTIONAL_SEQUENCE_LSTM, for the gates input, output, forget, cell as ONNX has them.
_INPUT, _RECURRENT, _BIAS = (1, 4, 2, 3), (5, 8, 6, 7), (12, 15, 13, 14)
_PEEPHOLE = (9, 11, 10)  # input, output, forget
_PROJECTION, _NORMS = (16, 17), (20, 21, 22, 23)
_HIDDEN, _CELL = 18, 19

#: From here on tanh is 1 in float32, so that the output does not tell whether the cell was clipped.
_LEAST_CLIP = 9.1


def lstm(c: Conversion, operator: Operator) -> None:
    """An LSTM whose hidden and cell state are variables."""
    options = operator.read("UnidirectionalSequenceLSTMOptions")
    if len(operator.inputs) not in (20, 24):
        raise InvalidModel(f"must have 20 or 24 inputs, not {len(operator.inputs)}", _AGAIN)
    found = [None if k < 0 else c.graph.tensors[k] for k in operator.inputs]
    found += [None] * (24 - len(found))
    _require_plain(found, options.whole("activation"), options.flag("diagonal"))
    x, hidden, cell = found[0], found[_HIDDEN], found[_CELL]
    if x is None or hidden is None or cell is None:
        raise InvalidModel("must have an input, a hidden state and a cell state", _AGAIN)
    c.rank(x, 3)
    major = options.flag("time_major")
    steps, batch = x.shape[:2] if major else (x.shape[1], x.shape[0])
    units = _units(found, x)
    w, r = (_stacked(c, [found[k] for k in places], units) for places in (_INPUT, _RECURRENT))
    bias = _biases(c, [found[k] for k in _BIAS], units)
    peepholes = _peepholes(c, [found[k] for k in _PEEPHOLE], units)
    h, cells = (c.kept(state, (1, batch, units)) for state in (hidden, cell))
    value = c.real(x) if major else c.node("Transpose", c.real(x), perm=[1, 0, 2])
    y, last_h, last_c = c.node_of("LSTM", (value, w, r, bias, "", h, cells, *peepholes), 3, hidden_size=units)
    clip = options.real("cell_clip")
    if clip > 0:
        _require_clip(c, clip, steps)
        last_c = c.clipped(last_c, -clip, clip)
    c.keep(hidden, last_h)
    c.keep(cell, last_c)
    y = c.node("Squeeze", y, c.wholes([1]))
    c.put(c.output(operator), y if major else c.node("Transpose", y, perm=[1, 0, 2]))


def _require_plain(found: list[Tensor | None], activation: int, diagonal: bool) -> None:
    for places, what in ((_PROJECTION, "a projection"), (_NORMS, "layer normalization")):
        if any(found[k] is not None for k in places):
            raise Unsupported(f"the LSTM must be without {what}", "train the model without it")
    if activation != 4 or diagonal:
        raise Unsupported("the LSTM must have the activation TANH and full recurrent weights")


def _require_clip(c: Conversion, clip: float, steps: int) -> None:
    if clip < _LEAST_CLIP:
        raise Unsupported(f"cell_clip must be 0 or at least {_LEAST_CLIP}, not {clip:g}", "train the model without it")
    if steps > clip:
        c.notes.append(
            f"{c.current}: the cell state is clipped at {clip:g} after the {steps} steps of a run, not after each one"
        )


def _units(found: list[Tensor | None], x: Tensor) -> int:
    """How many units there are; the shapes of all weights say the same."""
    forget = found[_RECURRENT[2]]
    if forget is None or len(forget.shape) != 2:
        raise InvalidModel("must have recurrent weights of two axes for the forget gate", _AGAIN)
    units = forget.shape[0]
    for places, shape in ((_INPUT, (units, x.shape[2])), (_RECURRENT, (units, units)), (_BIAS, (units,)),
                          (_PEEPHOLE, (units,))):
        for k in places:
            tensor = found[k]
            if tensor is not None and tensor.shape != shape:
                raise InvalidModel(
                    f"{tensor.label} must have the shape {list(shape)}, not {list(tensor.shape)}", _AGAIN
                )
    return units


def _gate(tensor: Tensor | None, what: str) -> Tensor:
    if tensor is None:
        raise InvalidModel(f"must have {what} for each gate but the input gate", _AGAIN)
    return tensor


def _stacked(c: Conversion, gates: list[Tensor | None], units: int) -> str:
    """Weights of the gates [1, 4 * units, inputs]; without an input gate it is one minus the forget gate."""
    tensors = [gates[0] or gates[2], *gates[1:]]
    arrays, scales = [], []
    for k, tensor in enumerate(tensors):
        gate = _gate(tensor, "weights")
        array = np.asarray(c.fixed(gate, "the weights"))
        coupled = k == 0 and gates[0] is None
        if c.is_quantized(gate):
            quantization = gate.quantization
            assert quantization is not None, "it is quantized"
            if any(quantization.zero_point):
                raise Unsupported(f"the weights {gate.label} must have the zero point 0")
            scales.append(np.broadcast_to(quantization.scales, [units]))
        arrays.append(_negative(array) if coupled else array)
    name = c.constant(np.concatenate(arrays)[None], f"{c.names[operator_index(tensors)]}/gates")
    if not scales:
        return name
    if len(scales) < 4:
        raise InvalidModel("all gates must be quantized, or none of them", _AGAIN)
    scale = c.constant(np.concatenate(scales).astype(np.float32), f"{name}/scale")
    zero = c.constant(np.zeros(4 * units, np.int8), f"{name}/zero_point")
    return c.node("DequantizeLinear", name, scale, zero, axis=1)


def _negative(array: Array) -> Array:
    """Of int8 without -128, of which there is no negative one."""
    return np.asarray(np.multiply(np.maximum(array, np.asarray(-127, array.dtype)) if array.dtype == np.int8 else array,
                                  np.asarray(-1, array.dtype)))


def operator_index(tensors: list[Tensor | None]) -> int:
    """The number of the first tensor that is there."""
    return next(tensor.index for tensor in tensors if tensor is not None)


def _biases(c: Conversion, gates: list[Tensor | None], units: int) -> str:
    """Biases [1, 8 * units]: those of the weights, then zeros for the recurrent weights."""
    arrays = [_real(c, _gate(gates[0] or gates[2], "a bias"))]
    arrays[0] = arrays[0] if gates[0] is not None else -arrays[0]
    arrays += [_real(c, _gate(gate, "a bias")) for gate in gates[1:]]
    whole = np.concatenate([*arrays, np.zeros(4 * units, np.float32)])[None]
    return c.constant(whole.astype(np.float32), "biases")


def _real(c: Conversion, tensor: Tensor) -> npt.NDArray[np.float32]:
    """The real numbers of a constant whose own scale counts."""
    array = c.fixed(tensor, "the bias")
    if tensor.quantization is None:
        return array.astype(np.float32)
    centred = array.astype(np.int64) - np.array(tensor.quantization.zero_point, np.int64)
    return np.asarray(centred * tensor.quantization.scales.astype(np.float64), np.float32)


def _peepholes(c: Conversion, gates: list[Tensor | None], units: int) -> tuple[str, ...]:
    if all(gate is None for gate in gates):
        return ()
    arrays = [_real(c, gates[k]) if gates[k] is not None else None for k in range(3)]  # type: ignore[arg-type]
    if arrays[2] is None or arrays[1] is None:
        raise InvalidModel("must have peephole weights for all gates, or for none", _AGAIN)
    first = arrays[0] if arrays[0] is not None else -arrays[2]
    return (c.constant(np.concatenate([first, arrays[1], arrays[2]])[None].astype(np.float32), "peepholes"),)
