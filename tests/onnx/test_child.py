"""A child process answers, says what it raised, and is started again after a crash."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from hwflow import onnx
from tests.e2e.networks import rows_for, small_network
from tests.onnx.child import Child, Crashed, Failure, serve
from tests.onnx.forms.official import OfficialConverter
from tests.onnx.oracle import ChildOracle, Refused


def answer(question: str) -> str:
    if question == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if question == "leave":
        os._exit(3)
    if question == "raise":
        raise KeyError("why")
    return question.upper()


def test_answers_failures_and_crashes():
    with Child(__name__) as child:
        assert [child.ask("one"), child.ask("two")] == ["ONE", "TWO"]
        with pytest.raises(Failure, match=r"^KeyError: 'why'$"):
            child.ask("raise")
        for _ in range(2):
            with pytest.raises(Crashed):
                child.ask("crash")
            assert child.ask("again") == "AGAIN"
        with pytest.raises(RuntimeError, match=r"must answer, but it ended with exit code 3$"):
            child.ask("leave")


def test_a_child_that_cannot_start_is_no_crash():
    with Child("tests.onnx.nothing") as child, pytest.raises(RuntimeError, match=r"tests.onnx.nothing must answer"):
        child.ask("one")


def test_onnxruntime_and_the_official_converter_answer():
    model = small_network()
    feeds = {name: row[0] for name, row in rows_for(model, 1).items()}
    with ChildOracle() as oracle, OfficialConverter() as converter:
        (output,) = oracle.run(model, feeds)
        assert np.allclose(output, onnx.evaluate(model, feeds)[model.graph.outputs[0].name], atol=1e-5)
        with pytest.raises(Refused, match="'x'"):
            oracle.run(model, {})
        converted = converter.convert(onnx.dumps(model), 21)
        assert isinstance(converted, bytes)
        assert onnx.loads(converted).opsets[""] == 21
        assert "Error" in str(converter.convert(b"no model", 21))


if __name__ == "__main__":
    serve(answer)
