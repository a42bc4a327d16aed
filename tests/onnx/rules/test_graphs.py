"""Rules about graphs (GR)."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from hwflow_base.errors import HwflowError
from onnx import TensorProto, helper

from hwflow.onnx import evaluate, infer, loads
from tests.onnx.rules.protos import (
    error_of,
    errors,
    findings,
    graph,
    leniently,
    model,
    node,
    value,
    warned,
    warnings,
    weight,
)  # fmt: skip

#: Where the two elements of a weight are that is stored as a sparse tensor.
INDICES = weight("", TensorProto.INT64, (2,), [0, 1])
SORT = "sort the nodes: each after those that write its inputs"
X = np.array([-1, 2], np.float32)


def branch(*nodes: onnx.NodeProto, name: str = "b", **parts) -> onnx.GraphProto:
    return graph(*nodes, name=name, **{"outputs": [value("t")], **parts})


def conditional(then: onnx.GraphProto, other: onnx.GraphProto | None = None, **more) -> onnx.NodeProto:
    return helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other or then, **more)


def with_condition(*nodes: onnx.NodeProto, **parts) -> onnx.ModelProto:
    return model(*nodes, inputs=[value("x"), value("c", TensorProto.BOOL, ())], **parts)


def run(proto: onnx.ModelProto, **feeds: np.ndarray) -> np.ndarray:
    return evaluate(loads(proto.SerializeToString()), {"x": X, **feeds})["y"]


@pytest.mark.rule("GR-01", "ND-06")
def test_a_cycle_is_printed() -> None:
    proto = model(
        node(outputs=("a",), name="first"),
        node("Add", ("a", "d"), ("b",), name="second"),
        node(inputs=("b",), outputs=("c",), name="third"),
        node(inputs=("c",), outputs=("d",)),
        node(inputs=("d",), name="last"),
    )
    assert error_of(proto) == (
        "graph/node[1] 'second' (Add): the graph must have no cycle, not second -> third -> d -> second; "
        "export the model again [GR-01]"
    )


@pytest.mark.rule("GR-01", "ND-06")
def test_a_node_that_reads_what_it_writes() -> None:
    assert error_of(model(node(inputs=("y",), name="n"))) == (
        "graph/node[0] 'n' (Relu): the graph must have no cycle, not n -> n; export the model again [GR-01]"
    )


@pytest.mark.rule("GR-01")
def test_two_cycles_and_what_is_only_unsorted() -> None:
    proto = model(
        node("Add", ("b", "x"), ("a",)), node(inputs=("a",), outputs=("b",)),
        node("Add", ("d", "late"), ("c",)), node(inputs=("c",), outputs=("d",)),
        node(outputs=("late",)), node("Add", ("b", "d")),
    )  # fmt: skip
    assert [text.split("; ")[0] for text in errors(proto)] == [
        "graph/node[0] 'a' (Add): the graph must have no cycle, not a -> b -> a",
        "graph/node[2] 'c' (Add): the graph must have no cycle, not c -> d -> c",
        "graph/node[2] 'c' (Add): 'late' must be written before it is read, not later by graph/node[4] 'late' (Relu)",
    ]


@pytest.mark.rule("GR-01")
def test_a_long_cycle_is_shortened() -> None:
    count = 10_000
    ring = [node(inputs=(f"v{(i - 1) % count}",), outputs=(f"v{i}",)) for i in range(count)]
    (text,) = errors(model(*ring, outputs=[value("v0")]))
    assert "not v0 -> v1 -> v2 -> v3 -> v4 -> v5 -> (9992 more) -> v9998 -> v9999 -> v0;" in text


@pytest.mark.rule("GR-01")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_sorted_graphs_have_no_cycle(order: tuple[int, ...]) -> None:
    nodes = [node(outputs=("a",)), node(outputs=("b",)), node("Add", ("a", "b"))]
    found = errors(model(*(nodes[i] for i in order)))
    assert not any("GR-01" in text for text in found)
    assert len(found) == (order.index(0) > order.index(2)) + (order.index(1) > order.index(2))


@pytest.mark.rule("GR-02")
def test_graphs_have_names() -> None:
    assert leniently(model(name="")) == "graph: the graph must have a name, not none; give it one [GR-02 W-graph-name]"
    inner = with_condition(conditional(branch(node(outputs=("t",)), name=""), branch(node(outputs=("t",)))))
    assert leniently(inner) == (
        "graph/node[0] 'y' (If)/attribute 'then_branch': the graph must have a name, not none; give it one "
        "[GR-02 W-graph-name]"
    )


@pytest.mark.rule("GR-03")
def test_nodes_without_inputs_and_outputs() -> None:
    assert (
        "graph/node[0] '?' (Relu): the node must have an input or an output, not neither; remove it [GR-03]"
        in errors(model(node(inputs=(), outputs=()), node()))
    )
    constant = helper.make_node("Constant", [], ["y"], value_floats=[1.0, 2.0])
    assert errors(model(constant)) == [], "no input is fine"


@pytest.mark.rule("GR-04", "GR-05")
def test_nodes_are_sorted() -> None:
    nodes = [node(outputs=("a",), name="m"), node(inputs=("a",), name="n")]
    assert findings(model(*nodes)) == ()
    assert error_of(model(*reversed(nodes))) == (
        "graph/node[0] 'n' (Relu): 'a' must be written before it is read, not later by graph/node[1] 'm' (Relu); "
        f"{SORT} [GR-04]"
    )


@pytest.mark.rule("GR-04")
def test_nodes_of_subgraphs_are_sorted() -> None:
    unsorted = branch(node(inputs=("a",), outputs=("t",)), node(outputs=("a",)))
    assert errors(with_condition(conditional(unsorted, branch(node(outputs=("t",)))))) == [
        "graph/node[0] 'y' (If)/attribute 'then_branch'/node[0] 't' (Relu): 'a' must be written before it is read, not "
        f"later by graph/node[0] 'y' (If)/attribute 'then_branch'/node[1] 'a' (Relu); {SORT} [GR-04]"
    ]


@pytest.mark.rule("GR-06")
def test_initializers_in_any_order() -> None:
    weights = [weight(name, numbers=[number, 0]) for number, name in enumerate("abc", 1)]
    for order in itertools.permutations(weights):
        proto = model(node("Sum", ("a", "b", "c", "x")), initializers=order)
        assert findings(proto) == ()
        np.testing.assert_array_equal(run(proto), [5, 2])


@pytest.mark.rule("GR-07", "GR-09")
def test_an_initializer_is_the_default_of_an_input() -> None:
    proto = model(node("Add", ("x", "w")), inputs=[value("x"), value("w")], initializers=[weight("w")])
    np.testing.assert_array_equal(run(proto), [0, 4])
    np.testing.assert_array_equal(run(proto, w=np.array([10, 10], np.float32)), [9, 12])


@pytest.mark.rule("GR-08")
def test_other_initializers_are_constants() -> None:
    proto = model(node("Add", ("x", "w")), initializers=[weight("w")])
    np.testing.assert_array_equal(run(proto), [0, 4])
    with pytest.raises(HwflowError, match="'w'"):
        run(proto, w=X)


@pytest.mark.rule("GR-09")
def test_weights_that_may_be_overridden() -> None:
    parts = {"inputs": [value("x"), value("w"), value("v")], "initializers": [weight("w"), weight("v"), weight("u")]}
    sums = node("Sum", ("x", "w", "v", "u"))
    assert warned(model(sums, **parts)) == (
        "graph: 2 of 3 initializers are inputs too, not constants: 'w', ...; remove them from the inputs, unless "
        "callers override them; hardware takes them as constants [GR-09 W-overridable-init]"
    )
    assert not any("GR-09" in text for text in warnings(model(sums, ir=3, opset=8, **parts)))


@pytest.mark.rule("GR-10")
def test_before_ir_4_initializers_are_inputs() -> None:
    proto = model(node("Add", ("x", "w")), initializers=[weight("w")], ir=3, opset=8)
    assert leniently(proto) == (
        "graph/initializer 'w': the initializer must be an input too in IR version 3, not a constant; "
        "state IR version 4 or later [GR-10 W-init-no-input]"
    )
    proto.graph.input.append(value("w"))
    assert findings(proto) == ()
    assert findings(model(node("Add", ("x", "w")), initializers=[weight("w")], ir=4, opset=9)) == ()


def sparse(name: str) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        weight(name, numbers=[1.0], dims=[1]), weight("", TensorProto.INT64, [1], [0]), [2]
    )


@pytest.mark.rule("GR-11")
def test_initializers_have_names_of_their_own() -> None:
    adds = node("Sum", ("x", "v", "w"))
    assert findings(model(adds, initializers=[weight("v"), weight("w")])) == ()
    assert error_of(model(adds, initializers=[weight("v"), weight("w"), weight("v")])) == (
        "graph/initializer[2]: 'v' must be one initializer, not two; remove one of them [GR-11]"
    )
    assert error_of(model(adds, initializers=[weight("v"), weight("w"), weight("")])) == (
        "graph/initializer[2]: the initializer must have a name, not none; name it or remove it [GR-11]"
    )
    both = model(adds, initializers=[weight("v"), weight("w")])
    both.graph.sparse_initializer.append(sparse("w"))
    assert error_of(both) == "graph/initializer[2]: 'w' must be one initializer, not two; remove one of them [GR-11]"


@pytest.mark.rule("GR-12")
@pytest.mark.parametrize("where", ["input", "output", "value_info"])
@pytest.mark.parametrize(
    ("stated", "shown"),
    [
        (value("w", TensorProto.INT8), "int8[2]"),
        (value("w", shape=(3,)), "float32[3]"),
        (value("w", shape=(2, "n")), "float32[2, n]"),
        (value("w", TensorProto.INT8, None), "int8 of unknown rank"),
        (helper.make_tensor_sequence_value_info("w", 1, [2]), "a sequence of float32[2]"),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_initializers_as_stated(where: str, stated: onnx.ValueInfoProto, shown: str, sparse: bool) -> None:
    proto = model(node("Add", ("x", "w")), initializers=[weight("w")])
    if sparse:
        proto.graph.ClearField("initializer")
        proto.graph.sparse_initializer.add().CopyFrom(helper.make_sparse_tensor(weight("w"), INDICES, [2]))
    getattr(proto.graph, where).append(stated)
    place = "sparse_initializer" if sparse else "initializer"
    assert (
        f"graph/{place} 'w': the type of 'w' must be float32[2], not {shown} as the file states; "
        f"export the model again [GR-12]"
    ) in errors(proto)


@pytest.mark.rule("GR-12")
@pytest.mark.parametrize("shape", [(2,), ("n",), None])
def test_a_sparse_type_says_how_it_is_stored(shape: tuple[int | str, ...] | None) -> None:
    proto = model(node("Add", ("x", "w")))
    proto.graph.sparse_initializer.add().CopyFrom(helper.make_sparse_tensor(weight("w"), INDICES, [2]))
    proto.graph.value_info.append(helper.make_sparse_tensor_value_info("w", TensorProto.FLOAT, shape))
    assert errors(proto) == []


@pytest.mark.rule("GR-12")
@pytest.mark.parametrize(
    "stated", [value("w"), value("w", shape=("n",)), value("w", shape=(-1,)), value("w", shape=None)]
)
def test_what_is_stated_may_be_open(stated: onnx.ValueInfoProto) -> None:
    proto = model(node("Add", ("x", "w")), initializers=[weight("w")])
    proto.graph.value_info.append(stated)
    assert errors(proto) == []


@pytest.mark.rule("GR-13")
def test_what_no_output_needs_does_not_matter() -> None:
    """The unused node would fail if it were computed."""
    dead = node("MatMul", ("x", "w"), ("z",))
    proto = model(node(), dead, initializers=[weight("w", dims=(3,), numbers=[1, 2, 3])])
    assert not any("GR-" in text for text in errors(proto))
    proto = model(node(), node("Neg", ("x",), ("z",)))
    assert findings(proto) == ()
    np.testing.assert_array_equal(run(proto), [0, 2])


@pytest.mark.rule("GR-14")
def test_outputs_are_defined() -> None:
    assert error_of(model(node(outputs=("result",)), outputs=[value("resultt")])) == (
        "graph/output[0]: 'resultt' must be a value of the graph, not undefined; perhaps 'result' is meant, else "
        "export the model again [GR-14]"
    )
    assert findings(model(node(), outputs=[value("y"), value("x")])) == (), "an input may be an output"
    assert findings(model(node(), outputs=[value("w")], initializers=[weight("w")])) == (), "an initializer too"


@pytest.mark.rule("GR-14")
def test_an_output_twice() -> None:
    assert warned(model(outputs=[value("y"), value("y")])) == (
        "graph/output[1]: 'y' should be one output, not two; remove one of them, or copy it with Identity "
        "[GR-14 W-dup-output]"
    )


@pytest.mark.rule("GR-15")
def test_inputs_have_names_of_their_own() -> None:
    assert error_of(model(inputs=[value("x"), value("x")])) == (
        "graph/input[1]: 'x' must be one input, not two; export the model again [GR-15]"
    )
    assert error_of(model(inputs=[value("x"), value("")])) == (
        "graph/input[1]: the input must have a name, not none; export the model again [GR-15]"
    )


@pytest.mark.rule("GR-16")
def test_stated_types_of_other_values() -> None:
    proto = model(node(outputs=("a",)), node(inputs=("a",)))
    proto.graph.value_info.append(value("a"))
    assert findings(proto) == ()
    proto.graph.value_info.append(value("a"))
    assert warned(proto) == (
        "graph/value_info[1]: the type of 'a' must be stated once, not twice; remove one of them "
        "[GR-16 W-value-info-twice]"
    )
    proto.graph.value_info[1].name = "b"
    assert warned(proto) == (
        "graph/value_info[1]: a stated type must be that of a value of the graph, not of 'b'; "
        "remove it; it has no effect [GR-16 W-value-info-unknown]"
    )


@pytest.mark.rule("GR-16", "GR-21")
@pytest.mark.parametrize("where", ["output", "value_info"])
def test_stated_types_that_inference_contradicts(where: str) -> None:
    proto = model(node(outputs=("a",)), node(inputs=("a",)))
    getattr(proto.graph, where).append(value("a"))
    infer(loads(proto.SerializeToString()))
    getattr(proto.graph, where)[-1].CopyFrom(value("a", TensorProto.INT8))
    with pytest.raises(HwflowError, match="'a'"):
        infer(loads(proto.SerializeToString()))


@pytest.mark.rule("GR-17", "VER-12")
@pytest.mark.parametrize("where", ["input", "output"])
def test_the_main_graph_states_types(where: str) -> None:
    proto = model()
    getattr(proto.graph, where)[0].ClearField("type")
    name = {"input": "x", "output": "y"}[where]
    assert error_of(proto) == f"graph/{where}[0]: the {where} '{name}' must have a type, not none; state it [GR-17]"
    proto = model()
    getattr(proto.graph, where)[0].type.tensor_type.elem_type = 0
    assert (
        f"graph/{where}[0]: the {where} '{name}' must have an element type, not an undefined one; state it [GR-17]"
        in errors(proto)
    )
    proto.graph.output[0].name = ""
    assert any("the output must have a name, not none" in text for text in errors(proto))


@pytest.mark.rule("GR-18")
@pytest.mark.parametrize("where", ["input", "output"])
def test_the_main_graph_states_ranks(where: str) -> None:
    proto = model()
    getattr(proto.graph, where)[0].type.tensor_type.ClearField("shape")
    name = {"input": "x", "output": "y"}[where]
    assert leniently(proto) == (
        f"graph/{where}[0]: the {where} '{name}' must have a rank, not an unknown shape; "
        "state a shape; its dims may be open [GR-18 W-no-rank]"
    )
    proto = model()
    dim = getattr(proto.graph, where)[0].type.tensor_type.shape.dim[0]
    dim.ClearField("dim_value")
    assert findings(proto) == (), "an open dim is a known rank"
    for stated in (proto.graph.input[0], proto.graph.output[0]):
        del stated.type.tensor_type.shape.dim[:]
    assert findings(proto, strict=True) == (), "a scalar has a rank"


@pytest.mark.rule("GR-19", "GR-20")
def test_subgraphs_may_leave_types_out() -> None:
    inner = branch(node(outputs=("a",)), node(inputs=("a",), outputs=("t",)))
    inner.output[0].ClearField("type")
    assert findings(with_condition(conditional(inner))) == ()
    inner.output[0].name = ""
    assert error_of(with_condition(conditional(inner, branch(node(outputs=("t",)))))) == (
        "graph/node[0] 'y' (If)/attribute 'then_branch'/output[0]: the output must have a name, not none; "
        "export the model again [GR-20]"
    )


@pytest.mark.rule("GR-19")
def test_an_input_without_a_shape_takes_any() -> None:
    proto = model(inputs=[value("x", shape=None)], outputs=[value("y", shape=None)])
    for shape in ((), (3,), (2, 2)):
        x = np.full(shape, -1, np.float32)
        np.testing.assert_array_equal(evaluate(loads(proto.SerializeToString()), {"x": x})["y"], np.zeros(shape))


@pytest.mark.rule("GR-22")
def test_descriptions_of_graphs_are_optional() -> None:
    proto = model()
    assert findings(proto, strict=True) == ()
    proto.graph.doc_string = "what it does"
    assert findings(proto, strict=True) == ()


@pytest.mark.rule("GR-23")
def test_empty_graphs() -> None:
    proto = model(outputs=[value("x")])
    del proto.graph.node[:]
    assert findings(proto) == (), "no nodes: an input is an output"
    assert warned(model(outputs=[])) == (
        "graph: the graph should have an output, not none; list what it computes as outputs [GR-23 W-no-outputs]"
    )
