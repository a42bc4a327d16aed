"""What runs on the host, in front of the first layer and behind the last; and what must not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.passes.streaming import keep_states
from hwflow.quantize.support import operators_without_hardware
from tests.quantize.architectures import sklearn
from tests.quantize.net import Net, data

IMAGE, ROW = (3, 8, 8), (12,)


def made(build: Callable[[Net], tuple[str, ...]], shape: tuple[int, ...]) -> Model:
    n = Net(shape)
    return onnx.infer(n.model(*build(n)))


def on_host(model: Model) -> tuple[Quantized, set[str]]:
    """The quantized model, near its floats, and the operators that the note names."""
    rows = data(model, 216)
    q = quantize(model, {name: value[:200] for name, value in rows.items()})
    feeds = {name: value[200:] for name, value in rows.items()}
    found = golden.predict(q, feeds)
    for value in model.graph.outputs:
        expected = [onnx.evaluate(model, {k: v[i] for k, v in feeds.items()})[value.name] for i in range(16)]
        texts = expected[0].dtype.kind == "O"
        assert found[value.name].dtype.kind == "U" if texts else found[value.name].dtype == expected[0].dtype
        if expected[0].dtype.kind == "f":
            error = np.mean((found[value.name] - np.stack(expected)) ** 2)
            assert error < 0.01 * np.var(expected), value.name
        else:
            assert np.mean(found[value.name] == np.stack(expected)) >= 0.9
    assert quantize(onnx.loads(onnx.dumps(q.qdq))).graph == q.graph
    return q, set(q.notes[-1].removeprefix("on the host: ").split(", ")) - {"QuantizeLinear", "DequantizeLinear"}


def dense(n: Net, x: str) -> tuple[str, ...]:
    return (n.matmul(n.relu(n.matmul(x, 16)), 4),)


def test_a_scaler_in_front_and_a_label_behind() -> None:
    q, host = on_host(onnx.infer(sklearn()))
    assert [layer.kind for layer in q.graph.layers] == ["dense", "dense"]
    assert host == {"Sub", "Mul", "Cast", "Softmax", "ArgMax", "ArrayFeatureExtractor"}  # Scaler is the first two


def test_labels_may_be_texts() -> None:
    n = Net(ROW)
    index = n.node("ArgMax", dense(n, n.x)[0], axis=1)
    labels = n.b.constant("labels", np.array(["ant", "bee", "cat", "dog"], object))
    n.b.nodes("ArrayFeatureExtractor", labels, index, outputs=("label",), domain="ai.onnx.ml", name="pick")
    _, host = on_host(onnx.infer(n.model("label", opsets={"ai.onnx.ml": 1})))
    assert host == {"Mul", "ArgMax", "ArrayFeatureExtractor"}  # Mul scales each feature


def numbers(n: Net, *values: int) -> str:
    return n.constant(values, np.int64)


FRONT: dict[str, Callable[[Net], str]] = {
    "Slice": lambda n: n.node("Slice", n.x, numbers(n, 2), numbers(n, 10), numbers(n, 1), channels=8),
    "Gather": lambda n: n.node("Gather", n.x, numbers(n, 7, 3, 5), axis=1, channels=3),
    "Cos, Gather": lambda n: n.node("Gather", n.node("Cos", n.x), numbers(n, 7, 3, 5), axis=1, channels=3),
    "LayerNormalization": lambda n: n.node("LayerNormalization", n.x, n.constant(np.ones(12))),
    "Cos": lambda n: n.node("Cos", n.x),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("front", FRONT)
def test_operators_in_front(front: str) -> None:
    q, host = on_host(made(lambda n: dense(n, FRONT[front](n)), ROW))
    assert [layer.kind for layer in q.graph.layers] == ["dense", "dense"]
    assert host == set(front.split(", "))


def test_a_function_in_front_that_hardware_has_stays_there() -> None:
    q, host = on_host(made(lambda n: dense(n, n.node("Exp", n.x)), ROW))
    assert [layer.kind for layer in q.graph.layers] == ["lookup", "dense", "dense"]
    assert host == set()


BEHIND: dict[str, Callable[[Net, str], tuple[str, ...]]] = {
    "LayerNormalization": lambda n, x: (n.node("LayerNormalization", x, n.constant(np.ones(4))),),
    "Split, Softmax": lambda n, x: two(n, *n.b.nodes("Split", x, numbers(n, 2, 2), outputs=("a", "b"), axis=1)),
    "ReduceSum": lambda n, x: (n.node("ReduceSum", x, numbers(n, 1)),),
    "TopK": lambda n, x: n.b.nodes("TopK", x, numbers(n, 2), outputs=("best", "place")),
}


def two(n: Net, a: str, b: str) -> tuple[str, str]:
    n.channels[b] = 2
    return a, n.node("Softmax", b, axis=1)


@pytest.mark.parametrize("behind", BEHIND)
def test_operators_behind(behind: str) -> None:
    q, host = on_host(made(lambda n: BEHIND[behind](n, *dense(n, n.x)), ROW))
    assert [layer.kind for layer in q.graph.layers] == ["dense", "dense"]
    assert host == set(behind.split(", ")) - {"Split"}  # the order of elements alone


def test_an_image_grows_behind_the_last_layer() -> None:
    sizes = np.array([1, 1, 2, 2], np.float32)
    q, host = on_host(made(lambda n: (n.node("Resize", n.unit(n.x, 4), "", n.constant(sizes), mode="nearest"),), IMAGE))
    assert [layer.kind for layer in q.graph.layers] == ["conv"]
    assert host == {"Transpose"}  # of the input; the rest is the order of elements


def test_the_largest_of_their_neighbours_behind_the_last_layer() -> None:
    """As detectors of points end: what is the largest in its window stays, all else is 0."""
    def peaks(n: Net) -> tuple[str, ...]:
        heat = n.unit(n.x, 4)
        largest = n.node("MaxPool", heat, kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(1, 1))
        return (n.node("Mul", heat, n.node("Cast", n.node("Equal", heat, largest), to=1)),)

    q = quantize(model := made(peaks, IMAGE), rows := data(model, 32))
    conv, pool = q.graph.layers
    assert (conv.kind, pool.kind) == ("conv", "max_pool")
    (found,) = golden.predict(q, rows).values()
    frames = golden.run(q, golden.run_prologue(q, rows))
    heat, largest = (np.moveaxis(frames[layer.output], -1, 1)[:, None] for layer in (conv, pool))
    form = q.graph.tensors[conv.output]
    expected = np.where(heat == largest, np.float32(form.scale) * (heat - form.zero_point), 0)
    assert np.array_equal(found, expected.astype(np.float32))


def gru(n: Net) -> tuple[str, ...]:
    x = n.node("Unsqueeze", n.x, numbers(n, 0))
    weights = n.constant(n.normal(1, 12, 12)), n.constant(n.normal(1, 12, 4))
    lengths = n.b.constant("lengths", np.zeros(1, np.int32))
    last = n.b.nodes("GRU", x, *weights, "", lengths, outputs=("all", "last"), name="gru", hidden_size=4)[1]
    n.channels[last] = 4
    return (n.gemm(n.squeeze(last, (0,)), 3),)


def resize(n: Net) -> str:
    made = n.b.node("Resize", n.unit(n.x, 4), "", n.constant([1, 1, 2, 2]), mode="cubic", name="grow")
    n.channels[made] = 4
    return made


def of_one(n: Net) -> str:
    """A number of the input, as [1]."""
    return n.b.node("Reshape", n.b.node("ReduceMean", n.x), n.b.constant("one", np.array([1])))


def distances(n: Net) -> tuple[str, ...]:
    """Squared distances to points, as clusterings are exported."""
    squares = n.b.node("ReduceSumSquare", n.x, axes=(1,), keepdims=1, name="squares")
    nothing = n.b.node("Mul", squares, n.constant([0.0]))
    points = n.constant(n.normal(3, 12))
    crossed = n.b.node("Gemm", n.x, points, nothing, alpha=-2.0, transB=1, name="crossed")
    return (n.b.node("Add", squares, crossed, name="distances"),)


def test_what_the_host_computes_in_front_is_joined_behind_a_layer() -> None:
    q, host = on_host(made(distances, ROW))
    assert [layer.kind for layer in q.graph.layers].count("dense") == 1
    assert "add" in [layer.kind for layer in q.graph.layers]
    assert "ReduceSumSquare" in host


def test_outputs_beside_the_hardware() -> None:
    """One of the inputs alone, one that a result of the hardware is joined with where nothing has hardware."""
    n = Net(ROW)
    scores = dense(n, n.x)[0]
    flags = n.b.node("Not", n.b.node("Greater", n.x, n.constant([0.5]), name="above"), name="flags")
    total = n.b.node("ReduceLogSumExp", n.x, axes=(1,), keepdims=1, name="total")
    relative = n.b.node("Cos", n.b.node("Div", scores, total, name="share"), name="relative")
    q, host = on_host(onnx.infer(n.model(scores, flags, relative)))
    assert [layer.kind for layer in q.graph.layers] == ["dense", "dense"]
    assert {"Greater", "Not", "ReduceLogSumExp", "Div", "Cos"} <= host
    with pytest.raises(HwflowError, match="rows of input 'input' must be given behind the hardware, too"):
        golden.run_epilogue(q, golden.run(q, golden.run_prologue(q, data(q.twin, 2))))


def of_overlaps() -> Model:
    """Ends as an inverse transform does: half of what the host makes of a frame is added to the next one."""
    n = Net(ROW)
    before = n.b.input("overlap", np.float32, (1, 2))
    waves = n.b.node("Cos", dense(n, n.x)[0], name="waves")
    now, later = n.b.nodes("Split", waves, numbers(n, 2, 2), outputs=("now", "later"), axis=1)
    return onnx.infer(n.model(n.b.node("Add", now, before, output="sound"), later))


def test_a_state_that_the_host_keeps() -> None:
    model = keep_states(of_overlaps(), {"overlap": "later"})
    rows = {"input": data(of_overlaps())["input"]}
    q = quantize(model, rows)
    assert "state 'overlap' is kept by the host: its next value is computed behind the hardware" in q.notes
    assert not q.graph.streaming
    found, held = golden.predict(q, rows), np.zeros((1, 2), np.float32)
    alone = quantize(of_overlaps(), {**rows, "overlap": np.zeros((64, 1, 2), np.float32)})
    for k in range(64):
        made = golden.predict(alone, {"input": rows["input"][k:k + 1], "overlap": held[None]})
        assert np.array_equal(found["sound"][k], made["sound"][0])
        held = made["later"][0]
    frames, states, parts = golden.run(q, golden.run_prologue(q, rows), keep=False), dict[str, np.ndarray](), []
    for start, stop in ((0, 5), (5, 64)):
        part = {name: array[start:stop] for name, array in frames.items()}
        parts.append(golden.run_epilogue(q, part, rows, states)["sound"])
    assert np.array_equal(np.concatenate(parts), found["sound"])


REFUSED: dict[str, tuple[tuple[int, ...], Callable[[Net], tuple[str, ...]], str]] = {
    "a recurrent layer in front": (ROW, gru, "'gru' (GRU): its sequences must have all steps"),
    "a layer behind": (
        IMAGE,
        lambda n: (
            n.b.node("MaxRoiPool", n.unit(n.x, 4), n.constant(np.array([[0, 0, 0, 3, 3]])), pooled_shape=(2, 2),
                     name="pool"),),
        "'pool' (MaxRoiPool): operator MaxRoiPool has no hardware",
    ),
    "an operator between layers": (
        IMAGE,
        lambda n: (n.conv(resize(n), 4, (1, 1)),),
        "'grow' (Resize): between layers only the modes 'nearest' and 'linear' have hardware, not 'cubic'",
    ),
    "a layer with a computed bias behind": (
        IMAGE,
        lambda n: (n.b.node("Conv", n.x, n.constant(np.ones((1, n.channels[n.x], 1, 1))), of_one(n), name="biased"),),
        "'biased' (Conv): weights and bias must be constants, not computed",
    ),
    "all of it": (
        ROW,
        lambda n: (n.b.node("LayerNormalization", n.x, n.constant(np.ones(12)), name="norm"),),
        "the model must have a layer that becomes hardware (Conv, Gemm, MatMul, pooling), not none; a processor runs "
        "it as it is",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_heavy_moves_to_the_host(case: str) -> None:
    shape, build, message = REFUSED[case]
    with pytest.raises(HwflowError) as caught:
        quantize(made(build, shape))
    assert message in str(caught.value)


def test_the_first_look_at_a_model_without_shapes_agrees() -> None:
    model = sklearn()
    assert operators_without_hardware(model) == []
    n = Net(IMAGE)
    regions = n.constant(np.array([[0, 0, 0, 3, 3]]))
    found = operators_without_hardware(n.model(n.b.node("MaxRoiPool", n.x, regions, pooled_shape=[2, 2], name="pool")))
    assert [problem.where for problem in found] == ["'pool' (MaxRoiPool)"]


def test_an_output_that_is_a_constant() -> None:
    b = Builder("constant")
    x = b.input("x", np.float32, (1, 4))
    b.output(b.node("MatMul", x, b.constant("w", np.eye(4, dtype=np.float32)), output="y"), np.float32, (1, 4))
    b.output(b.constant("version", np.array([3, 7], np.int64)), np.int64, (2,))
    q = quantize(onnx.infer(b.model()), {"x": np.ones((8, 1, 4), np.float32)})
    found = golden.predict(q, {"x": np.ones((2, 1, 4), np.float32)})
    assert found["version"].tolist() == [[3, 7], [3, 7]]
    assert found["y"].shape == (2, 1, 4)
