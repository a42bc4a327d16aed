"""IF: one of two subgraphs."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array
from tests.tflite import runtimes
from tests.tflite.writer import Maker


def branches(*, then_graph: int = 1, inside: int = 0) -> bytes:
    """y = -relu(x) where z > 0, else relu(x) + z."""
    m = Maker()
    then, otherwise = m.subgraph("then"), m.subgraph("else")
    x, z, r, y = (m.tensor(name, [2, 2], "FLOAT32") for name in ("x", "z", "r", "y"))
    condition = m.tensor("condition", [], "BOOL")
    axes = m.tensor("axes", [2], "INT32", [0, 1])
    most = m.tensor("most", [], "FLOAT32")
    zero = m.tensor("zero", [], "FLOAT32", np.float32(0))
    m.operator("RELU", [x], [r])
    m.operator("REDUCE_MAX", [z, axes], [most], "ReducerOptions")
    m.operator("GREATER", [most, zero], [condition])
    m.operator("IF", [condition, r, z], [y], "IfOptions", {"then_graph": then_graph, "else_graph": 2})
    a, b, c = (then.tensor(name, [2, 2], "FLOAT32") for name in ("x", "z", "y"))
    then.operator("NEG", [a], [c])
    if inside:
        k = then.tensor("true", [], "BOOL", [True])
        then.operators.clear()
        then.operator("IF", [k, a, b], [c], "IfOptions", {"then_graph": inside, "else_graph": 2})
    d, e, f = (otherwise.tensor(name, [2, 2], "FLOAT32") for name in ("x", "z", "y"))
    otherwise.operator("ADD", [d, e], [f], "AddOptions")
    return m.file([x, z], [y], then.fields([a, b], [c]), otherwise.fields([d, e], [f]))


def rows() -> list[list[Array]]:
    rng = np.random.default_rng(0)
    return [[rng.normal(0, 1, (2, 2)).astype(np.float32), (sign * np.abs(rng.normal(0, 1, (2, 2)))).astype(np.float32)]
            for sign in (-1, 1, -1)]


def test_the_branch_that_the_condition_says() -> None:
    model = hwflow.onnx.loads(branches())
    for x, z in rows():
        (found,) = hwflow.onnx.evaluate(model, {"x": x, "z": z}).values()
        relu = np.maximum(x, 0)
        assert np.array_equal(found, -relu if z.max() > 0 else relu + z)


def test_litert_has_the_same() -> None:
    model = hwflow.onnx.loads(branches())
    for (x, z), (expected,) in zip(rows(), runtimes.run(runtimes.LITERT, branches(), rows()), strict=True):
        (found,) = hwflow.onnx.evaluate(model, {"x": x, "z": z}).values()
        assert np.array_equal(found, expected)


def test_branches_in_branches_are_counted() -> None:
    """Each of 7 subgraphs calls the next one twice as both branches: 4 ** 7 of them."""
    m = Maker()
    graphs = [m, *(m.subgraph(f"g{k}") for k in range(1, 8))]
    ends = []
    for k, graph in enumerate(graphs):
        x, condition = graph.tensor("x", [1], "FLOAT32"), graph.tensor("true", [], "BOOL", [True])
        for _ in range(2):
            y = graph.tensor("y", [1], "FLOAT32")
            if k == 7:
                graph.operator("NEG", [x], [y])
            else:
                graph.operator("IF", [condition, x], [y], "IfOptions", {"then_graph": k + 1, "else_graph": k + 1})
            x = y
        ends.append(graph.fields([0], [x]))
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.loads(m.file([0], [3], *ends[1:]), limits=Limits(inlined_nodes=2_000))
    assert "all branches must have at most 2,000 operators (inlined_nodes), not more" in str(caught.value)


@pytest.mark.parametrize("options", [{"then_graph": 0}, {"then_graph": 3}, {"inside": 1}])
def test_calls_without_an_end_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.loads(branches(**options))
    assert "must call one of the 3 subgraphs after the first, at most 8 deep, not" in str(caught.value)
