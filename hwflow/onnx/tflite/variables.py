"""Variables: what a model keeps from one run to the next becomes an input and an output that are a state pair.

A variable that is read before it is assigned starts a run with what the run before left; one that is read afterwards
has what was assigned.  A quantized variable is a pair of real numbers between a QuantizeLinear and a DequantizeLinear
of the same scale, which changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hwflow.onnx.errors import InvalidModel
from hwflow.onnx.model import Array, TensorType, Value
from hwflow.onnx.run.sequences import INITIAL_KEY, KEY
from hwflow.onnx.tflite.conversion import Conversion
from hwflow.onnx.tflite.file import Operator, Tensor

_AGAIN = "the file is damaged: copy or export it again"


@dataclass
class Variable:
    """One variable of a run."""

    name: str
    #: The tensor that was read first, before any assignment.
    read: Tensor | None = None
    #: The tensor that was assigned last.
    assigned: Tensor | None = None
    #: The integers or numbers that it has before the first run, as the file stores them; None for zeros.
    initial: Array | None = None
    #: The quantization of `initial`.
    initial_tensor: Tensor | None = None


class Variables:
    """The variables of a model, and the tensors that stand for them in the subgraph that is converted."""

    def __init__(self) -> None:
        self._known: dict[str, Variable] = {}
        self._handles: dict[int, Variable] = {}

    def handle(self, c: Conversion, operator: Operator) -> None:
        """VAR_HANDLE: its output stands for the variable that its options name."""
        options = operator.read("VarHandleOptions")
        name = "/".join(filter(None, (options.text("container"), options.text("shared_name"))))
        self._handles[c.output(operator).index] = self.named(name)

    def named(self, name: str) -> Variable:
        return self._known.setdefault(name, Variable(name or "variable"))

    def _of(self, c: Conversion, operator: Operator, count: int) -> tuple[Variable, tuple[Tensor, ...]]:
        handle, *others = c.inputs(operator, count)
        if handle.index not in self._handles:
            raise InvalidModel(f"{handle.label} must come from a VAR_HANDLE before", _AGAIN)
        return self._handles[handle.index], tuple(others)

    def read(self, c: Conversion, operator: Operator) -> None:
        """READ_VARIABLE: what was assigned in this run, else what the run before left."""
        variable, _ = self._of(c, operator, 1)
        y = c.output(operator)
        source = variable.assigned or variable.read
        if source is not None:
            _require_equal(source, y, variable)
            c.put_raw(y, c.raw(source))
            return
        variable.read = y
        c.put_raw(y, c.state_input(y, variable.name))

    def assign(self, c: Conversion, operator: Operator) -> None:
        """ASSIGN_VARIABLE."""
        variable, (x,) = self._of(c, operator, 2)
        variable.assigned = x
        for before in filter(None, (variable.read, variable.initial_tensor)):
            _require_equal(before, x, variable)

    def own(self, c: Conversion, tensor: Tensor) -> Variable:
        """The variable that a tensor with `is_variable` is."""
        variable = self.named(tensor.name or f"tensor_{tensor.index}")
        if variable.read is None:
            variable.read = tensor
            c.put_raw(tensor, c.state_input(tensor, variable.name))
        return variable

    def assigned(self) -> Iterator[Variable]:
        """Those that the subgraph assigns."""
        return (variable for variable in self._known.values() if variable.assigned is not None)

    def start(self, variable: str, tensor: Tensor, value: Array) -> None:
        """Before the first run the variable has `value`, stored as `tensor` says."""
        known = self.named(variable)
        known.initial, known.initial_tensor = value, tensor

    def kept(self) -> Iterator[Variable]:
        """Those that hand something from a run to the next."""
        return (variable for variable in self._known.values() if variable.read is not None)


def _require_equal(one: Tensor, other: Tensor, variable: Variable) -> None:
    """InvalidModel unless two tensors of a variable store it in the same way."""
    same = (one.type_name, one.shape, one.quantization) == (other.type_name, other.shape, other.quantization)
    if not same:
        raise InvalidModel(
            f"variable '{variable.name}' must have one type, shape and scale, not those of {one.label} "
            f"({described(one)}) and of {other.label} ({described(other)})", "export the model again"
        )


def described(tensor: Tensor) -> str:
    """Type, shape and scale of a tensor in a message."""
    scale = f", scale {tensor.quantization.scale[0]:g}" if tensor.quantization else ""
    return f"{tensor.type_name} {list(tensor.shape)}{scale}"


def real_start(variable: Variable) -> Array:
    """The real numbers that a variable has before the first run."""
    tensor = variable.read
    assert tensor is not None, "only of variables that are read"
    dtype = np.dtype(np.float32) if tensor.quantization else tensor.dtype
    if variable.initial is None:
        return np.zeros(tensor.shape, dtype)
    stored = variable.initial_tensor
    assert stored is not None, "it comes with the value"
    _require_equal(stored, tensor, variable)
    if tensor.quantization is None:
        return variable.initial
    integers = variable.initial.astype(np.int64) - np.array(tensor.quantization.zero_point, np.int64)
    return (integers * np.float32(tensor.quantization.scale[0])).astype(np.float32)


def states_of(c: Conversion, variables: Variables) -> tuple[list[Value], list[Value], dict[str, str]]:
    """Inputs and outputs of the states after all operators, and what the model's metadata says of them."""
    inputs, outputs, pairs, starts = [], [], dict[str, str](), dict[str, object]()
    for variable in variables.kept():
        tensor = variable.read
        assert tensor is not None, "it is kept"
        start = real_start(variable)
        kind = TensorType(start.dtype, tensor.shape)
        source = c.states[tensor.index]
        if np.any(start):
            numbers = start.ravel().tolist()
            starts[source] = numbers[0] if len(set(numbers)) == 1 else numbers
        inputs.append(Value(source, kind))
        target = c.node("Identity", c.real(variable.assigned or tensor))
        c.final_names[target] = c.name(f"{source}_next")
        outputs.append(Value(target, kind))
        pairs[source] = c.final_names[target]
    for state in c.own_states.values():
        kind = TensorType(np.dtype(np.float32), state.shape)
        inputs.append(Value(state.source, kind))
        target = c.node("Identity", state.target)
        c.final_names[target] = c.name(f"{state.source}_next")
        outputs.append(Value(target, kind))
        pairs[state.source] = c.final_names[target]
    said = {KEY: pairs, INITIAL_KEY: starts}
    return inputs, outputs, {key: json.dumps(value) for key, value in said.items() if value}
