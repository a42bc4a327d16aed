"""Limits: each of them ends a run, says its name and the number, and can be raised."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.cli.entry import main
from hwflow.onnx import Model, evaluate, save
from hwflow.onnx.build import Builder, make_graph, make_model, make_node, tensor_type
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import Limits, Meter, parse_limits
from hwflow.onnx.model import Value

X = np.ones(1000, np.float32)


def chain(op: str, count: int, **attributes) -> Model:
    """Each node reads the one before, twice where it takes two inputs."""
    arity = 2 if op in ("Add", "Concat") else 1
    nodes = [make_node(op, [f"h{k}"] * arity, [f"h{k + 1}"], name=f"n{k}", **attributes) for k in range(count)]
    value = Value("h0", tensor_type(np.float32))
    return make_model(make_graph(nodes, [value], [Value(f"h{count}", None)]), opset=13)


def refused(model: Model, **limits) -> str:
    with pytest.raises(LimitError) as caught:
        evaluate(model, {"h0": X}, limits=Limits(**limits))
    return str(caught.value)


@pytest.mark.rule("LM-02")
@pytest.mark.parametrize(
    "model, limit, message",
    [
        (
            chain("Concat", 40, axis=0), {"tensor_bytes": 1 << 20},
            "graph/node[8] 'n8' (Concat): a tensor must be at most 1,048,576 bytes (tensor_bytes), "
            "not 2,048,000; if you trust the model, raise it with --limit tensor_bytes=2048000",
        ),
        (
            chain("Neg", 3), {"total_bytes": 6000},
            "graph/node[1] 'n1' (Neg): the tensors alive at one time must be at most 6,000 bytes (total_bytes), "
            "not 8,000; if you trust the model, raise it with --limit total_bytes=8000",
        ),
        (
            chain("Neg", 3), {"nodes": 2},
            "the model must have at most 2 nodes (nodes) with the bodies of the functions that it calls, not 3; "
            "if you trust the model, raise it with --limit nodes=NUMBER",
        ),
        (
            chain("Neg", 3), {"tensor_bytes": 3999},
            "graph/node[0] 'n0' (Neg): a tensor must be at most 3,999 bytes (tensor_bytes), "
            "not 4,000; if you trust the model, raise it with --limit tensor_bytes=4000",
        ),
    ],
)  # fmt: skip
def test_message(model, limit, message) -> None:
    assert refused(model, **limit) == message


@pytest.mark.rule("LM-02")
def test_doubling_is_refused_before_memory_is_taken() -> None:
    """2 ** 60 elements: nothing beyond the limit is allocated, and it takes no time."""
    started = time.monotonic()
    refused(chain("Concat", 60, axis=0), tensor_bytes=1 << 24)
    assert time.monotonic() - started < 5


@pytest.mark.rule("LM-02")
def test_long_chain_needs_the_memory_of_two_tensors() -> None:
    """Values behind their last use do not count."""
    assert evaluate(chain("Neg", 50), {"h0": X}, limits=Limits(total_bytes=8000))["h50"].shape == (1000,)


@pytest.mark.rule("LM-02")
def test_time() -> None:
    model = chain("Neg", 3)
    assert "the run must be at most 1e-09 seconds (seconds)" in refused(model, seconds=1e-9)


def test_meter_of_work() -> None:
    meter = Meter(Limits(work=100))
    meter.work(60, "first")
    with pytest.raises(LimitError, match=r"^second: the computation must be at most 100 mult.* \(work\), not 120"):
        meter.work(60, "second")


def test_meter_releases() -> None:
    meter = Meter(Limits(total_bytes=100))
    for _ in range(10):
        meter.hold(80, "x")
        meter.hold(-80, "x")
    with pytest.raises(LimitError, match="the dims must be 0 or more, not"):
        meter.tensor((2, -1), np.dtype(np.float32), "x")


def test_limits_of_the_command_line() -> None:
    assert parse_limits(["nodes=5", "seconds=0.5", "tensor_bytes=1e9"]) == Limits(
        nodes=5, seconds=0.5, tensor_bytes=10**9
    )
    for text in ("nodes", "nodes=", "nodes=-1", "nodes=nan", "seconds=inf", "what=3", "nodes=x"):
        with pytest.raises(HwflowError, match="--limit must be NAME=NUMBER with one of tensor_bytes, total_bytes"):
            parse_limits([text])


def test_command_line_takes_limits(tmp_path, capsys) -> None:
    b = Builder()
    b.output(b.node("Add", b.input("x", np.float32, (4,)), b.constant("w", np.ones(4, np.float32))), np.float32, (4,))
    save(b.model(), tmp_path / "m.onnx")
    for texts, code in ((["tensor_bytes=15"], 2), (["tensor_bytes=16"], 0), (["tensor_bytes=15", "nodes=3"], 2)):
        options = [word for text in texts for word in ("--limit", text)]
        with pytest.raises(SystemExit) as ended:
            main(["info", str(tmp_path / "m.onnx"), *options])
        assert ended.value.code == code
        assert ("raise it with --limit tensor_bytes=" in capsys.readouterr().err) is bool(code)
    with pytest.raises(SystemExit) as ended:
        main(["info", str(tmp_path / "m.onnx"), "--limit", "memory=1"])
    assert ended.value.code == 2
    assert "--limit must be NAME=NUMBER with one of tensor_bytes" in capsys.readouterr().err
