"""What `hwflow check --hardware` says: everything at once, and nothing but what the other commands do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.facts.mapping import Fate, Mapped, mapped
from hwflow.onnx import Model, dumps, load, save
from hwflow.onnx.build import Builder, make_node
from hwflow.onnx.model import Function
from hwflow.onnx.rewrite.inline import inline_functions
from hwflow.options import Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.quantize import quantize
from hwflow.quantize.problems import NoHardware
from hwflow.stages.kinds import hardware_problems
from hwflow.views.console.terminal import Console
from tests.e2e.command import Cli
from tests.e2e.networks import small_network

F = np.float32


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F)


def broken() -> Model:
    """Three nodes that cannot be, each hidden behind the one before; and a Softmax at the end."""
    b = Builder("broken")
    x = b.input("x", F, (1, 4, 8, 8))
    x = b.node("Conv", x, b.constant("w0", ones(4, 4, 3, 3)), name="first")
    x = b.node("LRN", x, name="norm", size=3)
    x = b.node("Conv", x, b.constant("w1", ones(4, 4, 3, 3)), name="second")
    x = b.node("AveragePool", x, name="mean", kernel_shape=(2, 2), pads=(2, 2, 0, 0))
    x = b.node("Conv", x, b.constant("w2", ones(2, 4, 4, 4)), name="third", output="third_out")
    x = b.node("Conv", x, x, output="square")
    b.output(b.node("Softmax", b.node("Flatten", x, name="flat"), name="soft"))
    model = b.model(opset=18)
    nodes = tuple(replace(node, name="") if "square" in node.outputs else node for node in model.graph.nodes)
    return replace(model, graph=replace(model.graph, nodes=nodes))


def test_everything_is_said_at_once(cli: Cli) -> None:
    save(broken(), "b.onnx")
    done = cli("check", "b.onnx", "--hardware")
    assert done.code == 1, done
    assert done.out.splitlines()[-4:] == [
        "b.onnx: 3 of 8 nodes map to hardware (2 on the host: flat, soft):",
        "  'norm' (LRN): operator LRN has no hardware, and the host cannot run it because 'second' (Conv) follows; "
        "train the model with BatchNormalization in its place, or cut the model in front of it with `hwflow onnx "
        "extract MODEL front.onnx --to first_out` and run the rest on the host",
        "  'mean' (AveragePool): a window lies in the padding alone, and has no mean; use smaller pads",
        "  'square' (Conv): weights and bias must be constants, not computed ('third_out'); export the model for "
        "inference with its weights as initializers",
    ]
    facts = cli("check", "b.onnx", "--hardware", "--json").json
    assert (facts["possible"], facts["complete"], facts["exit_code"], facts["layers"]) == (False, True, 1, None)
    lost = [node["name"] for node in facts["nodes"] if node["where"] == "none"]
    assert lost == ["norm", "mean", "Conv of 'square'"]
    assert facts["counts"] == {"hardware": 3, "host": 2, "constant": 0, "none": 3, "unknown": 0}


def test_build_refuses_the_same(cli: Cli) -> None:
    """That `quantize` does is asked of many models in tests/e2e/test_agreement.py."""
    save(broken(), "b.onnx")
    found = [line.strip().partition("; ")[0] for line in cli("check", "b.onnx", "--hardware").out.splitlines()[-3:]]
    first, *lines = cli.refuses("build", "b.onnx").splitlines()
    assert first == "b.onnx: 3 parts of the model cannot become hardware:"
    assert [line.strip() for line in lines[::2]] == found


def test_a_model_that_becomes_hardware(cli: Cli) -> None:
    save(small_network(), "s.onnx")
    done = cli("check", "s.onnx", "--hardware")
    assert done.code == 0
    assert done.out.splitlines()[-2:] == [
        "s.onnx: 5 of 5 nodes map to hardware; 3 layers",
        "  one shared stage can compute all of it (--execution shared), where a board is too small for a stage for "
        "each layer",
    ]
    done = cli("check", "s.onnx", "--hardware", "--board", "icebreaker")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "  weights: 480 bits fill 1 of the 30 block RAMs of icebreaker"
    facts = cli("check", "s.onnx", "--hardware", "--board", "icebreaker", "--json").json
    assert facts["layers"] == ["conv", "pool", "fc"]
    assert facts["weights"] == {
        "board": "icebreaker", "bits": 480, "block_rams": 1, "block_rams_available": 30,
        "bytes_outside": 0, "fits": True}
    assert not Path("build").exists()


def test_where_weights_are(cli: Cli) -> None:
    b = Builder()
    x = b.input("x", F, (1, 512))
    w = b.constant("w", np.random.default_rng(0).normal(size=(512, 512)).astype(F))
    b.output(b.node("Gemm", x, w, output="y"), F, (1, 512))
    save(b.model(), "big.onnx")
    fill = "  weights: 2,097,152 bits fill "
    for board, code, where in (
            ("tangnano9k", 1, "128 of the 26 block RAMs of tangnano9k"),
            ("icebreaker", 0, "512 of the 30 block RAMs of icebreaker; 262,144 bytes a frame come from its memory "
                              "beside the FPGA"),
            ("ulx3s_85f", 0, "128 of the 208 block RAMs of ulx3s_85f")):
        done = cli("check", "big.onnx", "--hardware", "--board", board)
        assert (done.code, done.out.splitlines()[-1]) == (code, fill + where)


def test_a_board_alone_is_no_question(cli: Cli) -> None:
    save(small_network(), "s.onnx")
    said = cli.refuses("check", "s.onnx", "--board", "icebreaker")
    assert said == "--board must be given together with --hardware; see `hwflow check --help`"


def test_open_shapes_hide_nothing(cli: Cli) -> None:
    b = Builder()
    x = b.input("x", F, ("n", 3, "h", "w"))
    x = b.node("Conv", x, b.constant("w", ones(4, 3, 3, 3)), name="conv")
    x = b.node("Sin", x, name="wave")
    b.output(b.node("Conv", x, b.constant("v", ones(4, 4, 1, 1)), name="last", output="y"))
    save(b.model(), "o.onnx")
    done = cli("check", "o.onnx", "--hardware")
    assert done.code == 1
    assert done.out.splitlines()[-3:] == [
        "o.onnx: 2 of 3 nodes map to hardware:",
        "  the model: the shape of input 'x' must be known, not float32[n, 3, h, w]; give it with --input-shape "
        "x=1,3,32,32",
        "  'wave' (Sin): operator Sin has no hardware, and the host cannot run it because 'last' "
        "(Conv) follows; cut the model in front of it with `hwflow onnx extract MODEL front.onnx --to conv_out` and "
        "run the rest on the host",
    ]
    facts = cli("check", "o.onnx", "--hardware", "--input-shape", "x=1,3,10,10", "--json").json
    assert (facts["possible"], facts["problems"]) == (False, [])


def test_operators_that_hwflow_does_not_have() -> None:
    def model(*, typed: bool) -> Model:
        b = Builder()
        x = b.node("Conv", b.input("x", F, (1, 2, 4, 4)), b.constant("w", ones(2, 2, 1, 1)), name="conv", output="c")
        (y,) = b.nodes("Magic", x, domain="com.acme", outputs=["m"])
        b.output(b.node("LpNormalization", y, name="norm"), F, (1, 2, 4, 4))
        made = b.model(opsets={"com.acme": 4})
        return replace(made, graph=replace(made.graph, types={"m": made.graph.inputs[0].type} if typed else {}))

    found = mapped(model(typed=False), {})
    assert [node.fate for node in found.nodes] == [Fate.UNKNOWN, Fate.NONE, Fate.UNKNOWN]
    assert found.nodes[1].why == "hwflow has no operator com.acme.Magic of operator set 4"
    assert found.nodes[1].remedy == "write it with operators of ONNX, or as a function in the model"
    found = mapped(model(typed=True), {})
    assert [node.fate for node in found.nodes[:2]] == [Fate.HARDWARE, Fate.NONE]
    assert not found.possible


def test_a_name_that_an_identity_gives() -> None:
    """It is that of the node in front, which is on the host; the Identity is nowhere."""
    b = Builder()
    x = b.node("Gemm", b.input("x", F, (1, 4)), b.constant("w", ones(4, 3)), name="dense")
    x = b.node("Softmax", x, name="soft")
    b.output(b.node("Identity", b.node("Identity", x, name="same"), name="again", output="y"))
    found = mapped(b.model(), {})
    assert [node.fate for node in found.nodes] == [Fate.HARDWARE, Fate.HOST, Fate.CONSTANT, Fate.CONSTANT]


def test_functions_are_looked_into() -> None:
    body = (make_node("Sin", ["a"], ["b"], name="wave"),)
    b = Builder()
    x = b.node("Conv", b.input("x", F, (1, 2, 4, 4)), b.constant("w", ones(2, 2, 1, 1)), name="conv")
    (y,) = b.nodes("Pool", x, domain="acme", outputs=["y"])
    b.output(b.node("Conv", y, b.constant("v", ones(2, 2, 1, 1)), name="last"), F, (1, 2, 4, 4))
    model = replace(b.model(opsets={"acme": 1}), functions=(Function("Pool", "acme", ("a",), ("b",), body, {"": 17}),))
    (lost,) = mapped(model, {}).of(Fate.NONE)
    assert lost.operator == "Sin"


def test_a_function_that_calls_itself() -> None:
    endless = Function("F", "acme", ("a",), ("b",), (make_node("F", ["a"], ["b"], domain="acme"),), {"acme": 1})
    b = Builder()
    b.nodes("F", b.input("x", F, (1,)), domain="acme", outputs=["y"])
    b.output("y", F, (1,))
    found = mapped(replace(b.model(opsets={"acme": 1}), functions=(endless,)), {})
    assert not found.possible
    assert "must not call itself" in found.problems[0].why


def test_a_model_that_is_too_large_is_not_looked_at(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwflow.quantize.support.MAX_NODES", 4)
    save(broken(), "b.onnx")
    done = cli("check", "b.onnx", "--hardware")
    assert done.code == 1
    assert "  the model: a model that becomes hardware must have at most 4 nodes and " in done.out
    assert "'norm' (LRN): operator LRN has no hardware" in done.out


def test_a_file_with_errors(cli: Cli) -> None:
    model = small_network()
    bad = replace(model.graph, nodes=(*model.graph.nodes, replace(model.graph.nodes[0], name="again")))
    Path("bad.onnx").write_bytes(dumps(replace(model, graph=bad)))
    done = cli("check", "bad.onnx", "--hardware")
    assert done.code == 1
    assert done.out.startswith("error: ")
    Path("none.onnx").write_bytes(b"no model")
    assert cli.refuses("check", "none.onnx", "--hardware").startswith("none.onnx")


def test_names_cannot_write_on_the_terminal(cli: Cli) -> None:
    b = Builder()
    x = b.node("Conv", b.input("x", F, (1, 1, 4, 4)), b.constant("w", ones(1, 1, 1, 1)), name="c")
    x = b.node("Sin", x, name="\x1b[31mred\n[bold]")
    b.output(b.node("Conv", x, b.constant("v", ones(1, 1, 1, 1)), name="d"))
    Path("m.onnx").write_bytes(dumps(b.model()))
    done = cli("check", "m.onnx", "--hardware")
    assert r"  '\x1b[31mred\n[bold]' (Sin): " in done.out
    assert "\x1b" not in done.out


@pytest.mark.slow
def test_it_says_what_the_commands_do(models_dir: Path) -> None:
    """Of every third-party model: what quantizing refuses, and what has no stage, is what the check has said."""
    for path in sorted((models_dir / "models").glob("*.onnx")):
        found = mapped(load(path), {})
        assert_like_the_commands(path, found)


def assert_like_the_commands(path: Path, found: Mapped) -> None:
    pipeline = Pipeline(Console(quiet=True), Project(path))
    lost = {node.label for node in found.of(Fate.NONE)}
    try:
        quantized = quantize(pipeline.model)
    except NoHardware as refusal:
        assert not found.possible, path.name
        said = {problem.why for problem in refusal.problems}
        assert said <= {node.why for node in found.nodes} | {p.why for p in found.problems}, path.name
        return
    except HwflowError as error:
        why = str(error)
        assert any(why.startswith(problem.why) for problem in found.problems), path.name
        assert not found.possible, path.name
        return
    assert found.possible == (not hardware_problems(quantized.graph)), path.name
    assert found.graph is not None
    assert [layer.name for layer in found.graph.layers] == [layer.name for layer in quantized.graph.layers], path.name
    assert [layer.kind for layer in found.graph.layers] == [layer.kind for layer in quantized.graph.layers], path.name
    named = {line.split("'")[1] for line in hardware_problems(quantized.graph) if line.startswith("layer ")}
    assert {label.split("'")[1] for label in lost} == named, path.name
    programs = (quantized.prologue, quantized.epilogue)
    host = {(node.op_type, name) for p in programs for node in p.graph.nodes for name in node.outputs}
    host |= {("Scaler", name) for op, name in host if op in {"Sub", "Mul"}}  # what quantization writes for it
    nodes = inline_functions(pipeline.source).graph.nodes
    renamed = {node.inputs[0]: node.outputs[0] for node in nodes if node.op_type == "Identity"}
    for mapping, node in zip(found.nodes, nodes, strict=True):
        there = any((node.op_type, name) in host for k in node.outputs for name in (k, renamed.get(k)))
        assert there == (mapping.fate is Fate.HOST), (path.name, mapping)


def test_ranges_that_are_measured_at_run_time() -> None:
    """hwflow has no such operator, and its advice is that of the ones that it has."""
    b = Builder()
    (y,) = b.nodes("DynamicQuantizeLSTM", b.input("x", F, (5, 1, 4)), domain="com.microsoft", outputs=["y"])
    b.output(y, F, (5, 1, 1, 4))
    (node,) = mapped(b.model(opsets={"com.microsoft": 1}), {}).nodes
    assert node.remedy == ("give hwflow the float model, or quantize it statically: "
                           "onnxruntime.quantization.quantize_static in place of quantize_dynamic")
