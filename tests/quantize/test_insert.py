"""Which tensors become integers, and that the QDQ model says it in standard ONNX: checked with onnxruntime alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.layers.formats import BIPOLAR, IntFormat
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Array, Model
from hwflow.quantize import quantize
from hwflow.quantize.calibrate.activations import ActivationForm, activation_form
from hwflow.quantize.calibrate.insert import insert_quantizers
from hwflow.quantize.calibrate.points import common_ranges, points
from hwflow.quantize.calibrate.weights import WeightForm, weight_form
from hwflow.quantize.post_training import FLOAT_PASSES, to_qdq
from hwflow.quantize.settings import ActivationSettings, LayerSettings, QuantizationSettings, WeightSettings
from hwflow.quantize.settings_file import settings_from_yaml
from tests.quantize.models import kinds, rows, runtime


class Net:
    """Builds float graphs with branches: every method takes and gives tensors; nodes are named like their results."""

    def __init__(self, shape: tuple[int, ...] = (1, 4, 8, 8)) -> None:
        self.rng, self.b, self.count = np.random.default_rng(1), Builder("net"), 0
        self.x = self.b.input("x", np.float32, shape)

    def c(self, value: Array | float) -> str:
        self.count += 1
        return self.b.constant(f"c{self.count}", np.asarray(value, np.float32))

    def do(self, op: str, *inputs: str, name: str = "", **attributes: object) -> str:
        self.count += 1
        name = name or f"{op.lower()}{self.count}"
        return self.b.node(op, *inputs, name=name, output=name, **attributes)

    def conv(self, x: str, cout: int = 4, cin: int = 4, name: str = "", kernel: int = 3) -> str:
        w = self.rng.standard_normal((cout, cin, kernel, kernel)) / np.sqrt(cin * kernel * kernel)
        pads = (kernel // 2,) * 4
        return self.do("Conv", x, self.c(w), self.c(0.1 * self.rng.standard_normal(cout)), name=name, pads=pads)

    def model(self, *outputs: str) -> Model:
        for name in outputs:
            self.b.output(name)
        return onnx.infer(self.b.model(opset=13))


def residual(n: Net) -> list[str]:
    y = n.do("Relu", n.conv(n.x, name="a"), name="r")
    z = n.do("Relu", n.do("Add", y, n.conv(y, name="b"), name="sum"), name="end")
    return [n.conv(z, name="last")]


def swish(n: Net) -> list[str]:
    y = n.conv(n.x, name="a")
    return [n.conv(n.do("Mul", y, n.do("Sigmoid", y), name="swish"), name="last")]


def hard_swish(n: Net) -> list[str]:
    y = n.conv(n.x, name="a")
    gate = n.do("Clip", n.do("Add", y, n.c(3)), n.c(0), n.c(6))
    return [n.conv(n.do("Div", n.do("Mul", y, gate), n.c(6), name="swish"), name="last")]


def gate_with_two_readers(n: Net) -> list[str]:
    y = n.conv(n.x, name="a")
    gate = n.do("Sigmoid", y, name="gate")
    return [n.do("Add", n.conv(gate, name="b"), n.conv(n.do("Mul", y, gate, name="joined"), name="c"), name="sum")]


def swish_at_the_end(n: Net) -> list[str]:
    y = n.conv(n.x, name="a")
    return [n.do("Mul", y, n.do("Sigmoid", y))]


def concat(n: Net) -> list[str]:
    y = n.conv(n.x, name="a")
    pooled = n.do("MaxPool", y, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    joined = n.do("Concat", pooled, n.do("Relu", n.conv(n.x, name="b"), name="r"), name="cat", axis=1)
    return [n.conv(joined, 3, 8, name="last")]


def relu_behind_concat(n: Net) -> list[str]:
    joined = n.do("Concat", n.conv(n.x, name="a"), n.conv(n.x, name="b"), name="cat", axis=1)
    return [n.conv(n.do("Relu", joined, name="r"), 3, 8, name="last")]


def two_outputs(n: Net) -> list[str]:
    y = n.conv(n.x, name="a")
    return [y, n.conv(n.do("Relu", y, name="r"), name="b")]


def input_in_two_ways(n: Net) -> list[str]:
    half = n.do("Div", n.x, n.c(2), name="half")
    return [n.do("Add", n.conv(n.x, name="a"), n.conv(half, name="b"), name="sum")]


def input_read_later(n: Net) -> list[str]:
    half = n.do("Div", n.x, n.c(2), name="half")
    return [n.do("Add", n.conv(half, name="b"), n.conv(n.x, name="a"), name="sum")]


def slopes_behind_a_join(n: Net) -> list[str]:
    total = n.do("Add", n.x, n.conv(n.x, name="a"), name="sum")
    return [n.conv(n.do("PRelu", total, n.c([[[0.1]], [[0.2]], [[0.3]], [[0.4]]]), name="p"), name="last")]


def squeeze(n: Net) -> list[str]:
    y = n.do("Relu", n.conv(n.x, name="a"), name="r")
    s = n.do("Sigmoid", n.conv(n.do("GlobalAveragePool", y, name="mean"), kernel=1, name="b"), name="s")
    return [n.conv(n.do("Mul", y, s, name="scaled"), name="last")]


def softmax_of_join(n: Net) -> list[str]:
    m = n.do("GlobalAveragePool", n.do("Add", n.x, n.conv(n.x, name="a"), name="sum"), name="mean")
    return [n.do("Softmax", n.do("Flatten", m))]


def slopes(n: Net) -> list[str]:
    y = n.do("PRelu", n.conv(n.x, name="a"), n.c([[[0.1]], [[0.2]], [[0.3]], [[0.4]]]), name="p")
    return [n.conv(n.do("PRelu", y, n.c(0.25), name="q"), name="last")]


def negative_slopes(n: Net) -> list[str]:
    slopes = n.c([[[0.1]], [[-0.2]], [[1.5]], [[-0.4]]])
    y = n.do("PRelu", n.conv(n.x, name="a"), slopes, name="p")
    pooled = n.do("MaxPool", y, kernel_shape=(2, 2), strides=(2, 2))
    flat = n.do("Flatten", n.do("PRelu", pooled, slopes, name="q"), name="flat")
    fc = n.do("Gemm", flat, n.c(0.1 * n.rng.standard_normal((64, 3))), n.c([1, 2, 3]), name="fc")
    y = n.do("PRelu", fc, n.c([0.5, -1, 0.2]), name="s")
    return [n.do("Gemm", y, n.c(n.rng.standard_normal((3, 3))), n.c([1, 2, 3]), name="last")]


GRAPHS: dict[str, tuple[Callable[[Net], list[str]], list[str], list[tuple[str, ...]]]] = {
    "residual": (residual, ["x:x", "r:a", "b:b", "end:sum", "last:last"], []),
    "swish": (swish, ["x:x", "a:a", "swish:swish", "last:last"], []),
    "hard swish": (hard_swish, ["x:x", "a:a", "swish:swish", "last:last"], []),
    "a gate with two readers": (
        gate_with_two_readers,
        ["x:x", "a:a", "gate:gate", "b:b", "joined:joined", "c:c", "sum:sum"],
        [],
    ),
    "swish at the end": (swish_at_the_end, ["x:x", "a:a"], []),
    "concat": (concat, ["x:x", "a:a", "r:b", "cat:cat", "last:last"], [("a", "r", "cat")]),
    "relu behind concat": (
        relu_behind_concat,
        ["x:x", "a.Relu:a", "b.Relu:b", "r:cat", "last:last"],
        [("a.Relu", "b.Relu", "r")],
    ),
    "two outputs": (two_outputs, ["x:x", "a:a", "r:r", "b:b"], []),
    "input in two ways": (input_in_two_ways, ["x:x", "a:a", "half:half", "b:b", "sum:sum"], []),
    "input read later": (input_read_later, ["x:x", "a:a", "half:half", "b:b", "sum:sum"], []),
    "slopes behind a join": (
        slopes_behind_a_join,
        ["x:x", "a:a", "sum:sum", "p.positive:p.both", "p:p", "last:last"],
        [],
    ),
    "squeeze and excite": (squeeze, ["x:x", "r:a", "mean:mean", "b:b", "s:s", "scaled:scaled", "last:last"], []),
    "softmax of a join": (softmax_of_join, ["x:x", "a:a", "sum:sum", "mean:mean"], []),
    "negative slopes": (
        negative_slopes,
        ["x:x", "p.positive:a", "p:p", "q.positive:q.both", "q:q", "s.positive:fc", "s:s", "last:last"],
        [],
    ),
    "slopes": (slopes, ["x:x", "p:a", "q:q", "last:last"], []),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_points(name: str) -> None:
    build, expected, groups = GRAPHS[name]
    n = Net()
    model = n.model(*build(n))
    for step in FLOAT_PASSES:
        model = step.run(model)
    found = points(model)
    assert sorted(f"{point.tensor}:{point.owner}" for point in found) == sorted(expected)
    assert [set(group) for group in common_ranges(model, found)] == [set(group) for group in groups]
    assert [point.owner for point in found if point.is_input] == ["x"]
    assert any(point.is_scores for point in found) == (name == "softmax of a join")


def settings_of(weights: int, activations: int, symmetric: bool = False) -> QuantizationSettings:
    output = ActivationSettings(activations, symmetric)
    return QuantizationSettings(LayerSettings(WeightSettings(weights), output), inputs={"x": ActivationSettings()})


@pytest.mark.parametrize("name", GRAPHS)
def test_passes_keep_the_meaning_of_reals(name: str) -> None:
    n = Net()
    model = changed = n.model(*GRAPHS[name][0](n))
    for step in FLOAT_PASSES:
        changed = step.run(changed)
    feeds = rows(model, 4)
    np.testing.assert_allclose(runtime(changed, feeds), runtime(model, feeds), rtol=1e-4, atol=1e-5)


@pytest.mark.quick(12)
@pytest.mark.parametrize("weights, activations, symmetric", [(8, 8, False), (1, 3, True)])
@pytest.mark.parametrize("name", GRAPHS)
def test_integers_are_what_onnxruntime_computes(name: str, weights: int, activations: int, symmetric: bool) -> None:
    n = Net()
    model = n.model(*GRAPHS[name][0](n))
    quantized = quantize(model, rows(model, 10, seed=2), settings=settings_of(weights, activations, symmetric))
    if weights == 8:
        again = quantize(model, settings=settings_from_yaml(quantized.settings, "q.yaml", model))
        assert again.graph == quantized.graph
    feeds = rows(model, 4)
    found = golden.predict(quantized, feeds)[model.graph.outputs[0].name]
    expected = runtime(quantized.qdq, feeds)
    assert np.mean(np.abs(found - expected) <= 1e-4 * np.abs(expected).max()) > 0.98  # a step is some 0.01 of that
    assert quantize(quantized.qdq).graph == quantized.graph


@pytest.mark.quick(15)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_with_branches_keep_their_meaning(name: str, symmetric: bool) -> None:
    n = Net()
    model = n.model(*GRAPHS[name][0](n))
    notes: list[str] = []
    made = to_qdq(model, rows(model, 50, seed=2), settings_of(8, 8, symmetric), notes, None)
    feeds = rows(model, 8)
    expected, found = runtime(model, feeds), runtime(made.qdq, feeds)
    assert np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)) < 0.08
    assert notes == []
    known = {value.name for value in made.twin.graph.inputs} | {t for n in made.twin.graph.nodes for t in n.outputs}
    assert set(made.sources.values()) <= known
    for node in made.qdq.graph.nodes:
        if node.op_type == "QuantizeLinear":
            assert made.sources[node.inputs[0]] == made.sources[node.outputs[0]]


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("symmetric", [False, True])
def test_every_width_is_standard_onnx(bits: int, symmetric: bool) -> None:
    """The integers that onnxruntime sees are those of the form, and no others."""
    n = Net()
    model = n.model(n.conv(n.x, name="a"))
    conv = model.graph.nodes[0]
    for low in (0.0, -1.0):
        form = activation_form(low, 2.0, bits, symmetric)
        weights = weight_form(model.graph.initializers[conv.inputs[1]], WeightSettings(bits))
        qdq = insert_quantizers(model, {"x": form, "a": form}, {"a": weights})
        (integers,) = (node.inputs[0] for node in qdq.graph.nodes if node.outputs[0] == "x_dequantized")
        feeds = {"x": np.linspace(-3, 3, 10 * 256).astype(np.float32).reshape(10, 1, 4, 8, 8)}
        seen = runtime(_giving(qdq, integers, np.dtype(np.int8 if form.low < 0 else np.uint8)), feeds).astype(np.int64)
        if form.format == BIPOLAR:
            assert np.array_equal(seen, np.where(feeds["x"] >= 0, 1, -1))
        else:
            assert np.array_equal(np.unique(seen), np.arange(form.low, form.high + 1))
            assert form.high - form.low + 1 == 2**bits
        assert (form.format == BIPOLAR) == (bits == 1 and symmetric and low < 0)


def _giving(model: Model, name: str, dtype: np.dtype) -> Model:
    output = onnx.Value(name, onnx.TensorType(dtype, (1, 4, 8, 8)))
    return replace(model, graph=replace(model.graph, outputs=(output,)))


def bias_model(weight: float, bias: float) -> Model:
    b = Builder("bias")
    x = b.input("x", np.float32, (1, 4))
    w, c = np.full((2, 4), weight, np.float32), np.full(2, bias, np.float32)
    y = b.node("Gemm", x, b.constant("w", w), b.constant("b", c), name="fc", output="y", transB=1)
    b.output(y)
    return onnx.infer(b.model(opset=13))


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("weight", [0.0, 1e-30, 1e-8, 1.0])
@pytest.mark.parametrize("bias", [0.0, 1e-20, 3.0, 1e6])
def test_any_bias_fits(bits: int, weight: float, bias: float) -> None:
    model = bias_model(weight, bias)
    form = weight_form(model.graph.initializers["w"], WeightSettings(bits))
    forms = {"x": activation_form(-1, 1), "y": activation_form(-abs(bias) - 4, abs(bias) + 4)}
    qdq = insert_quantizers(model, forms, {"fc": form})
    scales = [a for name, a in qdq.graph.initializers.items() if name.endswith("_scale")]
    assert all((a >= np.finfo(np.float32).tiny).all() for a in scales)
    made = runtime(qdq, {"x": np.full((1, 1, 4), 0.5, np.float32)})
    np.testing.assert_allclose(made.ravel(), bias + 2 * weight, atol=1.01 * float(forms["y"].scale) + 0.01 * weight)


def test_a_sum_is_added_up() -> None:
    n = Net()
    total = n.do("Sum", n.conv(n.x), n.x, n.conv(n.x), name="total")
    model = n.model(n.do("Sum", n.conv(n.do("Relu", n.do("Sum", total)))))
    quantized = quantize(model, rows(model, 50, seed=2))
    assert [kind for kind in kinds(quantized) if kind != "conv"] == ["add", "add"]
    feeds = rows(model, 8)
    expected, found = runtime(model, feeds), golden.predict(quantized, feeds)[model.graph.outputs[0].name]
    assert np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)) < 0.05


def test_a_comparison_is_no_number() -> None:
    n = Net()
    where = n.do("Greater", n.conv(n.x, name="a"), n.c(0), name="where")
    model = n.model(n.conv(n.do("Where", where, n.conv(n.x), n.conv(n.x))))
    with pytest.raises(HwflowError, match="tensor 'where' of 'where' must be float to become integers, not bool"):
        to_qdq(model, rows(model, 2), QuantizationSettings(), [], None)


def test_zeros_cannot_be_padded_with_bipolar_bits() -> None:
    n = Net()
    model = n.model(n.conv(n.do("MaxPool", n.conv(n.x, name="a"), kernel_shape=(2, 2)), name="b"))
    settings = QuantizationSettings(layers={"a": LayerSettings(output=ActivationSettings(1, True))})
    with pytest.raises(HwflowError, match="layers/a must have more than one symmetric bit, because 'b' pads 'a' with"):
        quantize(model, rows(model, 2), settings=settings)


def test_a_concat_of_unlike_settings_keeps_them() -> None:
    n = Net()
    model = n.model(*concat(n))
    for step in FLOAT_PASSES:
        model = step.run(model)
    settings = QuantizationSettings(layers={"b": LayerSettings(output=ActivationSettings(4))})
    made = to_qdq(model, rows(model, 50), settings, [], None)
    scales = {name: float(a) for name, a in made.qdq.graph.initializers.items() if name in ("a_scale", "cat_scale")}
    assert scales["a_scale"] != scales["cat_scale"]
    alike = to_qdq(model, rows(model, 50), QuantizationSettings(), [], None).qdq.graph.initializers
    assert alike["a_scale"] == alike["r_scale"] == alike["cat_scale"]


def test_forms_are_frozen_values() -> None:
    assert activation_form(0, 1) == ActivationForm(np.float32(1 / 255), -128, IntFormat(8, True), -128, 127)
    assert activation_form(0, 1, 4, True) == ActivationForm(np.float32(1 / 15), 0, IntFormat(4, False), 0, 15)
    ones = weight_form(np.array([[1.0, -3.0], [0.0, 2.0]], np.float32), WeightSettings(1))
    assert ones == WeightForm(np.array([[1, -1], [1, 1]]), np.array([2, 1], np.float32), 1)
