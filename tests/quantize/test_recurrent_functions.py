"""The functions of RNN, GRU and LSTM at every place: computed as ONNX has them, or refused by name."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array, Model, Node
from hwflow.quantize import quantize
from hwflow.quantize.calibrate.recurrent import functions_of
from tests.quantize.recurrent_models import sequence
from tests.quantize.test_recurrent import CLEAN, loops, noise, rows_of

#: With an alpha and a beta that are not the default.
FUNCTIONS: dict[str, tuple[float, ...]] = {
    "Sigmoid": (), "Tanh": (), "HardSigmoid": (0.05, 0.3), "Softsign": (), "Relu": (), "LeakyRelu": (-0.3,),
    "Elu": (1.7,), "Softplus": (), "ThresholdedRelu": (0.4,),
}  # fmt: skip
GATES = ("Sigmoid", "HardSigmoid")
CASES = [("RNN", (name,)) for name in FUNCTIONS]
CASES += [("GRU", (gate, name)) for name in FUNCTIONS for gate in GATES]
CASES += [("LSTM", names) for name in FUNCTIONS for names in (
    ("Sigmoid", name, "Tanh"), ("Sigmoid", "Tanh", name), ("HardSigmoid", name, name))]  # fmt: skip
#: One of each form of range: a candidate, a cell's function and both without an end, and ends far out.
QUICK = [("RNN", ("Relu",)), ("GRU", ("HardSigmoid", "Elu")), ("LSTM", ("Sigmoid", "LeakyRelu", "Tanh")),
         ("LSTM", ("Sigmoid", "Tanh", "Softplus")), ("LSTM", ("HardSigmoid", "Relu", "Relu")),
         ("GRU", ("Sigmoid", "Softsign"))]  # fmt: skip
#: What jumps turns the smallest rounding into a large one, which goes on from step to step.
JUMPS = 10.0


def attributes(names: tuple[str, ...]) -> dict[str, object]:
    drawn = [FUNCTIONS[name] for name in names]
    given: dict[str, object] = {"activations": list(names)}
    if alphas := [values[0] for values in drawn if values]:
        given["activation_alpha"] = alphas
    if betas := [values[1] for values in drawn if len(values) > 1]:
        given["activation_beta"] = betas
    return given


@pytest.mark.parametrize(
    ("op", "names"), [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_every_function_at_every_place(op: str, names: tuple[str, ...]) -> None:
    model = sequence(op, "all", **attributes(names))
    rows = rows_of(model, 40)
    rows["x"] *= np.linspace(0.02, 1.5, 40, dtype=np.float32).reshape(-1, 1, 1, 1)
    assert noise(quantize(model, rows), model, rows) > (JUMPS if "ThresholdedRelu" in names else CLEAN)


@pytest.mark.parametrize("op", ["GRU", "LSTM"])
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - set(GATES)))
def test_gates_that_leave_0_to_1_are_refused(op: str, name: str) -> None:
    model = sequence(op, "all", **attributes((name, "Tanh", "Tanh")[: 2 if op == "GRU" else 3]))
    message = (f"'cell' ({op}): the function of its gates must stay inside of 0 to 1, which {name} does not\n"
               "    take Sigmoid or HardSigmoid")  # fmt: skip
    with pytest.raises(HwflowError, match=re.escape(message)) as raised:
        quantize(model, rows_of(model, 3))
    assert raised.value.exit_code == 2


def scaled(model: Model, factor: float) -> Model:
    """With such larger weights of the input, whose products the functions read."""
    model.graph.initializers["W"][...] *= factor  # type: ignore[index]
    return model


def test_sums_beyond_every_table_are_refused() -> None:
    model = scaled(sequence("RNN", "all", activations=["Relu"]), 1800)
    with pytest.raises(HwflowError, match="what its function Relu reads must stay below 8192, and here it reaches"):
        quantize(model, rows_of(model, 5))


def test_states_beyond_every_format_are_refused() -> None:
    model = scaled(sequence("LSTM", "all", activations=["Sigmoid", "Relu", "Tanh"]), 3e6)
    with pytest.raises(HwflowError, match="its cell states must stay below 8388608, and here they need room up to"):
        quantize(model, rows_of(model, 5))


def test_a_parameter_that_is_no_number_is_refused() -> None:
    model = sequence("RNN", "all", activations=["HardSigmoid"], activation_alpha=[float("inf")])
    message = "'cell' (RNN): the alpha of its function 'hardsigmoid' must be finite, not inf"
    with pytest.raises(HwflowError, match=re.escape(message)):
        quantize(model)


def test_a_start_beyond_what_the_function_gives() -> None:
    """The hidden state has steps for its start; the table of the cell's function has the same."""
    model = sequence("LSTM", "initial")
    (start,) = [array for name, array in model.graph.initializers.items() if name == "h0"]
    start[...] = np.linspace(-5, 5, start.size).reshape(start.shape)
    rows = rows_of(model, 40)
    quantized = quantize(model, rows)
    assert loops(quantized)[0].hidden_fraction == 12
    assert noise(quantized, model, rows) > CLEAN


def test_gates_keep_fine_steps_beside_large_sums() -> None:
    """A table has more entries where its function has no end and sums are large."""
    model = scaled(sequence("GRU", "all", activations=["Sigmoid", "Relu"]), 40)
    rows: dict[str, Array] = rows_of(model, 40)
    (loop,) = loops(quantize(model, rows))
    assert len(loop.candidate_table) == len(loop.gate_table) > 2048
    assert loop.table_fraction >= 4


def test_parameters_go_to_the_functions_that_have_them() -> None:
    """In order over both directions, as in the standard."""
    node = Node("LSTM", ("x",), ("y",), {
        "direction": "bidirectional", "activation_alpha": (0.1, 2.0, 0.3), "activation_beta": (0.6,),
        "activations": ("HardSigmoid", "Tanh", "Elu", "Sigmoid", "LeakyRelu", "Elu")}, "cell")  # fmt: skip
    found = [dict(function.node.attributes) for d in (0, 1) for function in functions_of(node, d)]
    assert found == [{"alpha": 0.1, "beta": 0.6}, {}, {"alpha": 2.0}, {}, {"alpha": 0.3}, {}]
