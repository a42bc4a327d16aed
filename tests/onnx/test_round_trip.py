"""Reading and writing again keeps a model: what it means, its texts and annotations, and fields that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import onnx
import onnx.helper as oh
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hwflow.onnx
from hwflow.onnx.errors import InvalidModel
from hwflow.onnx.model import (
    AttributeRef,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
)
from tests.onnx.full_model import UNUSED, full_model, unknown_field
from tests.onnx.protos import canonical, messages

SUITE = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").rglob("*.onnx"))


def require_same(found: onnx.ModelProto, expected: onnx.ModelProto, base_dir: str = "") -> None:
    found, expected = canonical(found), canonical(expected, base_dir)
    if found.SerializeToString(deterministic=True) != expected.SerializeToString(deterministic=True):
        lines = difflib.unified_diff(str(expected).split("\n"), str(found).split("\n"), lineterm="", n=4)
        pytest.fail("\n".join(line[:160] for _, line in zip(range(40), lines, strict=False)) or "unknown fields differ")


def again(proto: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.load_from_string(hwflow.onnx.dumps(hwflow.onnx.loads(proto.SerializeToString())))


def reachable(descriptor, seen: set[str]) -> set[str]:
    """Every field of a message and of those inside, as "Message.field"."""
    if descriptor.full_name not in seen:
        seen.add(descriptor.full_name)
        for field in descriptor.fields:
            seen.add(f"{descriptor.name}.{field.name}")
            if field.message_type is not None:
                reachable(field.message_type, seen)
    return seen


def test_the_full_model_uses_every_field() -> None:
    fields = {name for name in reachable(onnx.ModelProto.DESCRIPTOR, set()) if not name.startswith("onnx.")}
    used = {f"{m.DESCRIPTOR.name}.{d.name}" for m in messages(full_model()) for d, _ in m.ListFields()}
    assert fields - used == UNUSED | {"TensorProto.external_data", "TensorProto.data_location"}


@pytest.mark.rule("IR-21")
@pytest.mark.rule("DV-01")
@pytest.mark.rule("QA-01")
@pytest.mark.rule("TR-01")
def test_full_model() -> None:
    require_same(again(full_model()), full_model())


@pytest.mark.rule("IR-21")
@pytest.mark.rule("LM-03")
def test_unknown_fields_of_every_message() -> None:
    model = full_model(unknown=True)
    written = again(model)
    require_same(written, model)
    key = unknown_field(model)[:2]
    assert written.SerializeToString().count(key) == sum(1 for _ in messages(model))


@pytest.mark.rule("IR-21")
@pytest.mark.parametrize("path", SUITE, ids=lambda p: "-".join(p.parts[-2:]).removesuffix("-model.onnx"))
def test_models_of_the_suite(path) -> None:
    require_same(onnx.load_from_string(hwflow.onnx.dumps(hwflow.onnx.load(path))), onnx.load(path))


def test_third_party_models(models_dir: Path) -> None:
    paths = sorted(models_dir.rglob("*.onnx"))
    assert paths
    for path in paths:
        written = onnx.load_from_string(hwflow.onnx.dumps(hwflow.onnx.load(path)))
        require_same(written, onnx.load(path), str(path.parent))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_models_of_the_node_suite() -> None:
    from onnx.backend.test.case.node import collect_testcases  # it runs every kernel of onnx

    cases = [case for case in collect_testcases(None) if case.model is not None]
    assert len(cases) > 1000
    for case in cases:
        require_same(again(case.model), case.model)


#: Texts that nothing needs; removing some of them must leave all others in their place.
REMOVABLE = ("doc_string", "metadata_props", "denotation", "device_configurations", "quantization_annotation")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 32), st.booleans())
def test_some_of_the_texts(seed, unknown) -> None:
    random = Random(seed)
    model = full_model(unknown)
    for message in messages(model):
        for descriptor, _ in message.ListFields():
            if descriptor.name in REMOVABLE and random.random() < 0.5:
                message.ClearField(descriptor.name)
    require_same(again(model), model)


DIMS = st.one_of(st.none(), st.integers(0, 1 << 62), st.text("abn", min_size=1, max_size=3))
SHAPES = st.one_of(st.none(), st.lists(DIMS, max_size=4))
LEAVES = st.one_of(
    st.builds(oh.make_tensor_type_proto, st.integers(1, 28), SHAPES),
    st.builds(oh.make_sparse_tensor_type_proto, st.integers(1, 28), SHAPES),
)


def wrap(inner: st.SearchStrategy) -> st.SearchStrategy:
    keys = st.sampled_from([2, 3, 4, 5, 6, 7, 8, 12, 13])
    return st.one_of(
        st.builds(oh.make_sequence_type_proto, inner),
        st.builds(oh.make_optional_type_proto, inner),
        st.builds(oh.make_map_type_proto, keys, inner),
    )


@settings(max_examples=50, deadline=None)
@given(st.recursive(LEAVES, wrap, max_leaves=4))
def test_types(kind: onnx.TypeProto) -> None:
    value = onnx.ValueInfoProto(name="x", type=kind)
    graph = onnx.GraphProto(name="g", input=[value], value_info=[onnx.ValueInfoProto(name="z", type=kind)])
    graph.node.add(op_type="Foo").attribute.add(name="a", type=onnx.AttributeProto.TYPE_PROTO, tp=kind)
    model = oh.make_model(graph, ir_version=14)
    require_same(again(model), model)


@pytest.mark.rule("FN-02")
@pytest.mark.rule("IR-10")
@pytest.mark.rule("TR-01")
def test_what_a_model_holds() -> None:
    """The parts that have fields of their own are read into them, not only kept."""
    model = hwflow.onnx.loads(full_model().SerializeToString())
    assert [f.key for f in model.functions] == [("test", "f", "one"), ("test", "f", "two")]
    assert model.model_version == -5
    function = model.functions[0]
    assert (function.attributes, function.defaults, function.opsets) == (("alpha",), {"beta": 0.5}, {"": 20, "test": 3})
    assert function.nodes[0].attributes == {"s": AttributeRef("alpha", 1)}
    assert [(t.initialization_binding, t.update_binding) for t in model.training] == [({"w": "iy"}, {"w": "ay"})] * 2
    assert model.training[0].algorithm is not None
    graph = model.graph
    assert ([v.name for v in graph.inputs], [v.name for v in graph.overridable]) == (["x"], ["w"])
    assert graph.sparse_initializers["s"].shape == (2, 3)
    call = graph.nodes[-1]
    assert (call.overload, call.inputs, call.outputs) == ("two", ("y", ""), ("", "z"))
    assert call.attributes["a3"] == b"\xff no text"
    tensor = TensorType(np.dtype(np.float32), (2, "n", None))
    int64 = np.dtype(np.int64)
    assert call.attributes["a14"] == (
        tensor, SparseTensorType(np.dtype(np.float32), (3, 4)), OpaqueType("com.acme", "thing"),
        TensorType(int64, ()), TensorType(int64, None), SequenceType(tensor), OptionalType(SequenceType(tensor)),
        MapType(np.dtype(object), tensor),
    )  # fmt: skip


def test_extras_follow_what_they_belong_to() -> None:
    """Code that replaces parts of a model keeps the texts of the others, and none of them goes astray."""
    model = hwflow.onnx.loads(full_model().SerializeToString())
    graph = model.graph
    call = replace(graph.nodes[-1], attributes={"empty6": (1, 2), "a1": 2.5})
    changed = replace(
        graph, nodes=(*graph.nodes[:-1], call), overridable=(), inputs=graph.inputs[::-1],
        initializers={"new": np.zeros(1), "w": graph.initializers["w"]}, types={},
    )  # fmt: skip
    written = onnx.load_from_string(hwflow.onnx.dumps(replace(model, graph=changed))).graph
    assert [(t.name, t.doc_string) for t in written.initializer] == [("new", ""), ("w", "tensor w")]
    assert [(a.name, a.type, a.doc_string) for a in written.node[-1].attribute] == [
        ("empty6", onnx.AttributeProto.INTS, ""), ("a1", onnx.AttributeProto.FLOAT, "attribute"),
    ]  # fmt: skip
    assert not written.value_info
    assert written.node[0].doc_string == "node"


def test_common_models_have_no_extras() -> None:
    model = hwflow.onnx.load(next(path for path in SUITE if "test_operator_conv" in str(path)))
    assert not model.extra
    assert not any(node.extra for node in model.graph.nodes)


def twice(field: str) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        entries = getattr(model.graph, field)
        entries.add().CopyFrom(entries[0])

    return change


def contradicting_type(model: onnx.ModelProto) -> None:
    model.graph.value_info.add().CopyFrom(model.graph.value_info[0])
    model.graph.value_info[-1].type.tensor_type.elem_type = 7


def value_and_reference(model: onnx.ModelProto) -> None:
    model.functions[0].node[0].attribute[0].f = 1


REFUSED: Iterable[tuple[Callable[[onnx.ModelProto], None], str]] = [
    (twice("initializer"), "initializer 'w' must be there once, not twice"),
    (twice("sparse_initializer"), "sparse initializer 's' must be there once, not twice"),
    (lambda m: m.graph.initializer.add().CopyFrom(m.graph.sparse_initializer[0].values),
     "initializer 's' must be dense or sparse, not both"),
    (contradicting_type, "the type of value 'main_inner' must be stated once, not twice"),
    (value_and_reference, "must have a value or refer to 'alpha', not both"),
    (lambda m: m.training_info[0].update_binding.add(key="w"),
     "training_info[0]: update of 'w' must be there once, not twice"),
    (lambda m: m.functions[0].attribute_proto.add().CopyFrom(m.functions[0].attribute_proto[0]),
     "function 'test.f': attribute 'beta' must be there once, not twice"),
    (lambda m: m.metadata_props.add(key="com.acme.key"),
     "metadata property 'com.acme.key' must be there once, not twice"),
    (lambda m: m.graph.node[-1].attribute.add(name="g", type=5), "must have a value, not none"),
    (lambda m: m.graph.node[-1].attribute.add(name="p", type=13).tp.SetInParent(), "must be a type, not one without"),
    (lambda m: m.graph.input[0].type.tensor_type.shape.dim.add(dim_value=-2), "must not be negative, not -2"),
    (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99),
     "the element type of value 'w' must be one of ONNX's 28, not number 99"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_a_model_cannot_express(change, message) -> None:
    model = full_model()
    change(model)
    with pytest.raises(InvalidModel) as caught:
        hwflow.onnx.loads(model.SerializeToString(), "m.onnx")
    assert str(caught.value).startswith("m.onnx: ")
    assert message in str(caught.value)


def test_partial_types_are_kept() -> None:
    """A shape without element type is no type for a Model, and still in the file when it is written."""
    value = onnx.ValueInfoProto(name="x", doc_string="partial")
    value.type.tensor_type.shape.dim.add(dim_value=3)
    model = oh.make_model(onnx.GraphProto(name="g", input=[value]), ir_version=14)
    assert hwflow.onnx.loads(model.SerializeToString()).graph.inputs[0].type is None
    require_same(again(model), model)


@pytest.mark.rule("TY-03")
@pytest.mark.parametrize(
    "found",
    ["tensor w", "com.acme.key", "DATA_CHANNEL", "SCALE_TENSOR", "test", "IMAGE", "main_inner", "thing", "call"],
)
def test_texts_that_are_no_utf8(found) -> None:
    """Found by fuzzing: also in what is only kept."""
    data = full_model().SerializeToString()
    damaged = data.replace(found.encode(), found.encode()[:-1] + b"\xff")
    assert damaged != data
    with pytest.raises(InvalidModel, match="names must be UTF-8 text, not b'"):
        hwflow.onnx.loads(damaged)
