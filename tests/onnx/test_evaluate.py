"""Evaluation of whole graphs: what to fetch, what to feed, what is refused."""

from __future__ import annotations

import gc
import importlib
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import Model, evaluate, prepare
from hwflow.onnx.build import Builder, make_node
from hwflow.onnx.errors import EvaluationError, ShapeError, TensorDataError, TypeMismatch, Unsupported
from hwflow.onnx.model import Node, SparseTensor, SparseTensorType, Value
from hwflow.onnx.ops import OPERATORS
from hwflow.onnx.ops.base import Operator
from tests.onnx.models import model_of, value

X = np.array([[-1, 2]], np.float32)

evaluation = importlib.import_module("hwflow.onnx.run.evaluate")  # the package has a function of that name


def chain() -> Model:
    """y = relu(x + w), z = -x."""
    b = Builder()
    x = b.input("x", np.float32, ("batch", 2))
    h = b.node("Add", x, b.constant("w", np.array([0.5, 0.5], np.float32)), name="add", output="h")
    b.output(b.node("Relu", h, output="y"), np.float32, ("batch", 2))
    b.output(b.node("Neg", b.input("x2", np.float32, ("batch", 2)), output="z"), np.float32, ("batch", 2))
    return b.model()


def refused(model: Model, feeds, fetch=None) -> str:
    with pytest.raises(HwflowError) as caught:
        evaluate(model, feeds, fetch)
    return str(caught.value)


def test_outputs_by_default() -> None:
    found = evaluate(chain(), {"x": X, "x2": X})
    assert list(found) == ["y", "z"]
    np.testing.assert_array_equal(found["y"], [[0, 2.5]])
    np.testing.assert_array_equal(found["z"], -X)


def test_fetch_anything() -> None:
    """Intermediate values, inputs and initializers; only what they need has to be fed."""
    found = evaluate(chain(), {"x": X}, ["h", "x", "w", "y"])
    np.testing.assert_array_equal(found["h"], X + np.float32(0.5))
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["w"], np.float32([0.5, 0.5]))
    assert list(found) == ["h", "x", "w", "y"]


def test_open_dims_take_any_size() -> None:
    assert evaluate(chain(), {"x": np.zeros((7, 2), np.float32)}, ["y"])["y"].shape == (7, 2)


def test_inputs_are_not_changed() -> None:
    x = X.copy()
    x.flags.writeable = False
    evaluate(chain(), {"x": x}, ["y"])
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(
    ("feeds", "fetch", "message"),
    [
        ({"x": X}, ["q"], "'q' must be a tensor of the graph, not an unknown name; `hwflow info` lists them"),
        ({"x": X}, None, "the fed arrays must be those of the model's inputs ('x', 'x2'), not 'x'"),
        ({}, ["y"], "the fed arrays must be those of the model's inputs ('x', 'x2'), not none"),
        ({"x": X, "a": X}, ["y"], "the fed arrays must be those of the model's inputs ('x', 'x2'), not 'x', 'a'"),
        (
            {"x": X.astype(np.float64)}, ["y"],
            "input 'x' must be float32[batch, 2], not float64[1, 2]; convert or reshape the array",
        ),
        ({"x": X[0]}, ["y"], "input 'x' must be float32[batch, 2], not float32[2]; convert or reshape the array"),
        ({"x": X.T}, ["y"], "input 'x' must be float32[batch, 2], not float32[2, 1]; convert or reshape the array"),
    ],
)  # fmt: skip
def test_wrong_feeds(feeds, fetch, message) -> None:
    assert refused(chain(), feeds, fetch) == message


def test_all_unsupported_operators_at_once() -> None:
    b = Builder()
    x = b.input("x", np.float32, (2,))
    b.output(b.node("Bar", b.node("Foo", x, name="f"), name="g"))
    b.output(b.node("Relu", x, output="y"))
    assert refused(b.model(), {"x": X[0]}) == (
        "the operators must be ones that hwflow evaluates, not those of graph/node[0] 'f' (Foo), "
        "graph/node[1] 'g' (Bar); `hwflow check` says more"
    )
    np.testing.assert_array_equal(evaluate(b.model(), {"x": X[0]}, ["y"])["y"], [0, 2])


def test_what_numpy_refuses_names_the_node() -> None:
    b = Builder()
    b.output(b.node("Concat", b.input("x", np.float32, (2,)), name="n"))
    assert refused(b.model(), {"x": X[0]}) == (
        "graph/node[0] 'n' (Concat): attribute 'axis' must be given, not left out; export the model again"
    )
    b = Builder()
    b.output(b.node("Mul", b.input("x", np.object_, (1,)), b.constant("c", np.float32([2.0])), name="n"))
    assert refused(b.model(), {"x": np.array(["text"], object)}).startswith(
        "graph/node[0] 'n' (Mul): the inputs must suit the operator, not be string[1], float32[1] ("
    )


def test_evaluation_does_not_warn_about_overflow() -> None:
    b = Builder()
    b.output(b.node("Exp", b.input("x", np.float32, (1,)), output="y"))
    assert evaluate(b.model(), {"x": np.float32([1000])})["y"][0] == np.inf


def with_default() -> Model:
    """y = x + w, where w is an input that has an initializer; c is a constant."""
    model = model_of([make_node("Sum", ["x", "w", "c"], ["y"])], [value("x")], w=X + 1, c=X)
    return replace(model, graph=replace(model.graph, overridable=(value("w", shape=(1, 2)),)))


@pytest.mark.rule("GR-07")
def test_initializer_of_an_input_is_its_default() -> None:
    np.testing.assert_array_equal(evaluate(with_default(), {"x": X})["y"], 3 * X + 1)
    np.testing.assert_array_equal(evaluate(with_default(), {"x": X, "w": 0 * X})["y"], 2 * X)
    np.testing.assert_array_equal(evaluate(with_default(), {"x": X})["y"], 3 * X + 1)
    with pytest.raises(TypeMismatch, match=r"input 'w' must be float32\[1, 2\], not int64\[1\]"):
        evaluate(with_default(), {"x": X, "w": np.array([1])})


@pytest.mark.rule("GR-08")
def test_constant_cannot_be_fed() -> None:
    with pytest.raises(EvaluationError, match="'c' must not be fed: it is a constant of the model, not an input"):
        evaluate(with_default(), {"x": X, "c": X})


@pytest.mark.rule("GR-13")
@pytest.mark.rule("OP-04")
def test_only_what_outputs_need_is_computed(monkeypatch) -> None:
    """A node that nobody needs may even fail; an output of Split that has no name is not kept."""
    nodes = [
        make_node("Concat", ["x"], ["unused"]),
        make_node("Split", ["x"], ["", "y"], axis=1),
    ]
    np.testing.assert_array_equal(evaluate(model_of(nodes, [value("x")]), {"x": X})["y"], X[:, 1:])
    wanted = []
    probe = Operator(1, lambda call, x: wanted.append([call.wants(i) for i in range(3)]) or (x, x), None)
    monkeypatch.setitem(OPERATORS, ("", "Probe"), (probe,))
    evaluate(model_of([make_node("Probe", ["x"], ["", "y"])], [value("x")]), {"x": X})
    assert wanted == [[False, True, False]]


@pytest.mark.rule("OP-05")
def test_output_that_is_not_computed_must_not_be_named(monkeypatch) -> None:
    node = make_node("Dropout", ["x"], ["y", "mask"], name="n")
    for result, message in (
        (lambda call, x: (x,), "the outputs must be at most 1, not 2: the operator computes no more in this mode"),
        (lambda call, x: (x, None), r"output 1 must not be named \('mask'\): the operator does not compute it"),
    ):
        monkeypatch.setitem(OPERATORS, ("", "Dropout"), (Operator(1, result, None),))
        with pytest.raises(EvaluationError, match=rf"graph/node\[0\] 'n' \(Dropout\): {message}"):
            evaluate(model_of([node], [value("x")]), {"x": X})


@pytest.mark.rule("IR-15")
@pytest.mark.parametrize(
    "node",
    [
        make_node("Softmax", ["x"], ["y"]),
        make_node("RandomNormalLike", ["x"], ["y"]),
        make_node("RandomUniformLike", ["x"], ["y"], seed=3.0),
        make_node("Bernoulli", ["p"], ["y"]),
        make_node("Multinomial", ["x"], ["y"], sample_size=20),
    ],
    ids=lambda node: node.op_type,
)
def test_same_input_same_output(node: Node) -> None:
    """Bit for bit, in another program of the same model too; what came before does not matter."""
    feeds = {"x": np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)}
    nodes = [make_node("Sigmoid", ["x"], ["p"]), node]
    program, twin = (prepare(model_of(nodes, [value("x")])) for _ in range(2))
    first = program.run(feeds)["y"]
    np.random.default_rng().random(7)
    for again in (program, twin):
        found = again.run(feeds)["y"]
        assert found.tobytes() == first.tobytes()
        assert found.dtype == first.dtype


@pytest.mark.rule("IR-16")
def test_inference_changes_neither_model_nor_feeds(monkeypatch) -> None:
    """A kernel that writes into its inputs fails."""

    def spoil(call, x, w):
        w += 1
        return x

    monkeypatch.setitem(OPERATORS, ("", "Spoil"), (Operator(1, spoil, None),))
    for names in (("x", "w"), ("w", "x")):
        model = model_of([make_node("Spoil", names, ["y"], name="n")], [value("x")], w=X.copy())
        x = X.copy()
        with pytest.raises(EvaluationError, match="output array is read-only"):
            evaluate(model, {"x": x})
        np.testing.assert_array_equal(model.graph.initializers["w"], X)
        np.testing.assert_array_equal(x, X)
        x[0] = 1  # the caller's own array stays writable


@pytest.mark.rule("SH-03")
def test_input_without_a_shape_takes_any() -> None:
    model = model_of([make_node("Neg", ["x"], ["y"])], [value("x")])
    for shape in ((), (2,), (1, 2, 3)):
        assert evaluate(model, {"x": np.ones(shape, np.float32)})["y"].shape == shape


@pytest.mark.rule("SH-08")
def test_number_of_dims_is_the_rank() -> None:
    with pytest.raises(ShapeError, match=r"input 'x' must be float32\[batch, 2\], not float32\[2\]"):
        evaluate(chain(), {"x": X[0]}, ["y"])


@pytest.mark.rule("TY-09")
def test_rank_0_is_a_scalar_and_not_a_vector() -> None:
    model = model_of([make_node("Neg", ["x"], ["y"])], [value("x", shape=())])
    for scalar in (np.float32(2), np.array(2, np.float32)):
        found = evaluate(model, {"x": scalar})["y"]
        assert isinstance(found, np.ndarray)
        assert (found.shape, float(found)) == ((), -2)
    with pytest.raises(ShapeError, match=r"input 'x' must be float32\[\], not float32\[1\]"):
        evaluate(model, {"x": np.float32([2])})


@pytest.mark.rule("SH-09")
def test_names_of_dims_stand_for_one_size() -> None:
    """Over all inputs it must hold; over outputs it is noted."""
    model = model_of(
        [make_node("Concat", ["a", "b"], ["y"], axis=0)], [value("a", shape=("n", 2)), value("b", shape=("n", 2))],
        [value("y", shape=("n", "m"))],
    )  # fmt: skip
    notes: list[str] = []
    assert evaluate(model, {"a": X, "b": X}, notes=notes)["y"].shape == (2, 2)
    assert notes == ["output 'y' is float32[2, 2], not float32[n, m] as the file says: 'n' is 1 in input 'a'"]
    with pytest.raises(ShapeError) as caught:
        evaluate(model, {"a": X, "b": np.ones((3, 2), np.float32)})
    assert str(caught.value) == "input 'b' must be float32[n, 2], not float32[3, 2]; 'n' is 1 in input 'a'"


@pytest.mark.rule("SH-13")
@pytest.mark.parametrize(
    "stated, fits",
    [(("n", 2), True), ((None, None), True), ((1, 2), True), ((3, 2), False), (("n",), False)],
)
def test_outputs_differ_from_the_file_in_open_dims_only(stated, fits) -> None:
    notes: list[str] = []
    model = model_of([make_node("Neg", ["x"], ["y"])], [value("x")], [value("y", shape=stated)])
    np.testing.assert_array_equal(evaluate(model, {"x": X}, notes=notes)["y"], -X)
    assert (notes == []) is fits


def test_output_of_another_element_type_is_noted() -> None:
    notes: list[str] = []
    model = model_of([make_node("Neg", ["x"], ["y"])], [value("x")], [value("y", np.float64)])
    evaluate(model, {"x": X}, notes=notes)
    assert notes == ["output 'y' is float32[1, 2], not float64 of unknown rank as the file says"]


def test_inputs_that_the_operator_does_not_take() -> None:
    for nodes, message in (
        ([make_node("Add", ["x", "i"], ["y"])], "input 1 'i' must be tensor(float) like input 0, not tensor(int64)"),
        ([make_node("Floor", ["i"], ["y"])], "input 0 'i' must be one of 4 types"),
        ([make_node("Add", ["x"], ["y"])], "the number of inputs must be 2, not 1"),
        ([make_node("Add", ["x", ""], ["y"])], "input 1 (B) must be given, not left out"),
    ):
        with pytest.raises(EvaluationError) as caught:
            evaluate(model_of(nodes, [value("x"), value("i", np.int64)]), {"x": X, "i": np.array([1])})
        assert message in str(caught.value)


@pytest.mark.parametrize(
    "error, kind, message",
    [
        (KeyError("k"), EvaluationError, "the inputs must suit the operator, not be float32[1, 2] ('k')"),
        (OverflowError("o"), EvaluationError, "(o)"),
        (NotImplementedError("no such mode"), Unsupported, "graph/node[0] 'n' (Bad): no such mode"),
        (MemoryError(), HwflowError, "must fit into memory, not run out of it with float32[1, 2]"),
        (RecursionError(), HwflowError, "must fit into the interpreter's stack"),
    ],
)
def test_whatever_a_kernel_raises_names_the_node(monkeypatch, error, kind, message) -> None:
    def bad(call, x):
        raise error

    monkeypatch.setitem(OPERATORS, ("", "Bad"), (Operator(1, bad, None),))
    with pytest.raises(kind) as caught:
        evaluate(model_of([make_node("Bad", ["x"], ["y"], name="n")], [value("x")]), {"x": X})
    assert str(caught.value).startswith("graph/node[0] 'n' (Bad): ")
    assert message in str(caught.value)


def test_nodes_in_wrong_order_and_in_a_circle() -> None:
    for nodes in (
        [make_node("Neg", ["h"], ["y"], name="n"), make_node("Abs", ["x"], ["h"])],
        [make_node("Add", ["h", "x"], ["y"], name="n"), make_node("Neg", ["y"], ["h"])],
    ):
        with pytest.raises(EvaluationError, match=r"graph/node\[0\] 'n' .*: 'h' must be computed before it is read"):
            evaluate(model_of(nodes, [value("x")]), {"x": X})


def test_operator_that_its_set_took_away() -> None:
    old = replace(model_of([make_node("Upsample", ["x", "s"], ["y"])], [value("x")], s=np.float32([1, 2])))
    with pytest.raises(Unsupported, match=r"\(Upsample\)"):
        evaluate(old, {"x": X})


def test_strings_in_any_of_numpys_types() -> None:
    model = model_of([make_node("Identity", ["x"], ["y"])], [value("x", np.object_)])
    for texts in (np.array(["a", "bc"]), np.array(["a", "bc"], object), ["a", "bc"]):
        found = evaluate(model, {"x": texts})["y"]
        assert (found.dtype, found.tolist()) == (np.object_, ["a", "bc"])


def test_sparse_initializers_and_inputs() -> None:
    sparse = SparseTensor(np.float32([5, 7]), np.array([[0, 1], [1, 0]]), (2, 2))
    flat = SparseTensor(np.float32([5, 7]), np.array([1, 2]), (2, 2))
    entry = Value("x", SparseTensorType(np.dtype(np.float32), (2, 2)))
    model = model_of([make_node("Add", ["w", "x"], ["y"])], [entry])
    model = replace(model, graph=replace(model.graph, sparse_initializers={"w": sparse}))
    np.testing.assert_array_equal(evaluate(model, {"x": flat})["y"], [[0, 10], [14, 0]])
    for indices in (np.array([1, 4]), np.array([-1, 1]), np.array([[0, 1], [1, 2]]), np.array([1])):
        with pytest.raises(TensorDataError, match="the indices of a sparse tensor must lie in its shape"):
            evaluate(model, {"x": replace(flat, indices=indices)})


def test_program_of_a_model_goes_with_it() -> None:
    """`evaluate` keeps what it prepared as long as the model is there, and not longer."""
    model = chain()
    evaluate(model, {"x": X}, ["y"])
    program = weakref.ref(evaluation.program_of(model))
    gc.collect()
    assert evaluation.program_of(model) is program()
    del model
    gc.collect()
    assert program() is None


def test_equal_models_have_programs_of_their_own_and_a_model_after_another_never_its_program() -> None:
    """Identities of models that are gone are given to new ones."""
    first, second = chain(), chain()
    assert evaluation.program_of(first) is not evaluation.program_of(second)
    seen, again = set(), False
    for number in range(2000):
        model = model_of([make_node("Add", ["x", "c"], ["y"])], [value("x")], c=np.float32([number]))
        np.testing.assert_array_equal(evaluate(model, {"x": X})["y"], X + number)
        again = id(model) in seen
        if again:
            break
        seen.add(id(model))
        del model
    assert again  # else this test says nothing


def test_values_are_released_behind_their_last_use(monkeypatch) -> None:
    """A chain of 20 nodes never holds more than three values of it."""
    alive: list[weakref.ref] = []
    most = []

    def step(call, x):
        gc.collect()
        most.append(sum(ref() is not None for ref in alive))
        y = x + 1
        alive.append(weakref.ref(y))
        return y

    monkeypatch.setitem(OPERATORS, ("", "Step"), (Operator(1, step, None),))
    nodes = [make_node("Step", [f"h{k}"], [f"h{k + 1}"]) for k in range(20)]
    gc.freeze()  # all that the tests before have left is not looked through 20 times
    evaluate(model_of(nodes, [value("h0")], ["h20"]), {"h0": X})
    gc.unfreeze()
    assert max(most) <= 2
