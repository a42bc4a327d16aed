"""Constants that a model computes and that are larger than a run may hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hwflow import onnx
from hwflow.onnx.build import Builder
from tests.e2e.command import Cli

SIZE = 80_000_000
LIMIT = ("graph/node[0] 'c' (ConstantOfShape): the constants that the model computes must take at most 256 MiB "
         "(folded_bytes), not 305; if you trust the model, raise it with --limit folded_bytes=320000000")


def save(shape_needs_it: bool) -> None:
    """A large constant, negated; its elements are a shape, or only an output is computed from it."""
    b = Builder()
    x = b.input("x", np.float32, (1, 1))
    large = b.node("ConstantOfShape", b.constant("s", np.array([SIZE], np.int64)), name="c")
    n = b.node("Neg", large, name="n")
    b.output(b.node("Expand", x, b.node("Cast", n, to=7)) if shape_needs_it else b.node("Add", x, n), np.float32)
    onnx.save(b.model(), Path("m.onnx"))


def test_an_error_where_shapes_follow_from_it(cli: Cli) -> None:
    save(shape_needs_it=True)
    done = cli("check", "m.onnx", "--json")
    assert (done.code, done.json["problem"], done.json["valid"]) == (1, LIMIT, False)
    assert "error: " in cli("check", "m.onnx").out


def test_a_warning_where_the_elements_are_not_needed(cli: Cli) -> None:
    save(shape_needs_it=False)
    done = cli("check", "m.onnx", "--json")
    assert (done.code, done.json["problem"], done.json["valid"]) == (0, LIMIT, True)
    assert "warning: graph/node[0] 'c' (ConstantOfShape)" in cli("check", "m.onnx").out
    assert cli.refuses("build", "m.onnx") == f"m.onnx: {LIMIT}"
