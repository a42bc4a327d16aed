"""Every function of one element between two layers, from floats: its table gives what onnxruntime gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.net import Net
from tests.quantize.test_selections import check

#: With attributes; those of the second list only where a value is above 0.
ANYWHERE = [
    "Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Elu", "Selu", "Celu", "Softplus", "Softsign",
    "Erf", "Mish", "ThresholdedRelu", "Abs", "Neg", "Exp", "Floor", "Ceil", "Round", "Sign", "Gelu", "Atan", "Asinh",
    "Sinh", "Shrink",
]  # fmt: skip
POSITIVE = ["Sqrt", "Log", "Reciprocal"]


@pytest.mark.parametrize("op", [*ANYWHERE, *POSITIVE])
def test_between_layers(op: str) -> None:
    n = Net((3, 6, 6), opset=20)
    x = n.conv(n.x, 4, (3, 3))
    if op in POSITIVE:
        x = n.node("Add", n.relu(x), n.constant(0.5))
    kinds = check(n, n.conv(n.node(op, x), 3, (3, 3)))
    assert kinds == (["conv", "conv"] if op == "Relu" else ["conv", "lookup", "conv"])


def test_slopes_per_channel() -> None:
    n = Net((3, 6, 6))
    x = n.node("PRelu", n.conv(n.x, 4, (3, 3)), n.constant(np.array([0.1, -0.2, 0.5, 0.3]).reshape(4, 1, 1)))
    assert check(n, n.conv(x, 3, (3, 3))) == ["conv", "conv", "conv"]
