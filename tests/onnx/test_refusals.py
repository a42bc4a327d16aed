"""What operators refuse: the tables of tests/onnx/forms/refused.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import evaluate, infer
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import Limits
from tests.onnx.forms.form import Case, case, draw, error_of, ints, real
from tests.onnx.forms.refused import BOTH, EVALUATED_ONLY, EXACT, HUGE, IMAGE, MOVING, NEWEST, STARTS, X

#: What would take too much memory or time is refused before it is made.
HOSTILE: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Tile", [X, ints(HUGE, HUGE)], {}),
    ("Expand", [X, ints(HUGE, 1, 1)], {}),
    ("Pad", [X, ints(0, 0, HUGE, 0)], {}),
    ("Pad", [X, ints(0, 0, -9, 0)], {}),
    ("Pad", [X, ints(0, 0, HUGE, 0)], {"mode": "wrap"}),
    ("CenterCropPad", [X, ints(HUGE, HUGE)], {}),
    ("OneHot", [ints(1), ints(HUGE), real(0, 1)], {}),
    ("OneHot", [ints(1), ints(-1), real(0, 1)], {}),
    ("Gather", [np.broadcast_to(X, (1 << 20, 2, 3)), np.broadcast_to(ints(0), (1 << 10,))], {"axis": 1}),
    ("Resize", [X, None, None, ints(HUGE, 1)], {}),
    ("Resize", [X, None, real(1, 1e30)], {}),
    ("Resize", [X, None, None, ints(1 << 20, 1 << 20)], {"mode": "linear"}),
    ("RoiAlign", [IMAGE, real(0, 0, 1e30, 1e30).reshape(1, 4), ints(0)], {}),
    ("RoiAlign", [IMAGE, real(0, 0, 1, 1).reshape(1, 4), ints(0)], {"sampling_ratio": HUGE}),
    ("RoiAlign", [IMAGE, real(0, 0, 1, 1).reshape(1, 4), ints(0)], {"output_height": HUGE}),
    ("MaxRoiPool", [IMAGE, real(0, 0, 0, 1, 1).reshape(1, 5)], {"pooled_shape": (HUGE, HUGE)}),
    ("AffineGrid", [X.reshape(1, 2, 3), ints(1, 1, HUGE, HUGE)], {}),
    ("GridSample", [np.zeros((1, 1, *(1,) * 40), np.float32), np.zeros((1, *(1,) * 40, 40), np.float32)], {}),
    ("MaxUnpool", [IMAGE, np.zeros((1, 1, 2, 2), np.int64)], {"kernel_shape": (1, 1), "strides": (HUGE, 1)}),
    ("Col2Im", [np.broadcast_to(np.False_, (1, 1, HUGE)), ints(1, HUGE), ints(1, 1)], {}),
    ("HannWindow", [np.array(2**40)], {}),
    ("DFT", [draw(1, 4, 1), np.array(2**40)], {}),
    ("Conv", [draw(1, 1, 4, 4), draw(1, 1, 1, 1)], {"pads": [10**9] * 4}),
    ("ConvTranspose", [draw(1, 1, 4, 4), draw(1, 1, 1, 1)], {"strides": [10**9] * 2}),
    ("ConvTranspose", [draw(1, 1, 4, 4), draw(1, 1, 1, 1)], {"output_shape": [10**9] * 2}),
    ("MaxPool", [draw(1, 1, 4, 4)], {"kernel_shape": [1, 1], "pads": [0, 0, 10**9, 10**9]}),
    ("AveragePool", [draw(1, 1, 4)], {"kernel_shape": [10**9], "pads": [10**9, 10**9]}),
    ("MaxPool", [draw(1, 1, 5)],
     {"kernel_shape": [2 * 10**7], "pads": [2 * 10**7] * 2, "strides": [2 * 10**7 - 1]}),
]  # fmt: skip

#: A node, and what is too much of it where a tensor has at most 1 MiB and the work is at most 10^7.
LIMITED: list[tuple[Case, str]] = [
    (case("Einsum", 12, *(draw(100) for _ in range(5)), equation="a,b,c,d,e->"), "work"),
    (case("Einsum", 12, *(draw(100) for _ in range(5)), equation="a,b,c,d,e->abcde"), "tensor_bytes"),
    (case("MatMul", 13, draw(1000, 1), draw(1, 1000)), "tensor_bytes"),
    (case("MatMul", 13, draw(300, 300), draw(300, 300)), "work"),
    (case("Gemm", 13, draw(300, 300), draw(300, 300)), "work"),
    (case("Add", 14, draw(1000, 1), draw(1, 1000)), "tensor_bytes"),
    (case("Where", 16, np.zeros((1000, 1), np.bool_), draw(1000), draw(1)), "tensor_bytes"),
    (case("ReduceMax", 20, np.zeros((0, 1 << 30), np.float32), np.array([0])), "tensor_bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "message"), EXACT + [(case(op, NEWEST, *inputs, attributes=how), message)
                                                      for op, inputs, how, message in MOVING])  # fmt: skip
def test_message(one: Case, message: str) -> None:
    assert error_of(one) == message


@pytest.mark.parametrize(("one", "message"), STARTS)
def test_start_of_a_message(one: Case, message: str) -> None:
    assert error_of(one).startswith(message)


@pytest.mark.parametrize(("op", "shape", "constants", "how", "message"), BOTH)
def test_evaluation_and_inference_refuse(op, shape, constants, how, message) -> None:
    one = case(op, 17, np.zeros(shape, np.float32), *constants, attributes=how, outputs=2 if op == "TopK" else 1,
               constants=tuple(range(1, len(constants) + 1)))  # fmt: skip
    assert error_of(one) == message
    if op not in EVALUATED_ONLY:
        with pytest.raises(HwflowError) as caught:
            infer(one.model()[0])
        assert str(caught.value) == f"graph/node[0] 'n' ({op}): {message}"


@pytest.mark.parametrize(("op", "inputs", "how"), HOSTILE)
def test_hostile_sizes(op: str, inputs: list[Any], how: dict[str, Any]) -> None:
    """Numbers in a file must not decide how much memory or time goes."""
    model, feeds = case(op, NEWEST, *inputs, attributes=how).model()
    with pytest.raises(HwflowError, match=r"^graph/node\[0\] 'n' ") as caught:
        evaluate(model, feeds)
    assert isinstance(caught.value, LimitError) or op == "Resize"


@pytest.mark.parametrize(("one", "limit"), LIMITED)
def test_too_much_is_refused_before_it_is_done(one: Case, limit: str) -> None:
    model, feeds = one.model()
    with pytest.raises(LimitError, match=rf"must be at most .*\({limit}\)"):
        evaluate(model, feeds, limits=Limits(tensor_bytes=1 << 20, work=10**7))
