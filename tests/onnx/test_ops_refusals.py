"""What operators refuse: rows of a node, its inputs and the message; evaluation and inference say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import evaluate, infer
from hwflow.onnx.build import Builder
from tests.onnx.neural import draw


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


TOO_LARGE = ("a tensor must be at most 2,147,483,648 bytes (tensor_bytes), not {:,}; "
             "if you trust the model, raise it with --limit tensor_bytes={}")  # fmt: skip
CONV = (1, 3, 9, 8)
FILTERS = draw(4, 3, 3, 3)

#: Operator, the shape of its first input, constants behind it, attributes, message.
REFUSED: list[tuple[str, tuple[int, ...], list[np.ndarray], dict[str, Any], str]] = [
    ("Reshape", (2, 3), [ints(4, 2)], {}, "the new shape must keep 6 elements, not be [4, 2] for an input of [2, 3]"),
    ("Reshape", (2, 3), [ints(-1, -1)], {},
     "the new shape must keep 6 elements, not be [-1, -1] for an input of [2, 3]"),
    ("Squeeze", (2, 3), [ints(1)], {}, "the axes to remove must have 1 element, not the axes [1] of [2, 3]"),
    ("Gather", (2, 3), [ints(2)], {}, "the indices must be -2 to 1, not 2 to 2"),
    ("Slice", (2, 3), [ints(0), ints(1), ints(0), ints(0)], {},
     "starts, ends, axes and steps must be of equal number with steps other than 0, not [0], [1], [0], [0]"),
    ("Split", (2, 3), [ints(1, 2)], {}, "the parts must be 1 sizes that add up to 2, not [1, 2]"),
    ("Expand", (2, 3), [ints(4)], {}, "the shape must be one that [2, 3] broadcasts to, not [4]"),
    ("Expand", (1,), [ints(1 << 40)], {}, TOO_LARGE.format(4 << 40, 4 << 40)),
    ("Pad", (2,), [ints(0, 1 << 40)], {}, TOO_LARGE.format((4 << 40) + 8, (4 << 40) + 8)),
    ("MatMul", (2, 3), [draw(2, 3)], {}, "the matrices must fit together, not be [2, 3] and [2, 3]"),
    ("Gemm", (2, 3), [draw(2, 3)], {}, "the matrices must fit together, not be [2, 3] and [2, 3] before transA/B"),
    ("TopK", (2, 3), [ints(4)], {}, "k must be one number from 0 to 3, not 4"),
    ("Add", (2, 3), [draw(4)], {}, "the input shapes must fit together by broadcasting, not be [2, 3] and [4]"),
    ("PRelu", (2, 3), [draw(2, 1, 1)], {},
     "the slope must be broadcastable to [2, 3], not have the shape [2, 1, 1]"),
    ("Softmax", (2, 3), [], {"axis": 5}, "the axis must be -2 to 1, not 5; export the model again"),
    ("Conv", CONV, [draw(4, 2, 3, 3)], {},
     "1 groups must divide the channels, not input [1, 3, 9, 8] and weights [4, 2, 3, 3]"),
    ("Conv", CONV, [draw(4, 3, 3)], {},
     "input and weights must have the same rank of 3 or more, not be [1, 3, 9, 8] and [4, 3, 3]"),
    ("Conv", (1, 3, 2, 2), [FILTERS], {},
     "the kernel [3, 3] must fit into the padded input, not exceed its size [2, 2]"),
    ("Conv", CONV, [FILTERS], {"kernel_shape": [5, 5]},
     "'kernel_shape' must be that of the weights, [3, 3], not [5, 5]"),
    ("Conv", CONV, [FILTERS], {"pads": [1, 1]}, "'pads' must be 4 numbers of 0 or more, not [1, 1]"),
    ("Conv", CONV, [FILTERS], {"strides": [0, 1]}, "'strides' must be 2 numbers of 1 or more, not [0, 1]"),
    ("Conv", CONV, [FILTERS], {"auto_pad": "SAME"},
     "'auto_pad' must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not 'SAME'"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shape", "constants", "how", "message"), REFUSED)
def test_evaluation_and_inference_refuse(op, shape, constants, how, message) -> None:
    """Inference looks at no indices and not at the axis of Softmax; a convolution's attributes meet a rule first."""
    b = Builder()
    names = [b.constant(f"p{i}", constant) for i, constant in enumerate(constants)]
    outputs = [""] * (2 if op == "TopK" else 1)
    b.output(b.nodes(op, b.input("x", np.float32, shape), *names, outputs=outputs, name="n", **how)[0])
    model = b.model()
    for action in (lambda: evaluate(model, {"x": np.zeros(shape, np.float32)}), lambda: infer(model)):
        with pytest.raises(HwflowError) as caught:
            action()
        assert str(caught.value) == f"graph/node[0] 'n' ({op}): {message}"
        if op in ("Gather", "Softmax", "Conv"):
            break
