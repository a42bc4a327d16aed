"""Static shapes: the rules SH that a file can break, and what reading makes of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from hwflow.onnx import TensorType, dumps, loads
from tests.onnx.rules.protos import F, error_of, errors, findings, graph, leniently, model, node, value, warned

DIM = "graph/input[0] 'x'/dim[0]: "


def with_dims(*dims: Any) -> onnx.ModelProto:
    return model(inputs=[value("x", F, dims)], outputs=[value("y", F, (None,) * len(dims))])


def read(shape: Sequence[Any] | None) -> Any:
    proto = model(inputs=[value("x", F, shape)], outputs=[value("y", F, shape)])
    found = loads(proto.SerializeToString()).graph.inputs[0].type
    assert isinstance(found, TensorType)
    return found.shape


@pytest.mark.rule("SH-01")
def test_a_shape_is_a_list_of_dimensions() -> None:
    assert read([2, "n", None]) == (2, "n", None)
    assert findings(with_dims(2, "n", None)) == ()


@pytest.mark.rule("SH-02")
def test_a_scalar_is_not_an_unknown_rank() -> None:
    assert read([]) == ()
    assert read(None) is None
    for shape in ([], None):
        proto = model(inputs=[value("x", F, shape)], outputs=[value("y", F, shape)])
        again = onnx.ModelProto.FromString(dumps(loads(proto.SerializeToString())))
        assert again.graph.input[0].type.tensor_type.HasField("shape") is (shape is not None)


@pytest.mark.rule("SH-04")
def test_a_dimension_may_be_unknown() -> None:
    proto = with_dims(None, None)
    assert [d.WhichOneof("value") for d in proto.graph.input[0].type.tensor_type.shape.dim] == [None, None]
    assert findings(proto) == ()
    assert read([None, 3]) == (None, 3)


@pytest.mark.rule("SH-05")
@pytest.mark.parametrize("name", ["batch size*2", "s0 + 1", "2n", "a.b", "größe"])
def test_names_of_dimensions_should_be_identifiers(name: str) -> None:
    assert warned(with_dims(name)) == (
        f"{DIM}the name of a dimension should be a C identifier, not '{name}'; it is only compared; "
        "nothing needs to be done [SH-05 W-dimname]"
    )
    assert read([name]) == (name,)


@pytest.mark.rule("SH-05")
def test_good_names_and_one_finding_for_each_bad_one() -> None:
    for name in ("batch", "_n", "N2"):
        assert findings(with_dims(name)) == ()
    assert len(findings(with_dims("a b", "a b", "c d"))) == 2


@pytest.mark.rule("SH-06")
def test_an_empty_name_is_an_unknown_dimension() -> None:
    assert warned(with_dims("")) == (
        f"{DIM}the name of a dimension should not be empty; it counts as unknown; "
        "leave it out or give it a name [SH-06 W-dimname]"
    )
    assert read([""]) == (None,)


@pytest.mark.rule("SH-07")
def test_a_star_is_a_name() -> None:
    assert warned(with_dims("*")) == (
        f"{DIM}'*' stands for one dimension like any name, not for any number of them; "
        "leave the shape out where the rank is not known [SH-07 W-dimname]"
    )
    assert read(["*", 2]) == ("*", 2)


@pytest.mark.rule("SH-12")
def test_negative_dimensions() -> None:
    assert leniently(with_dims(-1)) == (
        f"{DIM}a dimension must be 0 or more, not -1; it counts as unknown; "
        "leave it out or give it a name [SH-12 W-neg-dim]"
    )
    assert read([-1, 2]) == (None, 2)
    assert error_of(with_dims(-2)) == f"{DIM}a dimension must be 0 or more, not -2; export the model again [SH-12]"
    assert errors(with_dims(0)) == []
    assert read([0]) == (0,)


@pytest.mark.rule("SH-12")
def test_dimensions_are_seen_everywhere() -> None:
    """In values inside of the graph, in element types, in subgraphs, in attributes."""
    proto = model(node(outputs=("t",)), node(inputs=("t",)))
    proto.graph.value_info.append(value("t", F, (-3,)))
    assert "graph/value_info[0] 't'/dim[0]: " in error_of(proto)
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, [-3]))
    odd = onnx.ValueInfoProto(name="s", type=sequence)
    assert "graph/input[1] 's'/dim[0]: " in error_of(model(inputs=[value("x"), odd]))
    inner = graph(node("Relu", ("x",), ("b",)), outputs=[value("b", F, (-3,))], name="then")
    other = graph(node("Relu", ("x",), ("c",)), outputs=[value("c")], name="else")
    proto = model(node("If", ("p",), then_branch=inner, else_branch=other),
                  inputs=[value("x"), value("p", TensorProto.BOOL, ())])  # fmt: skip
    assert "graph/node[0] 'y' (If)/attribute 'then_branch'/output[0] 'b'/dim[0]: " in error_of(proto)
    optional = helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(F, [-3]))
    has = helper.make_node("OptionalHasElement", ["o"], ["y"])
    proto = model(optional, has, outputs=[value("y", TensorProto.BOOL, ())])
    assert "graph/node[0] 'o' (Optional)/attribute 'type'/dim[0]: " in error_of(proto)


@pytest.mark.rule("SH-14")
def test_names_of_dimensions_have_no_scopes() -> None:
    """A subgraph may use the names of the graph around it: they mean the same there, and nothing is hidden."""
    inner = graph(node("Relu", ("x",), ("b",)), outputs=[value("b", F, ("n",))], name="then")
    other = graph(node("Relu", ("x",), ("c",)), outputs=[value("c", F, ("n",))], name="else")
    inputs = [value("x", F, ("n",)), value("p", TensorProto.BOOL, ())]
    choice = node("If", ("p",), then_branch=inner, else_branch=other)
    assert findings(model(choice, inputs=inputs, outputs=[value("y", F, ("n",))])) == ()
