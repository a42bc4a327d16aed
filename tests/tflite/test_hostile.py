"""Files that are cut, damaged, hostile or beyond what is read here: one message each, and exit code 2."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from bench import fuzz
from hwflow.onnx.limits import Limits
from tests.e2e.command import Cli
from tests.tflite.writer import Fields, Maker, flatbuffer

AGAIN = "the file is damaged: copy or export it again"


def relu(*, change: Callable[[Maker, Fields], None] | None = None) -> bytes:
    """A file of one operator; `change` is told the maker and the outermost table."""
    m = Maker()
    x, y = (m.tensor(name, [1, 4], "INT8", scale=0.5) for name in ("x", "y"))
    m.operator("RELU", [x], [y])
    root = m.root([x], [y])
    if change is not None:
        change(m, root)
    return flatbuffer(root)


def tensor(number: int, field: int, value: object) -> Callable[[Maker, Fields], None]:
    return lambda m, root: m.tensors[number].update({field: value})


def operator(field: int, value: object) -> Callable[[Maker, Fields], None]:
    return lambda m, root: m.operators[0].update({field: value})


def graph(field: int, value: object) -> Callable[[Maker, Fields], None]:
    return lambda m, root: root[2][0].update({field: value})


def code(number: int, version: int = 1, name: str = "") -> Callable[[Maker, Fields], None]:
    return lambda m, root: root.update({1: [{0: ("b", min(number, 127)), 2: ("i", version), 3: ("i", number),
                                             **({1: name} if name else {})}]})


def scale(**fields: object) -> Callable[[Maker, Fields], None]:
    numbers = {"scale": 2, "zero": 3, "details": 4, "axis": 6}
    return lambda m, root: m.tensors[1][4].update({numbers[name]: value for name, value in fields.items()})


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


BAD: dict[str, tuple[Callable[[Maker, Fields], None], str]] = {
    "a version of the schema": (
        lambda m, root: root.update({0: ("I", 2)}),
        "the schema must have version 3, not 2; convert the model with TensorFlow 2 again"),
    "no subgraph": (
        lambda m, root: root.pop(2), "the model must have a subgraph, not none; export the model again"),
    "an unknown operator": (
        code(200), "operator 0 STABLEHLO_WHILE 'y': operators must be those of docs/tflite.md, not "
        "STABLEHLO_WHILE; export "
        "the model without them, or up to them"),
    "an operator that the schema here has not": (
        code(9999), "operator 0 operator code 9999 'y': operators must be those of docs/tflite.md, not operator "
        "code 9999; "
        "export the model without them, or up to them"),
    "an operator of somebody": (
        code(32, name="Detect"), "operator 0 CUSTOM Detect 'y': operators must be those of docs/tflite.md, not "
        "CUSTOM "
        "Detect; export the model without them, or up to them"),
    "a version of an operator": (
        code(19, 77), "operator 0 RELU 'y': RELU must have a version of 1 to 3, not 77; convert the model with "
        "an older "
        "TensorFlow, or update hwflow"),
    "an operator code": (
        operator(0, ("I", 5)), f"subgraph 0, operator 0 must have one of the 1 operator codes, not 5; {AGAIN}"),
    "a tensor": (operator(1, ints(7)), f"operator 0 RELU must name one of its 2 tensors, not tensor 7; {AGAIN}"),
    "a negative tensor": (operator(2, ints(-2)), f"operator 0 RELU must name one of its 2 tensors, not tensor "
    f"-2; {AGAIN}"),
    "too many inputs": (operator(1, ints(0, 0)), f"operator 0 RELU 'y': must have 1 inputs, not 2; {AGAIN}"),
    "no output": (operator(2, ints()), f"operator 0 RELU: must have 1 outputs, not 0; {AGAIN}"),
    "an order that is none": (
        operator(1, ints(1)), "operator 0 RELU 'y': tensor 1 'y' must be an input, a constant or computed by an "
        "operator "
        f"before, not none of them; {AGAIN}"),
    "an output twice": (
        operator(2, ints(0)), f"operator 0 RELU 'x': tensor 0 'x' must be computed once, not twice; {AGAIN}"),
    "an output of nobody": (
        lambda m, root: (m.tensor("z", [1], "INT8"), root[2][0].update({2: ints(2)})),
        "the outputs of the model: tensor 2 'z' must be an input, a constant or computed by an operator before, "
        "not none "
        f"of them; {AGAIN}"),
    "no outputs": (graph(2, ints()), f"the model must have an output, not none; {AGAIN}"),
    "an input twice": (graph(1, ints(0, 0)), f"the inputs of the model must be different tensors; {AGAIN}"),
    "a buffer": (tensor(0, 2, ("I", 4)), f"tensor 0 'x' must have one of the 1 buffers, not buffer 4; {AGAIN}"),
    "a negative size": (
        tensor(0, 0, ints(1, -4)), f"tensor 0 'x' must have at most 32 sizes of 0 or more, not [1, -4]; {AGAIN}"),
    "many axes": (
        tensor(0, 0, ints(*[1] * 33)), f"tensor 0 'x' must have at most 32 sizes of 0 or more, not {[1] * 33}; "
        f"{AGAIN}"),
    "a huge tensor": (
        tensor(0, 0, ints(1 << 30, 1 << 30)), "tensor 0 'x' must be at most 2,147,483,648 bytes (tensor_bytes), not "
        "1,152,921,504,606,846,976; if you trust the model, raise it with --limit tensor_bytes=1152921504606846976"),
    "a signature": (
        tensor(0, 7, ints(-1)), f"the shape signature of tensor 0 'x' must suit [1, 4], not be [-1]; {AGAIN}"),
    "a type": (
        tensor(0, 1, ("b", 99)), "tensor 0 'x' must have elements of a type that hwflow knows (BFLOAT16, BOOL, "
        "FLOAT16, "
        "FLOAT32, FLOAT64, INT16, INT32, INT4, INT64, INT8, UINT16, UINT32, UINT64, UINT8), not type 99; leave the "
        "operators that use it outside of the model"),
    "another shape": (
        tensor(1, 0, ints(1, 5)), "graph/node[2] 'y/QuantizeLinear' (QuantizeLinear): the type of 'y' must be "
        "int8[1, 4], "
        "not int8[1, 5] as the file states; export the model again [GR-21]"),
    "scales that are no numbers": (
        scale(scale=floats(np.nan)), f"the scales of tensor 1 'y' must be finite and not negative, not nan; {AGAIN}"),
    "negative scales": (
        scale(scale=floats(-1)), f"the scales of tensor 1 'y' must be finite and not negative, not -1.0; {AGAIN}"),
    "a scale of 0": (
        scale(scale=floats(0)), "operator 0 RELU 'y': tensor 1 'y' must have one scale above 0, because it is "
        "computed, "
        f"not 0.0; {AGAIN}"),
    "several scales": (
        scale(scale=floats(1, 1, 1, 1), zero=np.zeros(4, np.int64), axis=("i", 1)),
        f"operator 0 RELU 'y': tensor 1 'y' must have one scale above 0, because it is computed, not several; "
        f"{AGAIN}"),
    "as many scales as no axis": (
        scale(scale=floats(1, 1, 1), zero=np.zeros(2, np.int64)),
        f"tensor 1 'y' must have as many zero points as scales (3), not 2; {AGAIN}"),
    "an axis": (
        scale(scale=floats(1, 1), axis=("i", 9)), "tensor 1 'y' must have a scale for each place of an axis of "
        "its shape "
        f"[1, 4], not 2 for axis 9; {AGAIN}"),
    "a zero point": (
        scale(zero=np.array([200])), f"operator 0 RELU 'y': the zero point of tensor 1 'y' must be -128 to 127, "
        f"not 200; "
        f"{AGAIN}"),
    "a scale for a block": (
        scale(details=("B", 2)), "tensor 1 'y' must have a scale for itself or for each channel, not for blocks or a "
        "custom one"),
    "a constant of another size": (
        lambda m, root: (m.buffers.append({0: np.zeros(3, np.uint8)}), m.tensors[0].update({2: ("I", 1)}),
                         root[2][0].update({1: ints()})),
        f"operator 0 RELU 'y': tensor 0 'x' must have 4 bytes for its shape [1, 4] of INT8, not 3; {AGAIN}"),
    "a sparse constant": (
        lambda m, root: (m.buffers.append({0: np.zeros(4, np.uint8)}), m.tensors[0].update({2: ("I", 1), 6: {}}),
                         root[2][0].update({1: ints()})),
        f"operator 0 RELU 'y': the sparsity of tensor 0 'x' must suit its shape [1, 4]; {AGAIN}"),
    "a buffer behind the end": (
        lambda m, root: m.buffers[0].update({1: ("Q", 1 << 40), 2: ("Q", 8)}),
        "buffer 0 must lie within the file (544 bytes), not at bytes 1099511627776 to 1099511627784; the file "
        "is cut or "
        "damaged: copy or export it again"),
    "options of another operator": (
        lambda m, root: (code(22)(m, root), m.operators[0].update({3: ("B", 1), 4: {}})),
        f"operator 0 RESHAPE 'y': the options must be ReshapeOptions (type 17), not of type 1; {AGAIN}"),
    "no subgraph to call": (
        lambda m, root: (code(129)(m, root), m.operators[0].update({3: ("B", 103), 4: {0: ("i", 3)}})),
        f"operator 0 CALL_ONCE 'y': must call one of the 1 subgraphs after the first, not 3; {AGAIN}"),
    "an axis that is none": (
        lambda m, root: (code(49)(m, root), m.buffers.append({0: np.zeros(8, np.uint8)}),
                         m.tensor("axis", [2], "INT32"), m.tensors[2].update({2: ("I", 1)}),
                         m.operators[0].update({1: ints(2, 0)})),
        f"operator 0 SPLIT 'y': the axis must be one number, not 2; {AGAIN}"),
    "bounds of unlike lengths": (
        lambda m, root: (code(45)(m, root), m.buffers.append({0: np.zeros(8, np.uint8)}),
                         m.buffers.append({0: np.zeros(4, np.uint8)}),
                         m.tensor("two", [2], "INT32"), m.tensors[2].update({2: ("I", 1)}),
                         m.tensor("one", [1], "INT32"), m.tensors[3].update({2: ("I", 2)}),
                         m.operators[0].update({1: ints(0, 2, 3, 2), 3: ("B", 32), 4: {5: ("?", True)}})),
        "operator 0 STRIDED_SLICE 'y': begin, end and step must be of one length, not 2, 1, 2"),
    "rows that are chosen": (
        code(109), "operator 0 WHERE 'y': operators must be those of docs/tflite.md, not WHERE; it gives as "
        "many rows as "
        "there are true elements; end the model before it, and choose on the host"),
    "no variable": (
        code(143), f"operator 0 READ_VARIABLE 'y': tensor 0 'x' must come from a VAR_HANDLE before; {AGAIN}"),
}


SCALES: dict[str, tuple[dict[str, object], str]] = {
    "several scales of what weights multiply": (
        {"x": np.full(6, 0.1), "w": np.full(4, 0.1)},
        "tensor 0 'x' must have one scale, because weights multiply it, not several"),
    "a scale for each input": (
        {"w": np.full(6, 0.1), "axis": 1},
        "the weights tensor 1 'w' must have one scale, or one for each output (axis 0), not for each place of axis 1"),
    "a result without a scale": (
        {"y": 0.0}, "tensor 2 'y' must have one scale above 0, because it is computed, not 0.0"),
}


@pytest.mark.parametrize("title", SCALES)
def test_scales_of_products(title: str) -> None:
    given, expected = SCALES[title]
    scales: dict = {"x": 0.1, "w": 0.1, "y": 0.1, **given}
    m = Maker()
    x = m.tensor("x", [1, 6], "INT8", scale=scales["x"], axis=1)
    w = m.tensor("w", [4, 6], "INT8", np.ones((4, 6)), scale=scales["w"], axis=scales.get("axis", 0))
    y = m.tensor("y", [1, 4], "INT8", scale=scales["y"])
    m.operator("FULLY_CONNECTED", [x, w, m.tensor("b", [4], "INT32", np.arange(4))], [y], "FullyConnectedOptions")
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.loads(m.file([x], [y]), "net.tflite")
    assert str(caught.value) == f"net.tflite: operator 0 FULLY_CONNECTED 'y': {expected}; {AGAIN}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("title", BAD)
def test_bad_files(title: str) -> None:
    change, expected = BAD[title]
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.infer(hwflow.onnx.loads(relu(change=change), "net.tflite"))
    assert str(caught.value).removeprefix("net.tflite: ") == expected
    assert caught.value.exit_code == 2


def test_a_cut_file_is_refused_wherever_it_ends() -> None:
    data = relu()
    for size in range(8, len(data)):
        try:
            hwflow.onnx.loads(data[:size])
        except HwflowError:
            continue
        assert not any(data[size:]), "nothing but what fills the last word was cut"


def test_offsets_that_lead_in_circles_end() -> None:
    """Tables are read to the depth of the schema, and counted."""
    data = bytearray(relu())
    limits = Limits(messages=10_000)
    for at in range(8, len(data) - 4, 4):
        for target in (8, len(data) // 2, 0):
            copy = bytearray(data)
            struct.pack_into("<I", copy, at, (target - at) % (1 << 32))
            try:
                hwflow.onnx.loads(bytes(copy), limits=limits)
            except HwflowError:
                continue


def test_shared_tables_are_counted() -> None:
    """A list of a million references to one table is a small file that stands for a large one."""
    m = Maker()
    root = m.root([], [])
    root[4] = [{} for _ in range(400)]
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.loads(flatbuffer(root), limits=Limits(messages=300))
    assert str(caught.value) == ("the model: a file must consist of at most 300 messages, not of more; if you "
    "trust the "
                                 "model, raise it with --limit messages=NUMBER")


def test_damaged_files() -> None:
    """Some hundred of the million of `python -m bench.fuzz --tflite`."""
    tally = fuzz.run(fuzz.models(None, tflite=True), seed=20, count=1500, jobs=2, progress=False)
    assert tally.failures == {}
    assert tally.outcomes["evaluated"] > 50


def test_every_command_says_it_with_exit_code_2(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tflite").write_bytes(relu(change=code(19, 77)))
    for command in (("check",), ("info",), ("sim",), ("build",), ("onnx", "convert")):
        done = cli(*command, "net.tflite", *(["net.onnx"] if command[0] == "onnx" else []))
        assert done.code == 2
        assert "operator 0 RELU 'y': RELU must have a version of 1 to 3, not 77" in " ".join(done.err.split())
