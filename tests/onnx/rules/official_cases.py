"""Models that onnx.checker.check_model(full_check=True) refuses, by name; see test_official.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx
from onnx import AttributeProto, ModelProto, TensorProto, helper

from tests.onnx.rules.protos import BOOL, I64, F, graph, model, node, tensor, value, weight, with_tensor

STRING = TensorProto.STRING


def changed(change: Callable[[ModelProto], Any], **parts: Any) -> ModelProto:
    """The usual model after a change."""
    proto = model(**parts)
    change(proto)
    return proto


def clear(name: str) -> Callable[[ModelProto], Any]:
    return lambda proto: proto.ClearField(name)


def branch(*nodes: onnx.NodeProto, **parts: Any) -> onnx.GraphProto:
    return graph(*nodes, **{"outputs": [value("t")], "name": "b", **parts})


def nested(then: onnx.GraphProto, *more: onnx.NodeProto) -> ModelProto:
    """An If whose other branch is a Relu, and nodes behind it."""
    other = branch(node(outputs=("e",)), outputs=[value("e")])
    outside = node("If", ("c",), ("z",) if more else ("y",), then_branch=then, else_branch=other)
    return model(outside, *more, inputs=[value("x"), value("c", BOOL, ())])


def attributed(*attributes: AttributeProto, op: str = "LeakyRelu") -> ModelProto:
    made = node(op)
    made.attribute.extend(attributes)
    return model(made)


def function(name: str = "Foo", *nodes: onnx.NodeProto, opset: int = 17) -> onnx.FunctionProto:
    body = list(nodes) or [node("Relu", ("a",), ("b",))]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.acme", 1)]
    return helper.make_function("com.acme", name, ["a"], ["b"], body, opsets)


def calling(*functions: onnx.FunctionProto, imports: tuple[tuple[str, int], ...] = (("com.acme", 1),)) -> ModelProto:
    call = node("Foo", domain="com.acme")
    return model(call, ir=10, imports=[("", 17), *imports], functions=functions)


def call_of(name: str) -> onnx.NodeProto:
    return node(name, ("a",), ("b",), domain="com.acme")


def conditional_call(name: str) -> onnx.NodeProto:
    inner = branch(node(name, ("a",), ("t",), domain="com.acme"))
    return helper.make_node("If", ["a"], ["b"], then_branch=inner, else_branch=inner)


def sparse(numbers: tuple[float, ...], places: tuple[int, ...], dims: tuple[int, ...]) -> ModelProto:
    values = weight("w", F, (len(numbers),), numbers)
    made = helper.make_sparse_tensor(values, weight("", I64, (len(places),), places), dims)
    proto = model(node("Add", ("x", "w")), inputs=[value("x", shape=dims)], outputs=[value("y", shape=dims)], ir=11)
    proto.graph.sparse_initializer.append(made)
    return proto


def typed_value(where: str, part: str, stated: Any) -> ModelProto:
    """A field of the tensor type of the input or the output replaced, or cleared with None."""
    proto = model()
    found = getattr(proto.graph, where)[0].type.tensor_type
    found.ClearField(part) if stated is None else setattr(found, part, stated)
    return proto


def shapes(op: str, first: tuple[int, ...], second: tuple[int, ...]) -> ModelProto:
    return model(node(op, ("x", "z")), inputs=[value("x", shape=first), value("z", shape=second)])


def _with_value_info(stated: onnx.ValueInfoProto) -> ModelProto:
    proto = model(node(outputs=("a",)), node(inputs=("a",)))
    proto.graph.value_info.append(stated)
    return proto


ALPHA = helper.make_attribute("alpha", 0.5)
W = weight("w")

CASES: Mapping[str, Callable[[], ModelProto]] = {
    "M-ir0": lambda: changed(clear("ir_version")),
    "M-ir0b": lambda: model(ir=0),
    "M-irneg": lambda: model(ir=-1),
    "M-ir9999": lambda: model(ir=9999),
    "M-noopset": lambda: model(imports=[]),
    "M-ir1": lambda: model(ir=1),
    "M-ir2no": lambda: model(ir=2, imports=[]),
    "M-nograph": lambda: changed(clear("graph")),
    "M-metadup": lambda: changed(lambda p: [p.metadata_props.add(key="k", value=v) for v in "ab"]),
    "M-opset0": lambda: model(opset=0),
    "M-opsetneg": lambda: model(opset=-1),
    "M-opsethuge": lambda: model(opset=1 << 40),
    "M-nodealias": lambda: model(node(domain="ai.onnx")),
    "O-unknown": lambda: model(node("Frobnicate")),
    "O-case": lambda: model(node("relu")),
    "O-custom-noimp": lambda: model(node("Foo", domain="com.acme")),
    "O-future": lambda: model(node("Gelu"), opset=17),
    "O-depr": lambda: model(node("Upsample", ("x", "w")), initializers=[W], opset=10),
    "S-cycle": lambda: model(node("Add", ("x", "b"), ("a",)), node("Relu", ("a",), ("b",)), node("Relu", ("b",))),
    "S-self": lambda: model(node("Add", ("x", "y"))),
    "S-noout": lambda: model(node(), node(outputs=())),
    "S-noio": lambda: model(node(), node(inputs=(), outputs=())),
    "S-unsorted": lambda: model(node(inputs=("a",)), node(outputs=("a",))),
    "S-undef": lambda: model(node(inputs=("nowhere",))),
    "S-outin": lambda: model(node(outputs=("x",)), node()),
    "S-outinit": lambda: model(node(outputs=("w",)), node(), initializers=[W]),
    "S-dupout": lambda: model(node(), node("Neg")),
    "S-dupout1": lambda: model(node("Dropout", outputs=("y", "y"))),
    "SG-noname": lambda: nested(branch(node(outputs=("t",)), name="")),
    "SG-unsorted": lambda: nested(branch(node(inputs=("u",), outputs=("t",)), node(outputs=("u",)))),
    "SG-later": lambda: nested(branch(node(inputs=("y",), outputs=("t",))), node()),
    "SG-shadow": lambda: nested(branch(node(outputs=("x",)), outputs=[value("x")])),
    "SG-shadowcond": lambda: nested(branch(node(outputs=("c",)), outputs=[value("c")])),
    "SG-leak": lambda: nested(branch(node(outputs=("t",))), node(inputs=("t",))),
    "SG-initinput": lambda: nested(
        branch(node(inputs=("w",), outputs=("t",)), inputs=[value("w")], initializers=[W])
    ),
    "SG-passthru": lambda: nested(branch(outputs=[value("x")])),
    "G-noname": lambda: model(name=""),
    "G-outnotdef": lambda: model(outputs=[value("nowhere")]),
    "G-dupin": lambda: model(inputs=[value("x"), value("x")]),
    "G-inname": lambda: model(inputs=[value("x"), value("")]),
    "G-viconflict": lambda: _with_value_info(value("a", shape=(3,))),
    "G-intype": lambda: changed(lambda p: p.graph.input[0].ClearField("type")),
    "G-elemundef": lambda: typed_value("input", "elem_type", 0),
    "G-elem99": lambda: typed_value("input", "elem_type", 99),
    "G-inshape": lambda: typed_value("input", "shape", None),
    "G-outshape": lambda: typed_value("output", "shape", None),
    "G-outconflict": lambda: model(outputs=[value("y", shape=(3,))]),
    "G-outtype": lambda: model(outputs=[value("y", I64)]),
    "I-ir3": lambda: model(node("Add", ("x", "w")), initializers=[W], ir=3),
    "I-dup": lambda: model(node("Add", ("x", "w")), initializers=[W, W]),
    "I-noname": lambda: model(initializers=[weight("")]),
    "I-typemis": lambda: model(node("Add", ("x", "w")), inputs=[value("x"), value("w", I64)], initializers=[W]),
    "I-shapemis": lambda: model(
        node("Add", ("x", "w")), inputs=[value("x"), value("w", shape=(3,))], initializers=[W]
    ),
    "O-empty": lambda: model(node("")),
    "O-few": lambda: model(node("Add")),
    "O-many": lambda: model(node("Relu", ("x", "x"))),
    "O-manyout": lambda: model(node(outputs=("y", "z"))),
    "O-type": lambda: model(node("And", ("x", "x")), outputs=[value("y", BOOL)]),
    "O-typemix": lambda: model(node("Add", ("x", "w")), initializers=[weight("w", I64)]),
    "O-shape": lambda: shapes("MatMul", (2, 3), (4, 2)),
    "O-bcast": lambda: shapes("Add", (2,), (3,)),
    "O-vari0": lambda: model(node("Sum", ())),
    "O-emptytrail": lambda: model(node("Relu", ("x", ""))),
    "O-emptyreq": lambda: model(node("Add", ("x", ""))),
    "O-emptyout": lambda: model(node(), node(outputs=("",))),
    "A-dup": lambda: attributed(ALPHA, ALPHA),
    "A-noname": lambda: attributed(AttributeProto(type=AttributeProto.FLOAT, f=0.5)),
    "A-notype": lambda: attributed(AttributeProto(name="alpha", f=0.5)),
    "A-type0": lambda: attributed(AttributeProto(name="alpha", type=0, f=0.5)),
    "A-mismatch": lambda: attributed(AttributeProto(name="alpha", type=AttributeProto.FLOAT, i=1)),
    "A-two": lambda: attributed(AttributeProto(name="alpha", type=AttributeProto.FLOAT, f=0.5, i=1)),
    "A-emptylist": lambda: window(AttributeProto(name="pads", type=AttributeProto.INTS)),
    "A-schema": lambda: attributed(helper.make_attribute("alpha", 1)),
    "A-unk": lambda: attributed(helper.make_attribute("frobnicate", 1)),
    "A-missing": lambda: model(node("Cast")),
    "A-castto": lambda: model(node("Cast", to=99)),
    "A-perm": lambda: model(node("Transpose", perm=[0, 0])),
    "T-undef": lambda: with_tensor(tensor(data_type=0, raw_data=bytes(8))),
    "T-99": lambda: model(
        node("Add", ("x", "w")), initializers=[tensor(data_type=99, raw_data=bytes(8))]
    ),
    "T-two": lambda: with_tensor(tensor(raw_data=bytes(8), float_data=[1, 2])),
    "T-wrongfield": lambda: with_tensor(tensor(int64_data=[1, 2])),
    "T-none": lambda: with_tensor(tensor()),
    "T-strraw": lambda: with_tensor(tensor(data_type=STRING, raw_data=b"ab")),
    "T-short": lambda: with_tensor(tensor(raw_data=bytes(4))),
    "T-fshort": lambda: with_tensor(tensor(float_data=[1])),
    "T-neg": lambda: with_tensor(tensor(dims=[-2], raw_data=bytes(8))),
    "T-huge": lambda: with_tensor(tensor(dims=[1 << 40], raw_data=bytes(8))),
    "T-huge1": lambda: with_tensor(tensor(dims=[1 << 62, 4], raw_data=bytes(8))),
    "t04_neg_neg": lambda: with_tensor(tensor(dims=[-2, -1], raw_data=bytes(8))),
    "T-zerodata": lambda: with_tensor(tensor(dims=[0], raw_data=bytes(8))),
    "TY-seq": lambda: changed(lambda p: p.graph.input[0].type.sequence_type.SetInParent()),
    "N-dimneg": lambda: model(inputs=[value("x", shape=(-1,))], outputs=[value("y", shape=(3,))]),
    "F-dup": lambda: calling(function(), function()),
    "F-self": lambda: calling(function("Foo", call_of("Foo"))),
    "F-cycle": lambda: calling(function("Foo", call_of("Bar")), function("Bar", call_of("Foo"))),
    "g38_func_cycle_in_if": lambda: calling(function("Foo", conditional_call("Foo"))),
    "g40_func_chain_5000": lambda: calling(
        function("Foo", call_of("F1")), *(function(f"F{i}", call_of(f"F{i + 1}")) for i in range(1, 5000)),
        function("F5000"),
    ),
    "F-outer": lambda: calling(function("Foo", node("Add", ("a", "x"), ("b",)))),
    "F-noimport": lambda: calling(function(), imports=()),
    "F-ver": lambda: calling(function("Foo", node("ReduceSum", ("a",), ("b",)), opset=11)),
    "SP-ok": lambda: sparse((1, 2), (0, 2), (3,)),
    "SP-oob": lambda: sparse((1, 2), (0, 3), (3,)),
    "SP-unsorted": lambda: sparse((1, 2), (2, 0), (3,)),
    "SP-dup": lambda: sparse((1, 2), (1, 1), (3,)),
    "SP-nnz": lambda: sparse((1, 2), (0,), (3,)),
    "SP-rank0": lambda: sparse((1,), (0,), ()),
    "SP-over": lambda: sparse((1, 2), (0, 1), (1 << 32, 1 << 32)),
    "e03_tile_bomb": lambda: model(node("Tile", ("x", "r")), initializers=[weight("r", I64, (1,), [1 << 40])]),
    "e19_splitseq_zero": lambda: model(
        node("SplitToSequence", ("x", "s"), ("q",)), node("SequenceAt", ("q", "i")),
        initializers=[weight("s", I64, (), [0]), weight("i", I64, (), [0])],
    ),
}  # fmt: skip


def window(attribute: AttributeProto) -> ModelProto:
    shape = (1, 1, 4)
    made = node("MaxPool", kernel_shape=[1])
    made.attribute.append(attribute)
    return model(made, inputs=[value("x", shape=shape)], outputs=[value("y", shape=shape)])
