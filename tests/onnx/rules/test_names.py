"""Rules about names and scopes (NM)."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hwflow.onnx import evaluate, loads
from tests.onnx.rules.protos import (
    error_of,
    errors,
    findings,
    graph,
    leniently,
    model,
    node,
    value,
    weight,
)  # fmt: skip

SORT = "sort the nodes: each after those that write its inputs"
THEN = "graph/node[0] 'y' (If)/attribute 'then_branch'"
X = np.array([-1, 2], np.float32)


def branch(*nodes: onnx.NodeProto, **parts) -> onnx.GraphProto:
    return graph(*(nodes or (node(outputs=("t",)),)), name="b", **{"outputs": [value("t")], **parts})


def choice(then: onnx.GraphProto, other: onnx.GraphProto | None = None) -> onnx.NodeProto:
    """An If over c; the branch that is not given is a good one."""
    return helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other or branch())


def chosen(
    then: onnx.GraphProto, other: onnx.GraphProto | None = None, *more: onnx.NodeProto, **parts
) -> onnx.ModelProto:
    return model(choice(then, other), *more, inputs=[value("x"), value("c", TensorProto.BOOL, ())], **parts)


def run(proto: onnx.ModelProto, c: bool = True) -> np.ndarray:
    read = loads(proto.SerializeToString())
    feeds = {"x": X, "c": np.array(c)}
    return evaluate(read, {one.name: feeds[one.name] for one in read.graph.inputs})["y"]


@pytest.mark.rule("NM-01")
@pytest.mark.parametrize("name", ["/conv1/Conv_output_0", "x.1", "123", "in:0", "größe", "a b", "a\x00b", "-"])
def test_names_are_c_identifiers(name: str) -> None:
    shown = name.replace("\x00", r"\x00")
    assert leniently(model(node(outputs=(name,)), node(inputs=(name,)))) == (
        f"graph: names must be C identifiers, not '{shown}' (1 of 4 are not); "
        "nothing to do for hwflow; rename them for other tools [NM-01 W-name]"
    )


@pytest.mark.rule("NM-01")
def test_every_kind_of_name_counts() -> None:
    proto = model(node("Add", ("0", "1"), name="2"), inputs=[value("0")], initializers=[weight("1")], name="3")
    assert "not '0' (4 of 5 are not)" in leniently(proto)
    assert findings(model(node(outputs=("_a1",), name="B_2"), node(inputs=("_a1",)))) == ()


@pytest.mark.rule("NM-02")
def test_kinds_of_names_do_not_clash() -> None:
    """A node, the graph, an operator, an attribute and a dim, all named like values."""
    x, y = value("x", shape=("x", "y")), value("y", shape=("x", "y"))
    proto = model(
        node("LeakyRelu", outputs=("Relu",), name="x", alpha=0.5),
        node(inputs=("Relu",), name="alpha"),
        inputs=[x],
        outputs=[y],
        name="x",
    )
    assert findings(proto) == ()


@pytest.mark.rule("NM-03")
def test_names_of_nodes() -> None:
    nodes = [node(outputs=("a",), name="n"), node(inputs=("a",), name="n")]
    assert leniently(model(*nodes)) == (
        "graph/node[1] 'n' (Relu): the name of the node must be its own, not that of node[0] too; "
        "rename one of them; onnxruntime refuses the model [NM-03 W-dup-node]"
    )
    inner = branch(node(outputs=("t",), name="n"))
    assert findings(chosen(inner, inner)) == (), "graphs have names of their own"
    assert findings(model(node(outputs=("a",)), node(inputs=("a",)))) == (), "no name is no name twice"


@pytest.mark.rule("NM-04")
@pytest.mark.parametrize("source", ["input", "initializer", "node"])
@pytest.mark.parametrize("use", ["node", "output"])
def test_sites_of_definition_and_use(source: str, use: str) -> None:
    parts = {"inputs": [value("x")], "outputs": [value("y")], "initializers": []}
    nodes = [node()]
    match source:
        case "input":
            parts["inputs"].append(value("v"))
        case "initializer":
            parts["initializers"].append(weight("v"))
        case "node":
            nodes.append(node(outputs=("v",)))
    if use == "node":
        nodes.append(node(inputs=("v",), outputs=("z",)))
    else:
        parts["outputs"].append(value("v"))
    assert findings(model(*nodes, **parts)) == ()


@pytest.mark.rule("NM-05")
def test_a_value_is_defined_once() -> None:
    assert error_of(model(node(outputs=("x",)), node())) == (
        "graph/node[0] 'x' (Relu): 'x' must be written once, not also by input or initializer 'x'; "
        "export the model again [NM-05]"
    )
    assert error_of(model(node(outputs=("w",)), node(), initializers=[weight("w")])) == (
        "graph/node[0] 'w' (Relu): 'w' must be written once, not also by input or initializer 'w'; "
        "export the model again [NM-05]"
    )
    both = model(node("Add", ("x", "w")), inputs=[value("x"), value("w")], initializers=[weight("w")])
    assert errors(both) == [], "an initializer is the default of an input"


@pytest.mark.rule("NM-06")
def test_a_value_is_written_by_one_node() -> None:
    assert error_of(model(node(name="m"), node(name="n"))) == (
        "graph/node[1] 'n' (Relu): 'y' must be written once, not also by graph/node[0] 'm' (Relu); "
        "export the model again [NM-06]"
    )
    assert error_of(model(node("Split", outputs=("y", "y"), name="n"), opset=13)) == (
        "graph/node[0] 'n' (Split): 'y' must be written once, not also by graph/node[0] 'n' (Split); "
        "export the model again [NM-06]"
    )
    left_out = node("Dropout", outputs=("y", ""))
    assert findings(model(left_out)) == (), "empty names are no values"


@pytest.mark.rule("NM-07")
def test_nodes_of_subgraphs_hide_nothing() -> None:
    for hidden in ("c", "x"):
        inner = branch(node(outputs=(hidden,)), node(outputs=("t",)))
        assert errors(chosen(inner))[0] == (
            f"{THEN}/node[0] '{hidden}' (Relu): '{hidden}' must be a name of its own, not that of an outer value; "
            "rename the inner value [NM-07]"
        )
    later = chosen(branch(node(outputs=("z",)), node(inputs=("z",), outputs=("t",))), None, node(outputs=("z",)))
    assert findings(later) == (), "what is written later is not seen inside"


def loop(*nodes: onnx.NodeProto, inputs: tuple[str, str, str] = ("i", "k", "s"), **parts) -> onnx.ModelProto:
    """A Loop over s, twice; the body adds 1 unless `nodes` are given."""
    body = graph(
        helper.make_node("Identity", [inputs[1]], ["go"]),
        *(nodes or (node("Add", (inputs[2], inputs[2]), ("more",)),)),
        inputs=[value(inputs[0], TensorProto.INT64, ()), value(inputs[1], TensorProto.BOOL, ()), value(inputs[2])],
        outputs=[value("go", TensorProto.BOOL, ()), value("more")],
        name="body",
        **parts,
    )
    count, start = weight("n", TensorProto.INT64, (), [2]), weight("true", TensorProto.BOOL, (), [True])
    holder = helper.make_node("Loop", ["n", "true", "x"], ["y"], body=body)
    return model(holder, initializers=[count, start])


@pytest.mark.rule("NM-08")
def test_inputs_of_subgraphs_hide_nothing() -> None:
    assert findings(loop()) == ()
    hiding = loop(inputs=("i", "k", "x"))
    assert leniently(hiding) == (
        "graph/node[0] 'y' (Loop)/attribute 'body': 'x' must be a name of its own, not that of an outer value; "
        "rename the inner value; the inner one counts [NM-08 W-shadow]"
    )
    np.testing.assert_array_equal(run(hiding), X * 4)
    initializer = chosen(branch(node(inputs=("x",), outputs=("t",)), initializers=[weight("x", numbers=[5, 6])]))
    assert "NM-08 W-shadow" in leniently(initializer)
    np.testing.assert_array_equal(run(initializer), [5, 6])


@pytest.mark.rule("NM-09")
def test_siblings_may_use_the_same_names() -> None:
    inner = branch(node("Neg", outputs=("a",)), node(inputs=("a",), outputs=("t",)))
    proto = chosen(inner, inner)
    assert findings(proto) == ()
    np.testing.assert_array_equal(run(proto), [1, 0])


@pytest.mark.rule("NM-09", "NM-14")
def test_names_of_a_subgraph_stay_inside() -> None:
    leak = chosen(
        branch(node(outputs=("inner",)), node(inputs=("inner",), outputs=("t",))),
        None,
        node(inputs=("inner",), outputs=("z",)),
    )
    assert error_of(leak) == (
        "graph/node[1] 'z' (Relu): 'inner' must be a value of the graph, not undefined; export the model again [NM-14]"
    )
    sibling = chosen(
        branch(node(outputs=("inner",)), node(inputs=("inner",), outputs=("t",))),
        branch(node(inputs=("inner",), outputs=("t",))),
    )
    assert error_of(sibling) == (
        "graph/node[0] 'y' (If)/attribute 'else_branch'/node[0] 't' (Relu): 'inner' must be a value of the graph, "
        "not undefined; export the model again [NM-14]"
    )


@pytest.mark.rule("NM-10")
def test_subgraphs_read_outer_values() -> None:
    nodes = [node("Neg", outputs=("a",)), choice(branch(node("Sum", ("a", "x", "w"), ("t",))))]
    proto = model(*nodes, inputs=[value("x"), value("c", TensorProto.BOOL, ())], initializers=[weight("w")])
    assert findings(proto) == ()
    np.testing.assert_array_equal(run(proto), [1, 2])


@pytest.mark.rule("NM-10")
def test_outer_values_are_written_before() -> None:
    late = chosen(branch(node(inputs=("z",), outputs=("t",))), None, node(outputs=("z",)))
    assert error_of(late) == (
        f"{THEN}/node[0] 't' (Relu): the outer value 'z' must be written before the node that holds this graph, not by "
        f"graph/node[1] 'z' (Relu); {SORT} [NM-10]"
    )
    own = chosen(branch(node(inputs=("y",), outputs=("t",))))
    assert error_of(own) == (
        f"{THEN}/node[0] 't' (Relu): the outer value 'y' must be written before the node that holds this graph, not by "
        f"graph/node[0] 'y' (If); {SORT} [NM-10]"
    )


@pytest.mark.rule("NM-10")
def test_two_levels_out() -> None:
    deep = branch(node(inputs=("x",), outputs=("t",)))
    middle = branch(helper.make_node("If", ["c"], ["u"], then_branch=deep, else_branch=deep), outputs=[value("u")])
    proto = chosen(middle)
    assert findings(proto) == ()
    np.testing.assert_array_equal(run(proto), [0, 2])


@pytest.mark.rule("NM-11")
def test_inputs_of_subgraphs_have_no_defaults() -> None:
    assert error_of(loop(initializers=[weight("s")])) == (
        "graph/node[0] 'y' (Loop)/attribute 'body'/input[2]: 's' must be an input or an initializer of a subgraph, "
        "not both; remove one of them [NM-11]"
    )
    old = loop(initializers=[weight("s")])
    old.ir_version = 3
    assert not any("NM-11" in text for text in errors(old)), "each initializer had to be an input"


@pytest.mark.rule("NM-12")
def test_outputs_of_subgraphs_are_written_inside() -> None:
    assert error_of(chosen(branch(node(outputs=("u",)), outputs=[value("x")]))) == (
        f"{THEN}/output[0]: the output 'x' must be written in the subgraph, not outside of it; "
        "copy the outer value with Identity [NM-12]"
    )
    copied = chosen(branch(helper.make_node("Identity", ["x"], ["t"])))
    assert findings(copied) == ()
    np.testing.assert_array_equal(run(copied), X)


@pytest.mark.rule("NM-13")
def test_a_node_writes_an_output_by_its_name() -> None:
    proto = model(node("Neg", outputs=("z",)), node(inputs=("z",)), outputs=[value("z"), value("y")])
    assert findings(proto) == ()
    found = evaluate(loads(proto.SerializeToString()), {"x": X})
    np.testing.assert_array_equal(found["z"], [1, -2])
    np.testing.assert_array_equal(found["y"], [1, 0])


@pytest.mark.rule("NM-14", "ND-07")
@pytest.mark.parametrize(
    ("name", "guess"),
    [("hiden_1", "perhaps 'hidden_1' or 'hidden_2' is meant, else "), ("nothing_like_it", ""), ("X", "")],
)
def test_undefined_values(name: str, guess: str) -> None:
    proto = model(node(outputs=("hidden_1",)), node(outputs=("hidden_2",)), node(inputs=(name,), name="n"))
    assert error_of(proto) == (
        f"graph/node[2] 'n' (Relu): '{name}' must be a value of the graph, not undefined; {guess}"
        "export the model again [NM-14]"
    )
    assert findings(model(node("Clip", ("x", "", "")))) == (), "an input that is left out is no name"


@pytest.mark.rule("FN-04")
def test_functions_see_their_own_values() -> None:
    def calling(read: str) -> onnx.ModelProto:
        imports = [helper.make_opsetid("", 17)]
        body = helper.make_function("com.acme", "F", ["a"], ["b"], [node("Add", ("a", read), ("b",))], imports)
        return model(node("F", domain="com.acme"), imports=[("", 17), ("com.acme", 1)], functions=[body])

    assert findings(calling("a")) == ()
    assert error_of(calling("x")) == (
        "function 'com.acme.F'/node[0] 'b' (Add): 'x' must be a value of the function, not undefined; "
        "export the model again [FN-04]"
    )


@pytest.mark.rule("TR-09")
def test_a_training_algorithm_continues_the_main_graph() -> None:
    def trained(*nodes: onnx.NodeProto, output: str = "t") -> list[str]:
        proto = model(node(outputs=("h",)), node(inputs=("h",)))
        proto.training_info.add().algorithm.CopyFrom(graph(*nodes, outputs=[value(output)], name="step"))
        return [str(found) for found in findings(proto) if found.code != "W-training-ignored"]

    assert trained(node(inputs=("h",), outputs=("t",))) == []
    assert trained(node(inputs=("h",), outputs=("t",)), node(outputs=("y",))) == [
        "training_info[0]/algorithm: 'y' must be a name of its own, not that of an outer value; rename the inner value "
        "[TR-09 W-training-name]"
    ]
    assert trained(node(inputs=("z",), outputs=("t",))) == [
        "training_info[0]/algorithm/node[0] 't' (Relu): 'z' must be a value of the graph, not undefined; "
        "export the model again [NM-14]"
    ]
    assert trained(node(outputs=("t",)), output="h") == [
        "training_info[0]/algorithm/output[0]: 'h' should be a value of the algorithm, not of the main graph; "
        "copy it with Identity [TR-09 W-training-output]"
    ]
    reading_the_algorithm = model(node(inputs=("t",)))
    reading_the_algorithm.training_info.add().algorithm.CopyFrom(graph(node(outputs=("t",)), outputs=[value("t")]))
    assert any("'t' must be a value of the graph, not undefined" in text for text in errors(reading_the_algorithm))


@pytest.mark.rule("NM-14")
def test_very_long_names_are_shortened() -> None:
    text = error_of(model(node(inputs=("a" * 1_000_000,))))
    assert len(text) < 400
    assert "a...a" in text
