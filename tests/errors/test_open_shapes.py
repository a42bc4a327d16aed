"""Models that leave the sizes of their inputs open: what is suggested, and what the rows of a data file decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow
from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Dim
from tests.e2e.command import Cli


def pictures(*shape: Dim, kernel: int = 3, outputs: int | None = None) -> None:
    """`m.onnx` in the current folder: Conv, Relu and, where `outputs` are asked for, a Gemm for pictures of 12 x 12."""
    b, random = Builder(), np.random.default_rng(1)
    w = b.constant("w", random.normal(size=(4, 3, kernel, kernel)).astype(np.float32))
    y = b.node("Relu", b.node("Conv", b.input("x", np.float32, shape or None), w, name="conv"), output="y")
    if outputs is not None:
        v = random.normal(size=(4 * 100, outputs)).astype(np.float32)
        y = b.node("Gemm", b.node("Flatten", y), b.constant("v", v), output="scores")
    b.output(y, np.float32)
    onnx.save(b.model(), Path("m.onnx"))


def two_inputs(first: Dim, second: Dim) -> None:
    b = Builder()
    ends = [b.input(name, np.float32, (1, 2, size)) for name, size in (("a", first), ("b", second))]
    w = b.constant("w", np.ones((2, 2, 3), np.float32))
    parts = [b.node("Relu", b.node("Conv", end, w, name=f"conv_{end}")) for end in ends]
    for part in parts:
        b.output(part, np.float32)
    onnx.save(b.model(), Path("m.onnx"))


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


SHAPE = "the shape of input 'x' must be known, not float32"


@pytest.mark.parametrize(("shape", "kernel", "outputs", "message"), [
    (("n", 3, "h", "w"), 3, None, "[n, 3, h, w]; give it with --input-shape x=1,3,32,32"),
    (("n", "c", "h", "w"), 3, None, "[n, c, h, w]; give it with --input-shape x=1,3,32,32"),
    (("n", 3, "h", "w"), 41, None, "[n, 3, h, w]; give it with --input-shape x=1,3,64,64"),
    (("n", 3, "h", "w"), 3, 10, "[n, 3, h, w]; give it with --input-shape x=1,3,12,12"),
    ((), 3, None, " of unknown rank; give it with --input-shape x=1,3,32,32"),
    (("n", 4, "h", "w"), 3, None, "[n, 4, h, w]; give it with --input-shape x=1,4,32,32; that is a guess, and no size "
                                  "that was tried suits the model"),
])
def test_the_suggested_shape_goes_through(
    cli: Cli, shape: tuple[Dim, ...], kernel: int, outputs: int | None, message: str
) -> None:
    pictures(*shape, kernel=kernel, outputs=outputs)
    found = cli.refuses("build", "m.onnx")
    assert found == f"m.onnx: {SHAPE}{message}"
    words = found.partition("give it with ")[2].partition(";")[0].split()
    assert (cli("check", "m.onnx", "--hardware", *words).code == 0) is ("guess" not in message)


def test_the_suggestion_names_every_open_input(cli: Cli) -> None:
    two_inputs("s", "t")
    assert cli.refuses("build", "m.onnx") == (
        "m.onnx: the shape of input 'a' must be known, not float32[1, 2, s]; give it with --input-shape a=1,2,32 "
        "--input-shape b=1,2,32")
    two_inputs("s", "s")
    assert cli.refuses("build", "m.onnx") == (
        "m.onnx: the shape of input 'a' must be known, not float32[1, 2, s]; give it with --input-shape a=1,2,32")


@pytest.mark.parametrize(("shape", "given"), [
    (("?", 3, "?", "?"), (6, 1, 3, 9, 12)), (("n", 3, None, None), (6, 3, 9, 12)), ((), (6, 3, 9, 12)),
])
def test_the_rows_decide_open_axes(cli: Cli, shape: tuple[Dim, ...], given: tuple[int, ...]) -> None:
    pictures(*shape)
    np.savez("d.npz", in_x=rows(*given))
    line = "input 'x': 'd.npz' decides its shape, [1, 3, 9, 12]\n"
    for words in (("golden",), ("quantize",), ("build",), ("info",), ("check",), ("check", "--hardware")):
        done = cli(*words, "m.onnx", "--data", "d.npz")
        assert (done.code, done.err.count(line)) == (0, 1), done
    model = hwflow.load("m.onnx", data="d.npz")
    data = hwflow.read_data("d.npz", model)
    outputs = hwflow.run_golden(hwflow.quantize_model(model, data), data)
    assert outputs["y"].shape == (6, 4, 7, 10)


def test_the_batch_stays_one_and_needs_no_line(cli: Cli) -> None:
    pictures("n", 3, 9, 12)
    np.savez("d.npz", in_x=rows(6, 3, 9, 12))
    done = cli("golden", "m.onnx", "--data", "d.npz")
    assert (done.code, "decides" in done.err) == (0, False)


@pytest.mark.parametrize(("given", "words", "message"), [
    ((6, 4, 9, 12), (), "array 'in_x' must have the shape [rows, 1, 3, any, any] for the model's input 'x', not "
                        "[6, 4, 9, 12]"),
    ((6, 2, 3, 9, 12), (), "array 'in_x' must have the shape [rows, 1, 3, any, any] for the model's input 'x', not "
                           "[6, 2, 3, 9, 12]"),
    ((), (), "array 'in_x' must have the shape [rows, 1, 3, any, any] for the model's input 'x', not []"),
    ((6, 3, 9, 12), ("--input-shape", "x=1,3,9,13"),
     "the rows of input 'x' must have the shape [1, 3, 9, 13] that --input-shape gives, not [3, 9, 12]; leave "
     "--input-shape out, and the data decide"),
])
def test_rows_that_contradict(cli: Cli, given: tuple[int, ...], words: tuple[str, ...], message: str) -> None:
    pictures("?", 3, "?", "?")
    np.savez("d.npz", in_x=rows(*given))
    for command in ("golden", "check", "info"):
        assert cli.refuses(command, "m.onnx", "--data", "d.npz", *words) == f"d.npz: {message}"


def test_inputs_that_share_a_size(cli: Cli) -> None:
    two_inputs("s", "s")
    np.savez("d.npz", in_a=rows(6, 1, 2, 9), in_b=rows(6, 1, 2, 10))
    assert cli.refuses("golden", "m.onnx", "--data", "d.npz") == (
        "d.npz: the size 's' of the model must be the same in all inputs, not 9 in array 'in_a' and 10 in array 'in_b'")
    assert cli.refuses("golden", "m.onnx", "--data", "d.npz", "--input-shape", "a=1,2,9") == (
        "d.npz: array 'in_b' must have the shape [rows, 1, 2, 9] for the model's input 'b', not [6, 1, 2, 10]")
    two_inputs("?", "?")
    assert cli("golden", "m.onnx", "--data", "d.npz").code == 0


def test_without_an_array_for_an_open_input(cli: Cli) -> None:
    pictures("?", 3, "?", "?")
    np.savez("d.npz", in_y=rows(6, 3, 9, 12))
    assert cli.refuses("golden", "m.onnx", "--data", "d.npz") == (
        "d.npz: there must be an array 'in_x' or 'x' for the model's input 'x'; it has 'in_y'")


def test_rows_in_python_decide_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint at another size than that of the rows would be wrong."""
    monkeypatch.chdir(tmp_path)
    pictures("n", 3, "h", "w")
    model = hwflow.onnx.load("m.onnx")
    quantized = hwflow.quantize_model(model, {"x": rows(6, 1, 3, 9, 12)})
    assert hwflow.run_golden(quantized, {"x": rows(6, 1, 3, 9, 12)})["y"].shape == (6, 4, 7, 10)
    with pytest.raises(HwflowError, match=r"--input-shape x=1,3,32,32"):
        hwflow.quantize_model(model)


def test_a_cache_that_grows(cli: Cli) -> None:
    """As exporters write past_key_values: the output has a row more than the input."""
    b = Builder()
    x = b.input("x", np.float32, ("batch", 1, 4))
    past = b.input("past", np.float32, ("batch", "length", 4))
    row = b.node("MatMul", x, b.constant("w", np.eye(4, dtype=np.float32)))
    b.output(b.node("Concat", past, row, axis=1, output="present"), np.float32, ("batch", "longer", 4))
    b.output(b.node("ReduceMean", "present", axes=[1], output="y"), np.float32, ("batch", 1, 4))
    onnx.save(b.model(), "m.onnx")
    message = ("the shape of input 'past' must be known, not float32[batch, length, 4], and it is a cache that grows: "
               "'present' has a row more; export the model with a static cache: one of constant size, and a position "
               "as an input that says which row is written (StaticCache of Hugging Face; docs/language-model.md); for "
               "a single length of the past give it with --input-shape past=1,32,4")
    assert cli.refuses("sim", "m.onnx") == f"m.onnx: {message}"
    assert f"the model: {message}" in cli("check", "--hardware", "m.onnx").out
