"""The final ArgMax, ArgMin or TopK in hardware: the model's outputs stay what they are, to the last index."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.layers import TopK
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, load_quantized, quantize, save_quantized
from hwflow.quantize.settings import QuantizationSettings
from hwflow.quantize.settings_file import settings_from_yaml, settings_to_yaml
from tests.quantize.models import Qdq, kinds, rows, session
from tests.quantize.net import Net, data

IN_HARDWARE = QuantizationSettings(hardware_argmax=True)


def scores(classes: int = 10, step: float = 0.3) -> Qdq:
    """Coarse steps, so that many scores are equal."""
    return Qdq((1, 12)).qdq(0.05, 3).matmul(12, classes).qdq(step, 0)


def same(model: Model, count: int = 60) -> Quantized:
    """With and without the option, and in onnxruntime, all outputs are equal; names, shapes and types as well."""
    made, feeds = quantize(model, settings=IN_HARDWARE), rows(model, count)
    on_host, run = quantize(model), session(model)
    ours, host = golden.predict(made, feeds), golden.predict(on_host, feeds)
    names = [value.name for value in model.graph.outputs]
    theirs = [run.run(names, {key: value[i] for key, value in feeds.items()}) for i in range(count)]
    for k, name in enumerate(names):
        expected = np.stack([outputs[k] for outputs in theirs])
        assert ours[name].dtype == host[name].dtype == expected.dtype
        assert ours[name].shape == host[name].shape == expected.shape
        np.testing.assert_array_equal(ours[name], host[name])
        if expected.dtype.kind != "f":
            assert np.mean(ours[name] == expected) > 0.98  # float32 may round a score the other way
    assert len(np.unique(ours[names[0]])) > 3
    return made


@pytest.mark.parametrize("attributes", [
    {"axis": 1}, {"axis": -1, "keepdims": 0}, {"axis": 1, "select_last_index": 1}], ids=str)
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_behind_the_last_layer(op: str, attributes: dict) -> None:
    made = same(scores().node(op, **attributes).model())
    assert kinds(made) == ["dense", "top_k"]
    assert [node.op_type for node in made.epilogue.graph.nodes if node.op_type != "Reshape"] == ["Cast"]
    layer = made.graph.layers[-1]
    assert isinstance(layer, TopK)
    assert (layer.largest, layer.last_index) == (op == "ArgMax", "select_last_index" in attributes)


@pytest.mark.parametrize("between", ["Softmax", "LogSoftmax"])
def test_functions_that_keep_the_order_are_left_out(between: str) -> None:
    made = same(scores().node(between, axis=-1).node("ArgMax", axis=1).model())
    assert kinds(made) == ["dense", "top_k"]
    assert between not in [node.op_type for node in made.epilogue.graph.nodes]


def test_for_each_pixel() -> None:
    m = Qdq((1, 3, 6, 5)).qdq(0.05, 3).conv((7, 3, 3, 3)).qdq(0.2, 0)
    made = same(m.node("ArgMax", axis=1, keepdims=0).model(), 20)
    assert str(made.graph.tensors[made.graph.outputs[0]].frame) == "4x3x1"


def test_sums_of_one_scale() -> None:
    m = Qdq((1, 12)).qdq(0.05, 3)
    w = m.constant("w", m.rng.integers(-127, 128, (12, 9), dtype=np.int8))
    inputs = w, m.constant("s", np.float32(0.01)), m.constant("z", np.int8(0))
    made = same(m.node("MatMul", m.b.node("DequantizeLinear", *inputs, name="dq")).node("ArgMax", axis=1).model())
    assert kinds(made) == ["dense", "top_k"]
    assert made.graph.layers[0].requantize.multiplier.tolist() == [1] * 9


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("which", ["indices", "values", "both"])
def test_top_k(which: str, largest: int) -> None:
    m = scores(20)
    values, indices = _top_k(m, largest)
    outputs = {"values": [values], "indices": [indices], "both": [values, indices]}[which]
    for name in outputs[1:]:
        m.b.output(name)
    m.x = outputs[0]
    made = same(m.model())
    assert kinds(made) == ["dense"] + ["top_k"] * len(outputs)


def _top_k(m: Qdq, largest: int) -> tuple[str, str]:
    k = m.constant("k", np.array([4], np.int64))
    values, indices = m.b.nodes("TopK", m.x, k, outputs=("best", "places"), name="best", axis=1, largest=largest)
    return values, indices


def test_the_scores_as_a_second_output() -> None:
    m = scores().node("Softmax", axis=-1)
    m.b.output(m.x)
    made = same(m.node("ArgMax", axis=1).model(), 20)
    assert len(made.graph.outputs) == 2


def test_from_floats_and_from_its_files(tmp_path) -> None:
    n = Net((3, 8, 8))
    x = n.node("GlobalAveragePool", n.relu(n.conv(n.x, 8, (3, 3))))
    model = n.model(n.node("ArgMax", n.node("Softmax", n.gemm(n.flatten(x), 10), axis=1), axis=1))
    made = quantize(model, data(model), settings=IN_HARDWARE)
    assert kinds(made)[-1] == "top_k"
    assert "Softmax" in [node.op_type for node in made.qdq.graph.nodes]  # the export is the whole model
    assert quantize(made.qdq, settings=IN_HARDWARE).graph == made.graph
    assert "top_k" not in kinds(quantize(made.qdq))
    assert "hardware_argmax: true" in made.settings
    again = quantize(model, data(model), settings=settings_from_yaml(made.settings, "s.yaml", model))
    assert again.graph == made.graph
    save_quantized(made, tmp_path)
    assert load_quantized(tmp_path).graph == made.graph


def moved(n: Net) -> str:
    """Channels of a convolution in another order, one of them twice, so that no layer takes in what follows."""
    y = n.conv(n.x, 4, (3, 3))
    return n.node("Gather", y, n.constant([0, -1, -1, 1, 2], np.int64), axis=1, channels=5)


def swish(n: Net, x: str) -> str:
    return n.node("Mul", x, n.node("Sigmoid", x))


#: What a float model computes between its last layer and the ranking.
BEFORE_RANKING = {
    "factors": (lambda n: n.node("Mul", moved(n), n.constant([[[0.5]], [[-1]], [[2]], [[1]], [[3]]])), "conv"),
    "a curve of offsets": (
        lambda n: swish(n, n.node("Sub", moved(n), n.constant([[[0.1]], [[-0.2]], [[0.3]], [[0]], [[1]]]))), "lookup"),
    "a pad": (lambda n: n.node("Tanh", n.pad(n.conv(n.x, 4, (3, 3)), (0, 2, 1, 0, 0, 0, 1, 0)), channels=6),
              "rearrange"),
    "a sum": (lambda n: n.node("Add", moved(n), moved(n)), "add"),
    "Softmax": (lambda n: n.node("Softmax", n.node("Elu", moved(n)), axis=1), "rearrange"),
}  # fmt: skip


@pytest.mark.parametrize("name", BEFORE_RANKING)
def test_what_stands_before_the_ranking_of_a_float_model(name: str) -> None:
    """It gets integers like all other layers, which onnxruntime ranks alike; without the option it stays the host's."""
    build, kind = BEFORE_RANKING[name]
    n = Net((3, 5, 6))
    model = n.model(n.node("ArgMax", build(n), axis=1))
    rows_given = data(model)
    made = quantize(model, rows_given, settings=IN_HARDWARE)
    assert kinds(made)[-1] == "top_k"
    assert kind in kinds(made)
    assert {node.op_type for node in made.epilogue.graph.nodes} <= {"Cast", "Reshape"}
    plain = quantize(model, rows_given)
    assert "top_k" not in kinds(plain)
    assert "ArgMax" in {node.op_type for node in plain.epilogue.graph.nodes}
    (output,) = (value.name for value in model.graph.outputs)
    run = session(made.qdq)
    found = [run.run([output], {key: value[k] for key, value in rows_given.items()})[0] for k in range(8)]
    ours = golden.predict(made, {key: value[:8] for key, value in rows_given.items()})[output]
    assert np.mean(ours == np.stack(found)) > 0.98  # a score in the middle of two integers may be rounded up or down
    assert len(np.unique(ours)) > 3


def test_the_settings_file_says_it_only_where_it_is_wanted() -> None:
    assert "hardware_argmax" not in settings_to_yaml(QuantizationSettings())
    model = scores().model()
    assert settings_from_yaml("hardware_argmax: true", "s.yaml", model) == IN_HARDWARE
    with pytest.raises(HwflowError, match=r"settings s.yaml: hardware_argmax must be true or false, not 1"):
        settings_from_yaml("hardware_argmax: 1", "s.yaml", model)


def per_channel() -> Qdq:
    """Sums of a Conv whose channels have scales of their own."""
    return Qdq((1, 3, 4, 4)).qdq(0.05, 3).conv((4, 3, 4, 4))


REFUSALS = {
    "no ArgMax": (lambda: scores().node("Softmax", axis=1),
                  "--hardware-argmax wants a model that ends in ArgMax, ArgMin or TopK; 'softmax[0-9]*_out' is made by "
                  "Softmax; leave the option out, or end the model in an ArgMax before the export"),
    "a function in between": (lambda: scores().node("Softmax", axis=1).node("Neg").node("ArgMax", axis=1),
                              r"reads the result of 'neg[0-9]*' \(Neg\), which may change the order"),
    "sums of many scales": (lambda: per_channel().node("ArgMax", axis=1),
                            "which must have one scale for all channels and at most 22 bits"),
    "over pixels": (lambda: Qdq((1, 3, 4, 4)).qdq(0.05, 3).conv((4, 3, 3, 3)).qdq(0.1, 0).node("ArgMax", axis=3),
                    r"looks along axis 3 of \[1, 4, 2, 2\], which must be the 4 channels of a pixel"),
    "values behind Softmax": (lambda: _values(scores().node("Softmax", axis=1)),
                              r"gives the values that 'softmax[0-9]*' \(Softmax\) makes on the host"),
    "small probabilities": (lambda: _indices(scores(step=2.0).node("Softmax", axis=1)), "become equal in float32"),
    "another axis": (lambda: Qdq((1, 3, 4, 4)).qdq(0.05, 3).conv((4, 3, 3, 3)).qdq(0.1, 0).node("Softmax", axis=2)
                     .node("ArgMax", axis=1), r"looks along axis 1, and 'softmax[0-9]*' \(Softmax\) before it along 2"),
}  # fmt: skip


def _values(m: Qdq) -> Qdq:
    m.x = _top_k(m, 1)[0]
    return m


def _indices(m: Qdq) -> Qdq:
    m.x = _top_k(m, 1)[1]
    return m


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused(name: str) -> None:
    make, message = REFUSALS[name]
    model = make().model()
    quantize(model)  # without the option there is nothing to refuse
    with pytest.raises(HwflowError, match=message):
        quantize(model, settings=IN_HARDWARE)
