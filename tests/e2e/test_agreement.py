"""`check`, `check --hardware` and `quantize` say the same of a model: how many nodes run where, whether it becomes
integers, why not, and which command comes next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.inference import infer_types
from hwflow.onnx.model import Model
from tests.e2e.command import Cli
from tests.e2e.networks import residual, small_network
from tests.quantize.catalogue_cases import CASES
from tests.quantize.recurrent_models import apart
from tests.random_cases import seeds
from tests.strategies.classical import classical_model

F = np.float32
#: What both checks must say alike.
ALIKE = ("possible", "complete", "counts", "nodes", "notes", "problems", "layers", "findings", "valid", "warnings")


#: A function behind sums is one layer with them or two, which depends on ranges, and `check` assumes these.
SUMS = ".sums"


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(F)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)


def save(model: Model, path: Path) -> None:
    """With the types of all outputs, without which a file is none that follows the rules."""
    types, graph = infer_types(model), model.graph
    outputs = tuple(replace(value, type=types[value.name] or value.type) for value in graph.outputs)
    onnx.save(replace(model, graph=replace(graph, outputs=outputs)), path)


def assert_agree(cli: Cli, path: Path, *words: str | Path) -> bool:
    """The three commands say the same of the model; whether it becomes hardware."""
    checked, hardware = (cli("check", path, *words, *more, "--json") for more in ((), ("--hardware",)))
    assert {name: checked.json[name] for name in ALIKE} == {name: hardware.json[name] for name in ALIKE}, path.name
    facts, possible = hardware.json, bool(hardware.json["possible"])
    assert (checked.code, hardware.code) == (0, 0 if possible else 1), path.name
    quantized = cli("quantize", path, *words, "--json")
    assert quantized.code == (0 if possible else 2), (path.name, quantized)
    if possible:
        names = [layer["layer"] for layer in quantized.json["layers"]], facts["layers"]
        found, said = ([name for name in listed if not name.endswith(SUMS)] for listed in names)
        assert found == said, path.name
        assert facts["counts"]["none"] == facts["counts"]["unknown"] == 0
    else:
        said = " ".join(quantized.message.split())
        reasons = [each["why"] for each in (*facts["nodes"], *facts["problems"]) if each["why"]]
        assert reasons, path.name
        assert all(" ".join(why.split()) in said for why in reasons), (path.name, reasons, said)
    return possible


def assert_next(cli: Cli, path: Path, possible: bool) -> None:
    """Warnings that are counted are listed; the next command is said where the model becomes hardware, and takes it."""
    for words in ((), ("--hardware",)):
        done = cli("check", path, *words)
        warnings = sum(line.startswith("warning: ") for line in done.out.splitlines())
        counted = cli("check", path, "--json").json["warnings"]
        assert warnings == counted, done.out
        assert f", {counted or 'no'} warning" in done.out
        assert (f"next: hwflow sim {path}" in done.out + done.err) == possible, done


def node(op: str, *shape: int, **attributes: object) -> Callable[[], Model]:
    def make() -> Model:
        b = Builder("one")
        b.output(b.node(op, b.input("x", F, shape), name="alone", **attributes))
        return b.model(opset=18)

    return make


def chain(*operators: str) -> Callable[[], Model]:
    """Operators of one operand between two convolutions; the last part of the file is not read by anybody."""
    def make() -> Model:
        b = Builder("chain")
        x = b.node("Conv", b.input("x", F, (1, 4, 6, 6)), b.constant("w", numbers(4, 4, 3, 3)), name="first")
        for op in operators:
            x = b.node(op, x, name=op.lower())
        b.node("Exp", x, name="unread")
        b.output(b.node("Conv", x, b.constant("v", numbers(2, 4, 1, 1)), name="last"))
        return b.model(opset=18)

    return make


def heads() -> Model:
    """Two outputs, one behind another, and parts on the host at both ends."""
    b = Builder("heads")
    x = b.node("Transpose", b.input("x", F, (1, 6, 6, 4)), name="turn", perm=(0, 3, 1, 2))
    x = b.node("Relu", b.node("Conv", x, b.constant("w", numbers(4, 4, 3, 3)), name="conv"), name="relu")
    b.output(x, F, (1, 4, 4, 4))
    x = b.node("Gemm", b.node("Flatten", x, name="flat"), b.constant("g", numbers(64, 3)), name="fc")
    b.output(b.node("Softmax", x, name="soft"), F, (1, 3))
    b.output(b.node("ArgMax", x, name="best", axis=1), np.int64, (1, 1))
    return b.model(opset=18)


def logarithms() -> Model:
    """A function of sums that are above 0 in every row, and that no assumed range knows."""
    b = Builder("logarithms")
    x = b.node("Conv", b.input("x", F, (1, 4, 6, 6)), b.constant("w", numbers(4, 4, 1, 1)), name="conv")
    x = b.node("ReduceLogSum", b.node("Abs", x, name="abs"), b.constant("axes", np.array([2, 3], np.int64)),
               name="log", keepdims=1)
    b.output(b.node("Conv", x, b.constant("v", numbers(2, 4, 1, 1)), name="last"))
    return b.model(opset=18)


def halves() -> Model:
    b = Builder("halves")
    x = b.node("Conv", b.input("x", np.float16, (1, 4, 6, 6)), b.constant("w", numbers(4, 4, 3, 3).astype(np.float16)),
               name="conv")
    b.output(b.node("Relu", x, name="relu"))
    return b.model(opset=18)


def unnamed() -> Model:
    model = residual()
    return replace(model, graph=replace(model.graph, nodes=tuple(replace(n, name="") for n in model.graph.nodes)))


def untrained() -> Model:
    b = Builder("infinite")
    w = numbers(4, 4, 3, 3)
    w[0, 1, 2, 2] = np.inf
    b.output(b.node("Conv", b.input("x", F, (1, 4, 6, 6)), b.constant("w", w), name="conv"))
    return b.model(opset=18)


MODELS: dict[str, tuple[Callable[[], Model], bool]] = {
    "small": (small_network, True), "residual": (residual, True), "unnamed": (unnamed, True), "heads": (heads, True),
    "state": (lambda: apart("LSTM"), True), "halves": (halves, True), "logarithms": (logarithms, True),
    "trees": (lambda: classical_model("TreeEnsembleClassifier", np.random.default_rng(2)), True),
    "activations": (chain("Relu", "Sigmoid", "Tanh"), True),
    "two refused": (chain("Sin", "Cos"), False), "no layer": (node("Sin", 1, 4), False),
    "host alone": (node("Softmax", 1, 4), False), "no weights": (node("GlobalAveragePool", 1, 2, 4, 4), True),
    "open": (node("Relu", 1, 0), False), "batch": (node("GlobalAveragePool", 3, 2, 4, 4), False),
    "infinite": (untrained, False), "rank": (node("GlobalAveragePool", 2, 3, 4, 5, 6), False),
}


@pytest.mark.quick(8)
@pytest.mark.parametrize("name", MODELS)
def test_small_models_of_all_sorts(cli: Cli, name: str) -> None:
    make, expected = MODELS[name]
    path = Path("m.onnx")
    save(make(), path)
    assert assert_agree(cli, path) == expected
    assert_next(cli, path, expected)


@pytest.mark.parametrize(("state", "message"), [
    ("h0=cn", "--state h0=cn must name an output that gives the next value of 'h0', the Y_h of 'cell' (LSTM) in "
              "the same places, and this one does not; export the model with that output, or with a constant initial "
              "state"),
    ("x=hn", "--state x=hn must name an input and an output of the same type and shape, not float32 [3, 1, 5] and "
             "float32 [1, 1, 6]"),
    ("h0=none", "--state h0=none must name an output of the model: hn, cn, out"),
])
def test_a_wrong_pair_of_states_is_refused_alike(cli: Cli, state: str, message: str) -> None:
    onnx.save(apart("LSTM"), "m.onnx")
    for command in (("check",), ("check", "--hardware"), ("quantize",), ("build",)):
        assert cli.refuses(command[0], "m.onnx", *command[1:], "--state", state) == f"m.onnx: {message}"
    done = cli("check", "m.onnx", "--hardware", "--state", "h0=hn", "--state", "c0=cn")
    assert done.code == 0
    assert "next: hwflow sim m.onnx --state h0=hn --state c0=cn" in done.out + done.err


UNARY = ("Relu", "Sigmoid", "Tanh", "Neg", "Exp", "Abs", "Identity", "Softmax", "Softplus", "Sin", "Cos", "LRN",
         "Round")


def random_graph(rng: np.random.Generator) -> Model:
    """Convolutions, sums and functions with and without hardware in any order, some of which nobody reads, and one to
    three outputs anywhere."""
    b = Builder("random")
    made, w = [b.input("x", F, (1, 4, 5, 5))], b.constant("w", numbers(4, 4, 1, 1))
    for number in range(int(rng.integers(1, 9))):
        x, op = str(rng.choice(made)), str(rng.choice(["Conv", "Add", *UNARY], p=[0.3, 0.1, *[0.6 / 13] * 13]))
        inputs = {"Conv": (x, w), "Add": (x, str(rng.choice(made)))}.get(op, (x,))
        made.append(b.node(op, *inputs, name=f"n{number}", **({"size": 3} if op == "LRN" else {})))
    for name in rng.choice(made[1:], min(len(made) - 1, int(rng.integers(1, 4))), replace=False):
        b.output(str(name), F, (1, 4, 5, 5))
    return b.model(opset=18)


@seeds(range(3), range(3, 60))
def test_random_graphs(cli: Cli, seed: int) -> None:
    path = Path("r.onnx")
    onnx.save(random_graph(np.random.default_rng(seed)), path)
    assert_next(cli, path, assert_agree(cli, path))


@pytest.mark.parametrize("block", [pytest.param(k, marks=[pytest.mark.slow] if k else []) for k in range(12)])
def test_every_operator_between_layers(cli: Cli, block: int) -> None:
    """A twelfth of the operators that have hardware, each in its small models."""
    chosen = list(CASES.items())[block::12]
    for (domain, op), cases in chosen:
        for number, case in enumerate(cases):
            path = Path(f"{domain}.{op}.{number}.onnx")
            save(case.model(), path)
            assert assert_agree(cli, path), path


#: Third-party models that take seconds.
QUICK = ("cancer_gb", "digits_cnn_int8_qdq", "digits_mlp", "qonnx_tfc_1w2a", "wine_logreg_scaler")


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_third_party_models(cli: Cli, models_dir: Path, quick: bool) -> None:
    """Each with the data that the manifest names."""
    models = yaml.safe_load((models_dir / "manifest.yaml").read_text())["models"]
    chosen = [model for model in models if (model["id"] in QUICK) == quick]
    assert chosen
    for model in chosen:
        words = ["--data", models_dir / model["data"]] if "data" in model else []
        assert_agree(cli, models_dir / model["file"], *words)
