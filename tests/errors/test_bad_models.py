"""Models that are none, that break rules, that cannot become hardware, or whose shapes are open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx as oracle
import pytest

from hwflow import onnx
from hwflow.onnx.build import Builder
from tests.e2e.command import Cli
from tests.errors.refusals import Content, Refusal, table

COMMANDS = ("check", "info", "quantize", "golden", "build", "sim", "synth")


def convolution(shape: tuple[int | str, ...] = (1, 2, 4, 4), weights: np.ndarray | None = None, *behind: str,
                constant: bool = True) -> bytes:
    """A 3x3 convolution "conv" of input "x" and the operators `behind` it, as a file."""
    b = Builder("one")
    x = b.input("x", np.float32, shape)
    if weights is None:
        weights = np.random.default_rng(0).standard_normal((2, 2, 3, 3)).astype(np.float32)
    w = b.constant("w", weights) if constant else b.input("w", np.float32, weights.shape)
    y = b.node("Conv", x, w, name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    for operator in behind:
        y = b.node(operator, y, name=operator.lower())
    b.output(y, np.float32, None if behind else shape)
    return onnx.dumps(replace(b.model(), domain="com.acme", ir_version=9))


def one_bad_weight(value: float) -> np.ndarray:
    weights = np.ones((2, 2, 3, 3), np.float32)
    weights[1, 0, 2, 1] = value
    return weights


def test_every_operator_that_is_not_known_is_named_at_once(cli: Cli) -> None:
    Path("m.onnx").write_bytes(convolution((1, 2, 4, 4), None, "Relu", "Reluu", "Nonsense"))
    assert cli.refuses("sim", "m.onnx") == (
        "m.onnx: the model must follow the rules of ONNX and of hwflow, not break 2:\n"
        "  graph/node[2] 'reluu' (Reluu): the operator must be one of operator set 'ai.onnx', not 'Reluu'; perhaps "
        "'Relu' or 'PRelu' is meant, else replace it in the model before the export [OS-08]\n"
        "  graph/node[3] 'nonsense' (Nonsense): the operator must be one of operator set 'ai.onnx', not 'Nonsense'; "
        "replace it in the model before the export [OS-08]")


def test_unknown_operators_and_those_without_hardware_are_named_at_once(cli: Cli) -> None:
    Path("m.onnx").write_bytes(convolution((1, 2, 4, 4), None, "Nonsense", "Cos", "GlobalAveragePool"))
    besides = ("besides, it has operators without hardware:\n"
               "  'cos' (Cos): operator Cos has no hardware, and the host cannot run it because "
               "'globalaveragepool' (GlobalAveragePool) follows; cut the model in front of it with `hwflow onnx "
               "extract MODEL front.onnx --to nonsense_out` and run the rest on the host")
    assert cli.refuses("sim", "m.onnx") == (
        "m.onnx: graph/node[1] 'nonsense' (Nonsense): the operator must be one of operator set 'ai.onnx', not "
        f"'Nonsense'; replace it in the model before the export [OS-08]\n{besides}")
    assert cli("check", "m.onnx").out.endswith(f"{besides}\n")


def test_every_operator_without_hardware_is_named_at_once(cli: Cli) -> None:
    b = Builder("branch")
    x = b.input("x", np.float32, (1, 4))
    y = b.node("Gemm", x, b.constant("w", np.ones((4, 4), np.float32)), name="fc")
    y = b.node("Mod", y, b.constant("scale", np.full(4, 0.7, np.float32)), name="rest", fmod=1)
    places, values = b.constant("places", np.array([[2]])), b.constant("values", np.ones((1, 1), np.float32))
    y = b.node("ScatterElements", y, places, values, name="put", axis=1, reduction="add")
    b.output(b.node("Gemm", y, "w", name="last"))
    onnx.save(b.model(), "m.onnx")
    assert cli.refuses("sim", "m.onnx") == (
        "m.onnx: 2 parts of the model cannot become hardware:\n"
        "  'rest' (Mod): operator Mod has no hardware in this form, and the host cannot run it because 'last' (Gemm) "
        "follows\n"
        "    what is left of one power of two, counted towards zero (fmod=1, by 1 or 0.5), has hardware; else x - by * "
        "Floor(x / by), which counts from below, or cut the model in front of it with `hwflow onnx extract "
        "MODEL front.onnx --to fc_out` and run the rest on the host\n"
        "  'put' (ScatterElements): operator ScatterElements has no hardware in this form, and the host cannot run it "
        "because 'last' (Gemm) follows\n"
        "    write at constant places without a reduction, or one row of a state at a position that is an input, or "
        "cut the model in front of it with `hwflow onnx extract MODEL front.onnx --to rest_out` and run the rest on "
        "the host")


@pytest.mark.rule("OS-20")
def test_check_tells_a_valid_file_from_one_that_maps_to_hardware(cli: Cli) -> None:
    """Weights that are computed: allowed, because they are an input and no attribute, but hardware needs constants."""
    Path("m.onnx").write_bytes(convolution(constant=False))
    done = cli("check", "m.onnx")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:2] == ["m.onnx: no error, no warning; a valid ONNX file", "m.onnx: 0 of 1 node maps to hardware:"]
    assert lines[2].startswith("  'conv' (Conv): weights and bias must be constants")
    assert len(lines) == 3, "no next command is said"
    result = cli("check", "m.onnx", "--json")
    assert result.code == result.json["exit_code"] == 0
    assert (result.json["valid"], result.json["possible"], result.json["layers"]) == (True, False, None)


def test_check_is_strict_where_that_is_asked_for(cli: Cli) -> None:
    Path("m.onnx").write_bytes(convolution(("n", 2, 4, 4), None, "Relu"))
    done = cli("check", "m.onnx")
    assert done.code == 0
    assert done.out.splitlines()[:-2] == [
        "warning: graph/output[0]: the output 'relu_out' must have a rank, not an unknown shape; state a shape; its "
        "dims may be open [GR-18 W-no-rank]"]
    done = cli("check", "m.onnx", "--strict")
    assert done.code == 1
    assert done.out.splitlines()[-1] == "m.onnx: 1 error, no warning"


def test_check_of_what_must_not_be_read(cli: Cli) -> None:
    """A weight that lies outside of the model's folder: exit code 2, as for a file that is no model."""
    proto = oracle.ModelProto.FromString(convolution())
    oracle.external_data_helper.set_external_data(proto.graph.initializer[0], "../secret.bin")
    proto.graph.initializer[0].ClearField("raw_data")
    Path("m.onnx").write_bytes(proto.SerializeToString())
    done = cli("check", "m.onnx")
    assert done.code == 2
    assert "[EX-02]" in done.out


def test_check_lists_what_breaks_the_rules_and_answers_no(cli: Cli) -> None:
    Path("m.onnx").write_bytes(convolution((1, 2, 4, 4), None, "Nonsense", "Humbug"))
    done = cli("check", "m.onnx")
    assert done.code == 1
    assert done.out.splitlines()[-1] == "m.onnx: 2 errors, 1 warning"
    findings = cli("check", "m.onnx", "--json").json["findings"]
    assert [(f["severity"], f["rule"], f["path"]) for f in findings] == [
        ("warning", "GR-18", "graph/output[0]"),
        ("error", "OS-08", "graph/node[1] 'nonsense' (Nonsense)"),
        ("error", "OS-08", "graph/node[2] 'humbug' (Humbug)")]


def test_an_open_batch_is_one_and_that_is_said(cli: Cli) -> None:
    Path("m.onnx").write_bytes(convolution(("n", 2, 4, 4)))
    done = cli("check", "m.onnx")
    assert done.code == 0
    assert "input 'x': the open batch axis is fixed to 1" in done.err


def relu(shape: tuple[int, ...]) -> bytes:
    values = [oracle.helper.make_tensor_value_info(name, 1, shape) for name in ("x", "y")]
    return graph_bytes([oracle.helper.make_node("Relu", ["x"], ["y"])], values[:1], values[1:])


def graph_bytes(nodes, inputs, outputs, constants=()) -> bytes:
    graph = oracle.helper.make_graph(nodes, "g", inputs, outputs, initializer=list(constants))
    imports = [oracle.helper.make_opsetid("", 17)]
    return oracle.helper.make_model(graph, ir_version=8, opset_imports=imports).SerializeToString()


def test_a_model_without_inputs(cli: Cli) -> None:
    """A valid file: what it gives is constant."""
    value = oracle.helper.make_tensor("w", 1, [2, 3], np.ones(6))
    node = oracle.helper.make_node("Identity", ["w"], ["y"])
    output = oracle.helper.make_tensor_value_info("y", 1, [2, 3])
    Path("m.onnx").write_bytes(graph_bytes([node], [], [output], [value]))
    message = "the model must have an input, not none; what it gives is constant and needs no hardware"
    checked = cli("check", "m.onnx")
    assert checked.code == 0
    assert message in checked.out
    assert cli("info", "m.onnx", "--json").json["problem"] == message
    assert cli.refuses("build", "m.onnx") == f"m.onnx: {message}"


def test_an_input_without_elements(cli: Cli) -> None:
    """An axis of zero is legal, and there is nothing to measure."""
    weights = oracle.helper.make_tensor("w", 1, [0, 3], [])
    node = oracle.helper.make_node("MatMul", ["x", "w"], ["y"])
    values = [oracle.helper.make_tensor_value_info(name, 1, (1, size)) for name, size in (("x", 0), ("y", 3))]
    Path("m.onnx").write_bytes(graph_bytes([node], values[:1], values[1:], [weights]))
    message = "input 'x' must have elements, not the shape [1, 0]; export it with another"
    for words in (("check", "m.onnx"), ("check", "m.onnx", "--hardware")):
        (found,) = cli(*words, "--json").json["problems"]
        assert f"{found['why']}; {found['remedy']}" == message
    assert cli.refuses("build", "m.onnx") == f"m.onnx: {message}"


def test_a_valid_model_that_is_larger_than_the_machine(cli: Cli) -> None:
    Path("m.onnx").write_bytes(relu((1, 1, 10_000_000, 10_000_000)))
    checked = cli("check", "m.onnx", "--json")
    assert checked.code == 0
    assert checked.json["valid"]
    assert cli("info", "m.onnx").code == 0


def test_a_shape_that_is_not_known(cli: Cli) -> None:
    Path("m.onnx").write_bytes(convolution((1, 2, "h", "w")))
    assert cli.refuses("sim", "m.onnx") == (
        "m.onnx: the shape of input 'x' must be known, not float32[1, 2, h, w]; give it with --input-shape x=1,2,32,32")
    assert cli("check", "m.onnx", "--input-shape", "x=1,2,5,6").code == 0


INPUT_SHAPES = {
    "y=1,2,4,4": "--input-shape must name an input of the model ('x'), not 'y'",
    "x=1,2,4": "--input-shape of 'x' must fit the model's float32[1, 2, h, w], not be 1,2,4",
    "x=1,3,4,4": "--input-shape of 'x' must fit the model's float32[1, 2, h, w], not be 1,3,4,4",
}

@pytest.mark.parametrize("command", ["sim", "check", "info"])
@pytest.mark.parametrize("shape, message", INPUT_SHAPES.items())
def test_an_input_shape_that_does_not_fit(cli: Cli, shape: str, message: str, command: str) -> None:
    Path("m.onnx").write_bytes(convolution((1, 2, "h", "w")))
    if command == "sim":
        assert cli.refuses("sim", "m.onnx", "--input-shape", shape) == message
    else:
        done = cli(command, "m.onnx", "--input-shape", shape, "--json")
        assert (done.code, done.json["error"]) == (2, message)


def test_a_model_that_is_too_large_for_any_board(cli: Cli) -> None:
    """The answer comes at once; the file is valid all the same."""
    b = Builder("long")
    last = b.input("x", np.float32, (1, 4))
    for _ in range(5001):
        last = b.node("Relu", last)
    b.output(last, np.float32, (1, 4))
    Path("m.onnx").write_bytes(onnx.dumps(b.model()))
    message = ("a model that becomes hardware must have at most 5000 nodes and 50000000 parameters, "
               "not 5001 and 0; choose a smaller model")  # fmt: skip
    assert cli.refuses("build", "m.onnx") == f"m.onnx: {message}"
    checked = cli("check", "m.onnx", "--json")
    (found,) = checked.json["problems"]
    assert (checked.code, checked.json["valid"], f"{found['why']}; {found['remedy']}") == (0, True, message)


def test_names_in_a_model_are_no_paths_and_no_code(cli: Cli) -> None:
    b = Builder("../../graph")
    x = b.input("../x", np.float32, (1, 4))
    w = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    y = b.node("Gemm", x, b.constant("/etc/w", w), name='../../"; $finish; // \n module', output="..")
    b.output(y)
    onnx.save(b.model(), "m.onnx")
    assert cli("build", "m.onnx", "--build", "out").code == 0
    assert {path.name for path in Path().iterdir()} == {"m.onnx", "out"}
    assert {path.name for path in Path("out").iterdir()} == {"m"}
    text = Path("out/m/ulx3s_85f/rtl/hwflow_core.v").read_text()
    assert "$finish" not in text


@pytest.mark.parametrize("command", ["build", "quantize"])
def test_images_that_are_too_large(cli: Cli, command: str) -> None:
    """Not hours of calibration, nor a process that is killed: a message, from every command."""
    Path("m.onnx").write_bytes(convolution((1, 2, 5000, 5000)))
    message = ("a tensor of a model that becomes hardware must have at most 16777216 elements, and "
               "'x' [1, 2, 5000, 5000] has 50000000; scale the images down, or cut them into parts")
    assert cli.refuses(command, "m.onnx") == f"m.onnx: {message}"
    checked = cli("check", "m.onnx", "--hardware")
    assert checked.code == 1
    assert message in " ".join(checked.out.split())
    assert message in " ".join(cli("info", "m.onnx").out.split())


def mean() -> bytes:
    """Over the pixels, behind a convolution of a batch of three."""
    nodes = [oracle.helper.make_node("Conv", ["x", "w"], ["h"], "conv"),
             oracle.helper.make_node("ReduceMean", ["h"], ["y"], "mean", axes=[2, 3])]
    values = [oracle.helper.make_tensor_value_info("x", 1, (3, 2, 4, 4)),
              oracle.helper.make_tensor_value_info("y", 1, (3, 2, 1, 1))]
    weights = oracle.numpy_helper.from_array(np.ones((2, 2, 3, 3), np.float32), "w")
    return graph_bytes(nodes, values[:1], values[1:], [weights])


ONE = convolution()
OPEN = {"m.onnx": convolution((1, 2, "h", "w"))}
PART = "m.onnx: 1 part of the model cannot become hardware:\n"
#: What `m.onnx` holds and what `hwflow sim` says of it.
FILES: dict[str, tuple[Content, str]] = {
    "empty": (b"", "m.onnx: must be an ONNX model, not empty; export or copy it again"),
    "text": (b"hello world, I am no model\n", "m.onnx: must be an ONNX model, not a file that starts with "
             "b'hello wo'; export the model to ONNX first"),
    "zip": (b"PK\x03\x04" + bytes(100), "m.onnx: must be an ONNX model, not a zip archive (PyTorch or Keras); export "
            "the model with torch.onnx.export or tf2onnx"),
    "folder": (Path.mkdir, "m.onnx: must be an ONNX file, not a folder; name the .onnx file in it"),
    **{f"{size} bytes of {len(ONE)}": (ONE[:size], f"m.onnx: must be a whole ONNX model, not truncated after {size} "
                                       "bytes (...") for size in (int(kept * len(ONE)) for kept in (0.3, 0.7, 0.999))},
    "weights of an input": (convolution(constant=False), f"{PART}  'conv' (Conv): weights and bias must be constants, "
                            "not computed ('w')\n..."),
    **{f"weights {value}": (convolution(weights=one_bad_weight(value)), f"{PART}  tensor 'w': weights must be finite, "
                            f"not {value} at [1, 0, 2, 1] (1 such entries; in 'conv' (Conv))\n    train or export the "
                            "model again") for value in (np.nan, np.inf)},
    "a batch": (convolution((3, 2, 4, 4)), f"{PART}  'conv' (Conv): the first layer must read [1, C], [1, C, W] or "
                "[1, C, H, W], not [3, 2, 4, 4]\n    fix the batch to 1, or reshape the input on the host"),
    "a mean of a batch": (mean(), "...the first layer must read [1, C], ..."),
}
SHAPES = {
    **{f"x={sizes}": f"Invalid value for '--input-shape': 'x={sizes}' must be an input's name and its sizes, like "
       "image=1,3,32,32; see `hwflow sim --help`" for sizes in ("", "1,2,a,4", "0,2,4,4", "1,2,-4,4", "1;2")},
    **{text: f"Invalid value for '--input-shape': '{text}' must be an input's name and its sizes, like "
       "image=1,3,32,32; see `hwflow sim --help`" for text in ("x", "=1,2")},
    "x=1,2,8,8 --input-shape x=1,2,9,9": "Invalid value for '--input-shape': the input 'x' must be named once, not 2 "
                                         "times; see `hwflow sim --help`",
    "x=1,2,10000000,10000000": "m.onnx: a tensor of a model that becomes hardware must have at most 16777216 elements, "
                               "and 'x' [1, 2, 10000000, 10000000] has 200000000000000; scale the images down, or cut "
                               "them into parts",
}
NO_FILE = "none.onnx: there is no such file; check the path"


@table({
    **{name: Refusal("sim m.onnx", message, {"m.onnx": content}) for name, (content, message) in FILES.items()},
    **{shape: Refusal(f"sim m.onnx --input-shape {shape}", message, OPEN) for shape, message in SHAPES.items()},
    **{f"no file to {words}": Refusal(f"{words} none.onnx", NO_FILE) for words in (
        *COMMANDS, "run", "quantize --accuracy-drop 1")},  # before anything that the command needs besides
})
def test_models_that_cannot_be_read_or_have_no_hardware(cli: Cli, refusal: Refusal) -> None:
    said = refusal.check(cli)
    if "truncated" in said:
        assert said.endswith(" bytes announced); copy or export it again")
