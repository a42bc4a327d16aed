"""Layers that are defined in integers, and what moves, joins, pools or rescales their results before ONNX has a tensor:
their deviation goes along, and no more than that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hwflow import onnx
from hwflow.layers.base import LayerGraph
from hwflow.layers.planes import Planes
from hwflow.layers.softmax import Softmax
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from hwflow.quantize.checks.meaning import MeaningChanged
from hwflow.quantize.settings import ActivationSettings, LayerSettings, QuantizationSettings
from tests.random_cases import covering

F = np.float32
ROWS, COUNT = 6, 8


class Net:
    """`x` is [1, ROWS, count]."""

    def __init__(self) -> None:
        self.b, self.rng = Builder("deviations"), np.random.default_rng(5)
        self.x = self.b.input("x", F, (1, ROWS, COUNT))
        # A layer in front: what only the host's part reads would be the host's.
        self.x = self.node("MatMul", self.constant(self.rng.normal(0, 0.4, (COUNT, COUNT))))

    def constant(self, value: object, dtype: type = F) -> str:
        return self.b.constant(f"c{self.rng.integers(1 << 40)}", np.asarray(value, dtype))

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def node(self, op: str, *rest: str, **attributes: object) -> str:
        return self.b.node(op, self.x, *rest, **attributes)

    def softmax(self, factor: float = 3.0) -> str:
        return self.b.node("Softmax", self.node("Mul", self.constant(factor)), axis=-1)

    def layer_norm(self) -> str:
        scales = (self.constant(np.linspace(0.5, 3, COUNT)), self.constant(np.linspace(-1, 1, COUNT)))
        return self.node("LayerNormalization", *scales, axis=-1)

    def recurrent(self, op: str = "GRU") -> str:
        hidden, gates = COUNT // 2, {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
        w, r = (self.constant(self.rng.normal(0, 0.8, (2, gates * hidden, size))) for size in (COUNT, hidden))
        turned = self.node("Transpose", perm=(1, 0, 2))
        y = self.b.nodes(op, turned, w, r, outputs=("", ""), direction="bidirectional", hidden_size=hidden)[0]
        return self.b.node("Reshape", self.b.node("Transpose", y, perm=(2, 0, 1, 3)), self.ints(1, ROWS, COUNT))


DEVIATING: dict[str, Callable[[Net], str]] = {
    "softmax": Net.softmax, "layer_norm": Net.layer_norm, "gru": Net.recurrent,
    "lstm": lambda net: net.recurrent("LSTM"), "rnn": lambda net: net.recurrent("RNN"),
}  # fmt: skip


def joined(net: Net, make: Callable[[Net], str]) -> None:
    net.x = net.b.node("Concat", make(net), net.node("Tanh"), axis=2)


def both(net: Net, make: Callable[[Net], str]) -> None:
    """Two of them in one tensor, whose scale is neither's."""
    net.x = net.b.node("Concat", make(net), net.b.node("Mul", make(net), net.constant(0.3)), axis=2)


def apart(net: Net, make: Callable[[Net], str]) -> None:
    net.x = make(net)


FIRST = {"alone": apart, "joined": joined, "both": both}
THEN: dict[str, Callable[[Net], None]] = {
    "nothing": lambda net: None,
    "turned": lambda net: setattr(net, "x", net.node("Transpose", perm=(0, 2, 1))),
    "row": lambda net: setattr(net, "x", net.node("Reshape", net.ints(1, 1, -1))),
    "cut": lambda net: setattr(net, "x", net.node("Slice", net.ints(1), net.ints(5), net.ints(2))),
    "padded": lambda net: setattr(net, "x", net.node("Pad", net.ints(0, 1, 0, 0, 1, 0))),
    "leaky": lambda net: setattr(net, "x", net.node("LeakyRelu", alpha=0.3)),
    "pooled": lambda net: setattr(net, "x", net.node("MaxPool", kernel_shape=[2])),
    "mean": lambda net: setattr(net, "x", net.node("AveragePool", kernel_shape=[3])),
    "scaled": lambda net: setattr(net, "x", net.node("Mul", net.constant(2.5))),
    "twice": lambda net: setattr(net, "x", net.b.node("Concat", net.x, net.node("Neg"), axis=1)),
}  # fmt: skip


def network(deviating: str, first: str, then: tuple[str, ...], elements: int = 0) -> Model:
    """With a product of all elements at the end, so that all before it is hardware."""
    net = Net()
    FIRST[first](net, DEVIATING[deviating])
    for name in then:
        THEN[name](net)
    net.x = net.node("Flatten", axis=1)
    if elements:
        net.x = net.node("Gemm", net.constant(net.rng.normal(0, 0.3, (elements, 3))))
    net.b.output(net.x, F)
    model = onnx.infer(net.b.model(opset=17))
    if elements:
        return model
    (result,) = model.graph.outputs
    assert result.tensor is not None
    assert result.tensor.shape is not None
    return network(deviating, first, then, int(result.tensor.shape[1] or 0))


def rows(count: int = 12) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(0, 1, (count, 1, ROWS, COUNT)).astype(F)}


@pytest.mark.quick(30)
@pytest.mark.parametrize(
    ("deviating", "first", "one", "two"), covering(list(DEVIATING), list(FIRST), list(THEN), list(THEN))
)
def test_chains_behind_every_layer_with_a_deviation(deviating: str, first: str, one: str, two: str) -> None:
    quantize(network(deviating, first, (one, two)), rows())


@pytest.mark.parametrize("bits", [4, 10, 12])
def test_in_other_widths(bits: int) -> None:
    """Deviations of many steps, of results with many bits."""
    settings = QuantizationSettings(LayerSettings(output=ActivationSettings(bits)))
    for deviating in ("softmax", "layer_norm"):
        quantize(network(deviating, "both", ("turned",)), rows(), settings=settings)


@pytest.mark.parametrize("first", list(FIRST))
def test_more_than_the_deviation_is_caught_behind_a_chain(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Softmax.compute

    def broken(self: Softmax, graph: LayerGraph, *inputs: Planes) -> Planes:
        return np.asarray(compute(replace(self, numerator=self.numerator * 3 // 4), graph, *inputs))

    monkeypatch.setattr(Softmax, "compute", broken)
    with pytest.raises(MeaningChanged, match="differs in"):
        quantize(network("softmax", first, ("turned",)), rows())
