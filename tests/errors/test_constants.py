"""--constant: inputs that never change, what may be given for them, and the messages that name the option."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow
from hwflow.onnx import dumps, evaluate
from hwflow.onnx.build import Builder, make_graph, make_node, tensor_type
from hwflow.onnx.model import Model, Value
from tests.e2e.command import Cli

WEIGHTS = np.random.default_rng(5).standard_normal((2, 4, 3)).astype(np.float32)


def rates() -> Model:
    """A network for each of two sample rates, with a gain for each channel and a flag."""
    b = Builder()
    x = b.input("x", np.float32, ("batch", 4))
    rate, flag = b.input("sr", np.int64, ()), b.input("loud", np.bool_, (1,))
    gains = b.input("gains", np.float32, ("k",))
    branches = {}
    for name, weights in zip(("then_branch", "else_branch"), WEIGHTS, strict=True):
        w = b.constant(f"{name}.w", weights)
        branches[name] = make_graph([make_node("MatMul", [x, w], [f"{name}.y"])], [],
                                    [Value(f"{name}.y", tensor_type(np.float32))], name=name)
    is_16k = b.node("Equal", rate, b.constant("k16", np.array(16000)), name="is_16k")
    y = b.node("If", is_16k, name="choose", **branches)
    y = b.node("Mul", y, gains, name="gain")
    b.output(b.node("Where", flag, y, b.node("Relu", y), name="select", output="y"), np.float32, ("batch", 3))
    return b.model()


@pytest.fixture
def model() -> str:
    Path("m.onnx").write_bytes(dumps(rates()))
    return "m.onnx"


GIVEN = ("--constant", "gains=0.5,1,2", "--constant", "loud=true")


@pytest.mark.parametrize("rate", [16000, 8000])
def test_constants_choose_the_network(cli: Cli, model: str, rate: int) -> None:
    done = cli("check", model, "--hardware", *GIVEN, "--constant", f"sr={rate}")
    assert done.code == 0
    assert f"hwflow sim m.onnx --constant gains=0.5,1.0,2.0 --constant loud=true --constant sr={rate}" in done.err
    loaded = hwflow.load(model, constants={"sr": rate, "loud": True, "gains": [0.5, 1, 2]})
    x = np.float32([[1, -2, 0.5, 3]])
    expected = x @ WEIGHTS[int(rate != 16000)] * np.float32([0.5, 1, 2])
    np.testing.assert_allclose(evaluate(loaded, {"x": x})["y"], expected, rtol=1e-6)


def test_a_folder_may_say_the_constants(cli: Cli, model: str) -> None:
    Path("hwflow.toml").write_text('[model]\npath = "m.onnx"\nconstant = ["sr=8000", "gains=1", "loud=false"]\n')
    assert cli("check", "--hardware").code == 0


@pytest.mark.parametrize("given, message", {
    "rs=1": "m.onnx: --constant rs=... must name an input of the model ('x', 'sr', 'loud', 'gains'), not 'rs'",
    "sr=true": "m.onnx: --constant sr=true must be numbers, because the input is int64[]",
    "sr=0.5": "m.onnx: --constant sr=0.5 must be whole numbers from -9223372036854775808 to 9223372036854775807, "
              "because the input is int64[]",
    "sr=1e3": "m.onnx: --constant sr=1000.0 must be whole numbers from -9223372036854775808 to 9223372036854775807, "
              "because the input is int64[]; write --constant sr=1000",
    "sr=inf": "m.onnx: --constant sr=inf must be whole numbers from -9223372036854775808 to 9223372036854775807, "
              "because the input is int64[]",
    "sr=1,2": "m.onnx: --constant sr=1,2 must fit the input, which is int64[], not have 2 elements; give one for all "
              "of it, or each of them",
    "loud=1": "m.onnx: --constant loud=1 must be true or false, because the input is bool[1]",
    "gains=1e50": "m.onnx: --constant gains=1e+50 must be finite numbers, because the input is float32[k]",
    "gains=nan": "m.onnx: --constant gains=nan must be finite numbers, because the input is float32[k]",
}.items())
def test_what_does_not_fit(cli: Cli, model: str, given: str, message: str) -> None:
    assert cli.refuses("check", model, "--constant", given) == message


@pytest.mark.parametrize("given, words", [
    (("sr",), "'sr' must be an input's name and its elements, like sr=16000, gains=0.5,1 or flag=true"),
    (("sr=1", "sr=2"), "the input 'sr' must be named once, not 2 times"),
])
def test_words_that_are_no_constants(cli: Cli, model: str, given: tuple[str, ...], words: str) -> None:
    done = cli("check", model, *(word for text in given for word in ("--constant", text)))
    assert done.code == 2
    assert words in done.err


def test_an_input_must_be_left(cli: Cli, model: str) -> None:
    assert cli.refuses("check", model, *GIVEN, "--constant", "sr=1", "--constant", "x=1") == (
        "m.onnx: --constant must leave an input that changes, and none is left; leave the constant of the network's "
        "data out")


def test_constants_of_python() -> None:
    Path("m.onnx").write_bytes(dumps(rates()))
    with pytest.raises(HwflowError) as caught:
        hwflow.load("m.onnx", constants={"sr": "16000"})
    assert str(caught.value) == ("constants must be a dictionary of numbers, or of True and False, by the names of "
                                 "inputs, as {'sr': 16000}, not {'sr': '16000'}")


def test_the_message_names_the_option(cli: Cli, model: str) -> None:
    assert cli.refuses("sim", model, "--input-shape", "gains=3") == (
        "m.onnx: graph/node[1] 'choose' (If): its condition must be constant, not computed from the inputs; if the "
        "input never changes, give --constant sr=16000")


@pytest.mark.parametrize("shape, given", [((), "size=NUMBER"), ((1,), "size=NUMBER"), ((2,), "size=NUMBER,NUMBER"),
                                          ((2, "k"), "size=NUMBER,NUMBER,...")])
def test_the_message_says_how_a_list_is_given(cli: Cli, shape: tuple[int | str, ...], given: str) -> None:
    """A condition that depends on as many elements as the input has."""
    b = Builder()
    x, size = b.input("x", np.float32, (1, 4)), b.input("size", np.int64, shape)
    b.node("ReduceSum", size, keepdims=0, output="total")
    branches = {name: make_graph([make_node(op, [x], [f"{name}.y"])], [], [Value(f"{name}.y", tensor_type(np.float32))],
                                 name=name) for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))}
    b.output(b.node("If", b.node("Cast", "total", to=9), **branches), np.float32, (1, 4))
    Path("m.onnx").write_bytes(dumps(b.model()))
    assert f"give --constant {given}\n" in cli("check", "m.onnx", "--hardware").out


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_data_of_the_network_are_no_constant(cli: Cli, op: str) -> None:
    """As small as a parameter, but a layer reads it, here behind a constant factor."""
    b = Builder()
    x = b.input("x", np.float32, (1, 4))
    b.input("sr", np.int64, ())
    scaled = b.node("Mul", x, b.constant("half", np.float32(0.5)))
    b.output(b.node(op, scaled, b.constant("w", np.eye(4, dtype=np.float32))), np.float32, (1, 4))
    b.output(b.node("Reshape", x, b.node("Cast", x, to=7), name="form"), np.float32, None)
    Path("m.onnx").write_bytes(dumps(b.model()))
    message = cli.refuses("sim", "m.onnx")
    assert "'form' (Reshape): input 1 ('" in message
    assert "--constant" not in message
    assert message.endswith("hardware needs static shapes; export with fixed sizes (torch.onnx.export without "
                            "dynamic_axes and dynamic_shapes, tf2onnx with --inputs NAME:0[1,224,224,3])")


@pytest.mark.parametrize("op", ["NonZero", "Unique"])
def test_places_of_data_are_chosen_with_a_mask(cli: Cli, op: str) -> None:
    b = Builder()
    x = b.input("x", np.float32, (1, 4))
    b.input("sr", np.int64, ())
    b.output(b.node("MatMul", x, b.constant("w", np.eye(4, dtype=np.float32))), np.float32, (1, 4))
    b.output(b.node(op, x, name="places"), np.int64 if op == "NonZero" else np.float32, None)
    Path("m.onnx").write_bytes(dumps(b.model()))
    assert cli.refuses("sim", "m.onnx").endswith(
        "choose with a mask in place of a list of places (torch.where in place of x[mask]), which keeps the size")


def test_a_condition_of_the_data(cli: Cli) -> None:
    b = Builder()
    x = b.input("x", np.float32, (1, 4))
    y = b.node("MatMul", x, b.constant("w", np.eye(4, dtype=np.float32)))
    positive = b.node("Greater", b.node("ReduceMax", x, keepdims=0), b.constant("zero", np.float32(0)))
    branches = {name: make_graph([make_node(op, [y], [f"{op}.y"])], [], [Value(f"{op}.y", tensor_type(np.float32))],
                                 name=name) for name, op in (("then_branch", "Relu"), ("else_branch", "Tanh"))}
    b.output(b.node("If", positive, name="choose", **branches), np.float32, (1, 4))
    Path("m.onnx").write_bytes(dumps(b.model()))
    assert cli.refuses("sim", "m.onnx") == (
        "m.onnx: graph/node[3] 'choose' (If): its condition must be constant, not computed from the data; only an If "
        "whose condition is constant is seen through: compute both branches and choose with Where")


def test_the_last_input_is_no_constant(cli: Cli) -> None:
    b = Builder()
    x = b.input("x", np.float32, (1, 4))
    b.output(b.node("Reshape", x, b.node("Cast", x, to=7), name="form"), np.float32, None)
    Path("m.onnx").write_bytes(dumps(b.model()))
    assert "--constant" not in cli.refuses("sim", "m.onnx")
