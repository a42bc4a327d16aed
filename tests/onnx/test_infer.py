"""Static shapes and constant folding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import Model, TensorType, Value, evaluate, infer, require_valid, simplify
from hwflow.onnx.build import Builder, make_graph, make_node, tensor_type
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import SparseTensor


def shape_of(model: Model, name: str) -> tuple[int, ...]:
    found = model.graph.types[name]
    assert found.is_static
    return found.shape


def relu(*shape, name: str = "x") -> Model:
    b = Builder()
    b.output(b.node("Relu", b.input(name, np.float32, shape), name="r", output="y"), np.float32, shape)
    return b.model()


def refused(model: Model, **shapes) -> str:
    with pytest.raises(HwflowError) as caught:
        infer(model, shapes)
    return str(caught.value)


@pytest.mark.parametrize("batch", ["batch", None])
def test_open_batch_becomes_one(batch) -> None:
    model = infer(relu(batch, 3))
    assert model.notes == ("input 'x': the open batch axis is fixed to 1",)
    assert model.graph.inputs == (Value("x", tensor_type(np.float32, (1, 3))),)
    assert model.graph.outputs == (Value("y", tensor_type(np.float32, (1, 3))),)


def test_given_shape() -> None:
    model = infer(relu("batch", 3, "h"), {"x": (5, 3, 7)})
    assert model.notes == ()
    assert shape_of(model, "y") == (5, 3, 7)


def test_unknown_rank_needs_a_shape() -> None:
    b = Builder()
    b.output(b.node("Relu", b.input("x", np.float32, None), output="y"))
    assert refused(b.model()) == (
        "the shape of input 'x' must be known, not float32 of unknown rank; give it with --input-shape x=1,3,32,32"
    )
    assert shape_of(infer(b.model(), {"x": (2, 2)}), "y") == (2, 2)


def test_other_open_dims_are_refused() -> None:
    assert refused(relu("batch", 3, "h", None)) == (
        "the shape of input 'x' must be known, not float32[batch, 3, h, ?]; give it with --input-shape x=1,3,32,32"
    )


def test_the_batch_of_sequences_is_their_second_axis() -> None:
    """A size that is called so is 1, wherever it is; the first axis counts the steps."""
    assert refused(relu("steps", "batch_size", 64)) == (
        "the shape of input 'x' must be known, not float32[steps, batch_size, 64]; give it with --input-shape x=32,1,64"
    )
    assert shape_of(infer(relu(7, "batch", 64)), "y") == (7, 1, 64)


@pytest.mark.parametrize("given", [(1, 4, 2), (1, 3), (1, 3, 0)])
def test_given_shape_that_does_not_fit(given) -> None:
    assert refused(relu("batch", 3, "h"), x=given) == (
        f"--input-shape of 'x' must fit the model's float32[batch, 3, h], not be {','.join(map(str, given))}"
    )


def test_given_shape_of_an_unknown_input() -> None:
    assert refused(relu(1), z=(1,)) == "--input-shape must name an input of the model ('x'), not 'z'"


def test_a_name_stands_for_one_size() -> None:
    b = Builder()
    b.output(b.node("Add", b.input("a", np.float32, ("n", 3)), b.input("b", np.float32, ("n", 3)), output="y"))
    assert shape_of(infer(b.model(), {"a": (4, 3)}), "b") == (4, 3)
    assert refused(b.model(), a=(4, 3), b=(5, 3)) == (
        "--input-shape of 'b' must fit the model's float32[n, 3], not be 5,3"
    )


def test_shape_chain_is_folded() -> None:
    """What PyTorch writes for x.view(x.size(0), -1)."""
    b = Builder()
    x = b.input("x", np.float32, ("batch", 2, 3))
    size = b.node("Gather", b.node("Shape", x), b.constant("zero", np.array(0, np.int64)), axis=0)
    rest = b.node("Constant", value=np.array([-1], np.int64))
    target = b.node("Concat", b.node("Unsqueeze", size, b.constant("axes", np.array([0], np.int64))), rest, axis=0)
    b.output(b.node("Reshape", x, target, output="y"), np.float32, ("batch", 6))
    model = infer(b.model())
    assert [node.op_type for node in model.graph.nodes] == ["Reshape"]
    assert list(model.graph.initializers) == [target]
    assert shape_of(model, "y") == (1, 6)
    require_valid(model)
    feed = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    np.testing.assert_array_equal(evaluate(model, {"x": feed})["y"], feed.reshape(1, 6))


def test_arithmetic_on_constants_is_folded() -> None:
    b = Builder()
    w = b.node("Mul", b.constant("a", np.float32([1, 2])), b.constant("b", np.float32([3, 4])), output="w")
    b.output(b.node("Add", b.input("x", np.float32, (2,)), b.node("Neg", w, output="v"), output="y"))
    model = infer(b.model())
    assert [node.op_type for node in model.graph.nodes] == ["Add"]
    np.testing.assert_array_equal(model.graph.initializers["v"], np.float32([-3, -8]))
    assert set(model.graph.types) == {"x", "v", "y"}


def test_quantized_weights_stay_integers() -> None:
    """QuantizeLinear of a constant is folded, DequantizeLinear and what follows it is not."""
    b = Builder()
    scale = b.constant("scale", np.float32(0.5))
    q = b.node("QuantizeLinear", b.constant("w", np.float32([[1, 2.2]])), scale, output="q")
    w = b.node("Transpose", b.node("DequantizeLinear", q, scale), perm=[1, 0])
    b.output(b.node("MatMul", b.input("x", np.float32, ("batch", 2)), w, output="y"))
    model = infer(b.model())
    assert [node.op_type for node in model.graph.nodes] == ["DequantizeLinear", "Transpose", "MatMul"]
    np.testing.assert_array_equal(model.graph.initializers["q"], np.uint8([[2, 4]]))


def test_constant_output() -> None:
    b = Builder()
    b.input("x", np.float32, (2,))
    b.output(b.node("Shape", "x", output="y"), np.int64, (1,))
    model = infer(b.model())
    assert model.graph.nodes == ()
    require_valid(model)
    np.testing.assert_array_equal(evaluate(model, {})["y"], [2])


def constant_of_shape(*dims: int) -> Model:
    b = Builder()
    big = b.node("ConstantOfShape", b.constant("dims", np.array(dims, np.int64)), name="big")
    b.output(b.node("ReduceSum", b.node("Neg", big, name="neg"), output="y"))
    return b.model()


def test_huge_constants_are_refused() -> None:
    """The first by its own size, the second by the sum of what was folded; neither is allocated."""
    assert refused(constant_of_shape(1 << 20, 1 << 20)) == (
        "graph/node[0] 'big' (ConstantOfShape): a tensor must be at most 2,147,483,648 bytes (tensor_bytes), "
        "not 4,398,046,511,104; if you trust the model, raise it with --limit tensor_bytes=4398046511104"
    )
    assert refused(constant_of_shape(3 << 24)) == (
        "graph/node[1] 'neg' (Neg): the constants that the model computes must take at most 256 MiB (folded_bytes), "
        "not 384; if you trust the model, raise it with --limit folded_bytes=402653184"
    )
    assert refused(constant_of_shape(-3)) == (
        "graph/node[0] 'big' (ConstantOfShape): the dims must be 0 or more, not [-3]; this file cannot be trusted"
    )


def test_shapes_that_depend_on_data() -> None:
    b = Builder()
    b.input("x", np.float32, (2,))
    shape = b.node("Cast", b.input("n", np.float32, (1,)), to=7, output="s")
    b.output(b.node("Expand", b.constant("c", np.float32([1])), shape, name="e", output="y"))
    assert refused(b.model()) == (
        "graph/node[1] 'e' (Expand): input 1 ('s') must be constant, not computed from the data; "
        "if the input never changes, give --constant n=NUMBER"
    )


def test_invalid_models_are_refused() -> None:
    b = Builder()
    b.output(b.node("Foo", b.input("x", np.float32, (1,)), name="n"))
    assert refused(b.model()).startswith("graph/node[0] 'n' (Foo): the operator must be one of operator set 'ai.onnx'")


def test_a_file_that_states_another_shape() -> None:
    b = Builder()
    b.output(b.node("Flatten", b.input("x", np.float32, (1, 2, 3)), output="y"), np.float32, (1, 5))
    assert "must be float32[1, 6], not float32[1, 5] as the file states" in refused(b.model())
    b = Builder()
    b.output(b.node("Flatten", b.input("x", np.float32, ("n", 2, 3)), output="y"), np.float32, (7, 6))
    model = infer(b.model())
    assert model.notes[1:] == ("'y' is float32[1, 6], not float32[7, 6] as the file says",), "but for other sizes"
    assert model.graph.outputs[0].type == TensorType(np.dtype(np.float32), (1, 6))


def test_inferring_twice_changes_nothing() -> None:
    once = infer(relu("batch", 3))
    assert infer(once) == once


@pytest.mark.parametrize(("condition", "expected"), [(True, [-1, 2]), (False, [0, 2])])
def test_a_branch_takes_the_place_of_a_constant_condition(condition: bool, expected: list[float]) -> None:
    """With constants of its own, a name that the graph has too, and an output that is a value from around it."""
    one = {"one": np.float32([1, 1])}
    then = make_graph([make_node("Mul", ["x", "one"], ["h"])], [], [Value("h", None)], one, "then")
    other = make_graph([make_node("Relu", ["x"], ["r"])], [], [Value("r", None)], name="else")
    b = Builder()
    x = b.input("x", np.float32, (2,))
    chosen = b.node("If", b.constant("c", np.array(condition)), then_branch=then, else_branch=other, name="if")
    b.output(b.node("Add", chosen, b.node("Sub", x, x, output="h"), output="y"))
    model = infer(b.model())
    assert [node.op_type for node in model.graph.nodes] == ["Mul" if condition else "Relu", "Sub", "Add"]
    require_valid(model)
    np.testing.assert_array_equal(evaluate(model, {"x": np.float32([-1, 2])})["y"], expected)


def test_a_branch_that_is_a_constant() -> None:
    other = make_graph([], [], [Value("k", tensor_type(np.float32, (2,)))], {"k": np.float32([1, 2])}, name="branch")
    b = Builder()
    chosen = b.node("If", b.constant("c", np.array(True)), then_branch=other, else_branch=other)
    b.output(b.node("Add", b.input("x", np.float32, (2,)), chosen, output="y"))
    model = simplify(infer(b.model()))
    assert [node.op_type for node in model.graph.nodes] == ["Add"]
    np.testing.assert_array_equal(evaluate(model, {"x": np.float32([3, 4])})["y"], [4, 6])


def test_a_condition_that_is_computed() -> None:
    other = make_graph([make_node("Relu", ["x"], ["r"])], [], [Value("r", None)], name="branch")
    b = Builder()
    b.input("x", np.float32, (2,))
    b.output(b.node("If", b.input("c", np.bool_, ()), then_branch=other, else_branch=other, name="if", output="y"))
    assert refused(b.model()) == ("graph/node[0] 'if' (If): its condition must be constant, not computed from the "
                                  "inputs; if the input never changes, give --constant c=true")


@pytest.mark.rule("GR-09")
def test_inputs_with_a_default_are_constants() -> None:
    b = Builder()
    b.output(b.node("Add", b.input("x", np.float32, (2,)), b.constant("w", np.float32([1, 2])), output="y"))
    model = b.model()
    model = infer(replace(model, graph=replace(model.graph, overridable=(Value("w", tensor_type(np.float32, (2,))),))))
    assert model.notes == ("inputs with a default are constants in hardware: 'w'",)
    assert model.graph.overridable == ()


def test_random_numbers_are_no_constants() -> None:
    b = Builder()
    b.output(b.node("Add", b.input("x", np.float32, (2,)), b.node("RandomNormal", shape=[2]), output="y"))
    assert [node.op_type for node in infer(b.model()).graph.nodes] == ["RandomNormal", "Add"]


def test_sparse_constants_become_dense() -> None:
    b = Builder()
    b.output(b.node("Add", b.input("x", np.float32, (3,)), "w", output="y"))
    model = b.model()
    sparse = SparseTensor(np.float32([5]), np.array([1]), (3,))
    model = infer(replace(model, graph=replace(model.graph, sparse_initializers={"w": sparse})))
    np.testing.assert_array_equal(model.graph.initializers["w"], np.float32([0, 5, 0]))


@pytest.mark.rule("LM-02")
def test_the_budget_of_constants_can_be_raised() -> None:
    model = constant_of_shape(1 << 10)
    with pytest.raises(LimitError, match="--limit folded_bytes=8192"):
        infer(model, limits=replace(Limits(), folded_bytes=4096 + 8))
    infer(model, limits=replace(Limits(), folded_bytes=1 << 14))
