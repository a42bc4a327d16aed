"""Models for the rules about nodes, attributes, types, shapes and tensors (ND, VA, OP, AT, TY, SH, TD, SP)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, TypeProto, helper

from tests.onnx.rules.cases_models import C, Case, Cases, chosen, plain, typed
from tests.onnx.rules.protos import (
    BOOL,
    BYTES,
    I64,
    F,
    constant,
    graph,
    model,
    node,
    tensor,
    value,
    weight,
    with_tensor,
)

STRING, INT4 = TensorProto.STRING, TensorProto.INT4
WEIGHTS = [weight("w", I64), weight("n", dims=(), numbers=(1,))]


def signed(op: str, inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ("y",), **attributes: Any) -> Case:
    """A node of x and of the weights w, two integers, and n, a float."""
    made = node(op, inputs, outputs, **attributes)
    return plain(made, *([] if "y" in outputs else [node()]), initializers=WEIGHTS)


def batch_norm(outputs: Sequence[str], opset: int, **attributes: int) -> Case:
    made = node("BatchNormalization", ["i", "s", "b", "m", "v"], outputs, **attributes)
    shape = [value(name, F, (1, 2, 3)) for name in ("i", "y")]
    return plain(made, inputs=shape[:1], outputs=shape[1:], initializers=[weight(name) for name in "sbmv"], opset=opset)


LATER = ("y", "o1", "o2", "o3", "o4")
IF = (graph(node("Add", ("s", "x"), ("b",)), outputs=[value("b")], name="then"),
      graph(node("Identity", ("x",), ("c",)), outputs=[value("c")], name="else"))  # fmt: skip
NODES: Cases = {
    "ND-01": {
        "no names": plain(node(outputs=("t",)), node(inputs=("t",))),
        "names of values": plain(node(outputs=("t",), name="y"), node(inputs=("t",), name="x")),
        **{f"a message about {name or 'no name'}": plain(node("Relu", ("x", "x"), name=name)) for name in ("", "act")},
        "no outputs": plain(node("Relu", ("x",), ()), node()),
    },
    "ND-02": {"swapped": signed("Gather", "wx"), "as they are": plain(
        node("Gather", ("x", "i")), initializers=[weight("i", I64, (2,), [0, 1])])},
    "ND-03": {"no operator": plain(node(""))},
    "ND-04": {f"{' and '.join(given)}": plain(
        node("Gemm", ("x", "x"), **given), inputs=[value("x", F, (2, 2))], outputs=[value("y", F, (2, 2))])
        for given in ({"transB": 1, "alpha": 0.5}, {"alpha": 0.5, "transB": 1})},
    "ND-05": {
        "one input of two": signed("Add"), "three": signed("Add", "xxx"), "none of three": signed("Clip", ()),
        "two outputs": signed("Relu", "x", "yz"), "no output": signed("Relu", "x", ()), "no bool": signed("And", "xx"),
        "no integer": signed("BitShift", "xx", direction="LEFT"), "two types": signed("Add", "xw"),
        "two types in a list": signed("Max", "xw"), "a condition": signed("Where", "xxx"),
        "no sequence": signed("ConcatFromSequence", axis=0),
        **{f"right {op} of {''.join(inputs)}": signed(op, inputs) for op, inputs in (
            ("Add", "xx"), ("Clip", ["x"]), ("Clip", ["x", "", "n"]), ("Max", "xxx"), ("CastLike", "xx"),
            ("Pow", "xw"))},
        "from node to node": plain(
            node("Shape", "x", "s"), node("Gather", "ss", "t"), node("Neg", "t", "u"), node("Add", "ux")),
        "into a subgraph": plain(
            node("Shape", "x", "s"), node("If", "p", "y", then_branch=IF[0], else_branch=IF[1]),
            inputs=[value("x"), value("p", BOOL, ())]),
        "through a sequence": plain(
            node("SequenceConstruct", "xx", "s"), node("ConcatFromSequence", "s", "t", axis=0), node("And", "tt"),
            outputs=[value("y", BOOL)]),
        "an output of another type": plain(node("And", ("x", "x")), outputs=[value("y", BOOL)]),
    },
    "VA-01": {f"{op} of {count}": plain(node(op, ["x"] * count, **more), outputs=[value("y", F, (None,))])
              for op, more in (("Max", {}), ("Sum", {}), ("Concat", {"axis": 0})) for count in (0, 1, 2, 20)},
    "VA-02": {"a variadic input left out": plain(node("Max", ("x", ""))), "a variadic output": plain(
        node("Split", ("x",), ("", "y"), axis=0, num_outputs=2), opset=18, outputs=[value("y", F, (1,))])},
    "OP-01": {f"Clip of {','.join(inputs)}": signed("Clip", inputs) for inputs in (
        ["x"], ["x", ""], ["x", "", ""], ["x", "", "n"], ["x", "n", ""], ["x", "n", "n"])},
    "OP-02": {"an empty name counts": plain(node("Clip", ("x", "", "", ""))), "of one": plain(node("Relu", ("x", "")))},
    "OP-03": {"the second": plain(node("Add", ("x", ""))), "the first": plain(node("Add", ("", "x"))),
              "an output": plain(node("TopK", ("x", "k"), ("", "i"), axis=0), node(), initializers=[
                  weight("k", I64, (1,), [1])]), "the only output": plain(node(), node(outputs=("",)))},
    "OP-04": {"two outputs": plain(node("Dropout", ("x",), ("y", ""))), "one": plain(node("Dropout", ("x",), ("y",))),
              "of a pool": plain(node("MaxPool", ("i",), ("y", ""), kernel_shape=[1]),
                                 inputs=[value("i", F, (1, 1, 4))], outputs=[value("y", F, (1, 1, 4))])},
    "OP-05": {
        "statistics of inference": batch_norm(["y", "mean", "var"], 15),
        "without names": batch_norm(["y", "", ""], 15), "one output": batch_norm(["y"], 15),
        "of training": batch_norm(["y", "mean", "var"], 15, training_mode=1),
        "is_test": batch_norm(LATER, 6, is_test=1), "no is_test": batch_norm(LATER, 6),
        "version 9": batch_norm(LATER, 9),
        **{f"a mask in {opset} {more}": plain(node("Dropout", ("x",), ("y", "m"), **more), opset=opset)
           for opset, more in ((6, {"is_test": 1}), (6, {}), (13, {}))},
    },
}  # fmt: skip


def with_attributes(*attributes: AttributeProto, op: str = "LeakyRelu", **more: Any) -> ModelProto:
    made = node(op)
    made.attribute.extend(attributes)
    return model(made, **more)


def attributed(*attributes: AttributeProto, op: str = "LeakyRelu", **more: Any) -> Case:
    return lambda: with_attributes(*attributes, op=op, **more)


def alpha(**fields: Any) -> AttributeProto:
    return AttributeProto(**{"name": "alpha", "type": AttributeProto.FLOAT, "f": 0.5} | fields)


def without_type() -> AttributeProto:
    made = alpha()
    made.ClearField("type")
    return made


def window(**attributes: Any) -> Case:
    made = node("MaxPool", kernel_shape=[1])
    made.attribute.extend([AttributeProto(name=name, **fields) for name, fields in attributes.items()])
    return plain(made, inputs=[value("x", F, (1, 1, 4))], outputs=[value("y", F, (1, 1, 4))])


def conv(**attributes: Any) -> Case:
    return plain(node("Conv", ("x", "w"), **attributes), inputs=[value("x", F, (1, 1, 4, 4))],
                 outputs=[value("y", F, (None,) * 4)], initializers=[weight("w", F, (1, 1, 1, 1), [1])])  # fmt: skip


def transpose(*perm: int) -> Case:
    return plain(node("Transpose", perm=perm), inputs=[value("x", F, (2,) * len(perm))],
                 outputs=[value("y", F, (2,) * len(perm))])  # fmt: skip


def lstm(*names: str) -> Case:
    return plain(node("LSTM", ("x", "w", "r"), hidden_size=1, activations=names), inputs=[value("x", F, (1, 1, 1))],
                 outputs=[value("y", F, (None,) * 4)], initializers=[
                     weight(name, F, (1, 4, 1), range(4)) for name in "wr"])  # fmt: skip


def leaky(reference: AttributeProto, *attributes: str) -> Case:
    """A function whose LeakyRelu has the attribute, called."""
    inner = node("LeakyRelu", ("a",), ("b",))
    inner.attribute.append(reference)
    made = helper.make_function("loc", "Leaky", ["a"], ["b"], [inner], [helper.make_opsetid("", 17)], attributes)
    return plain(node("Leaky", domain="loc", **dict.fromkeys(attributes, 0.5)), imports=[("", 17), ("loc", 1)],
                 functions=[made])  # fmt: skip


def default_of_a_function() -> ModelProto:
    relu, opsets = node("Relu", ("a",), ("b",)), [helper.make_opsetid("", 17)]
    made = helper.make_function("loc", "Same", ["a"], ["b"], [relu], opsets)
    made.attribute_proto.append(AttributeProto(name="k", type=AttributeProto.INT, ref_attr_name="other"))
    return model(node("Same", domain="loc"), imports=[("", 17), ("loc", 1)], functions=[made])


def text_of_bytes() -> ModelProto:
    odd = AttributeProto(name="value_string", type=AttributeProto.STRING, s=b"\xff\xfe")
    proto = with_attributes(odd, op="Constant", outputs=[value("y", STRING, ())])
    proto.graph.node[0].ClearField("input")
    return proto


def optional(**parts: Any) -> Case:
    made = helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(F, [2]))
    return plain(made, helper.make_node("OptionalHasElement", ["o"], ["y"]), outputs=[value("y", BOOL, ())], **parts)


SPARSE = helper.make_sparse_tensor(weight("", F, (1,), [1]), weight("", I64, (1,), [0]), [2])
FLOAT = AttributeProto.FLOAT
REFERENCE = AttributeProto(name="alpha", type=FLOAT, ref_attr_name="slope")
UNFIT = (graph(node("LeakyRelu", ("x",), ("b",), slope=1.0), outputs=[value("b")], name="then"), IF[1])
ATTRIBUTES: Cases = {
    "AT-02": {"twice": attributed(alpha(), alpha(f=0.25)), "named like a value": plain(
        node("LeakyRelu", ("alpha",), alpha=0.5), inputs=[value("alpha")])},
    "AT-03": {"no name": attributed(alpha(name="")), "no type": attributed(without_type()),
              "type 0": attributed(alpha(type=AttributeProto.UNDEFINED)), "both": attributed(alpha()),
              **{f"no type in IR version 1, {fields}": attributed(AttributeProto(name="alpha", **fields), ir=1, opset=1)
                 for fields in ({"f": 0.5}, {"i": 1}, {})}},
    "AT-04": {"in another field": attributed(AttributeProto(name="alpha", type=FLOAT, i=1))},
    "AT-05": {f"in {' and '.join(fields)} too": attributed(alpha(**fields))
              for fields in ({"i": 1}, {"ints": [1]}, {"i": 0, "s": b""})},
    "AT-06": {"zero": attributed(AttributeProto(name="alpha", type=FLOAT)),
              "integer zero": attributed(AttributeProto(name="axis", type=AttributeProto.INT), op="Softmax"),
              "an empty list": window(pads={"type": AttributeProto.INTS}),
              "a tensor": lambda: model(onnx.NodeProto(op_type="Constant", output=["y"], attribute=[
                  AttributeProto(name="value", type=AttributeProto.TENSOR)]))},
    "AT-07": {"a text that is not UTF-8": text_of_bytes},
    "AT-08": {**{f"a sparse tensor in IR version {ir}": plain(
        helper.make_node("Constant", [], ["y"], sparse_value=SPARSE), ir=ir, opset=11) for ir in (5, 8)},
        **{f"a type in IR version {ir}": optional(ir=ir) for ir in (7, 8)}},
    "AT-09": {"a description": attributed(alpha(doc_string="<b>&"))},
    "AT-10": {
        "another kind": plain(node("LeakyRelu", alpha=1)), "unknown": plain(node("LeakyRelu", beta=1.0)),
        "of none": plain(node("Relu", alpha=1.0)), "missing": plain(node("Concat")), "Cast": plain(node("Cast")),
        "no list": plain(node("Transpose", perm=0)), "a list of floats": plain(node("Transpose", perm=[0.5])),
        "left behind": plain(node("Relu", consumed_inputs=[0, 0])), "spatial": plain(node("Relu", spatial=1)),
        "axis of a sum": plain(node("Add", ("x", "x"), axis=1, broadcast=1)),
        "is_test": plain(node("Dropout", is_test=1)), "min of Clip": plain(node("Clip", min=0.0)),
        "in a subgraph": plain(node("If", ("c",), then_branch=UNFIT[0], else_branch=UNFIT[1]), inputs=[value("x"), C]),
    },
    "AT-11": {
        **{f"a convolution with {given}": conv(**given) for given in (
            {"auto_pad": "SAME"}, {"auto_pad": "valid"}, {"strides": [0, 1]}, {"dilations": [1, -1]}, {"group": 0},
            {"pads": [0, 0, 0, -1]}, {"pads": [0, 0, 0]}, {"kernel_shape": [1, 1], "strides": [1]},
            {"auto_pad": "SAME_UPPER"},
            {"kernel_shape": [1, 1], "strides": [1, 2], "dilations": [1, 1], "pads": [0, 1, 0, 1]})},
        **{f"a permutation {perm}": transpose(*perm) for perm in ((0, 0), (0, 2), (1, 0), (2, 0, 1))},
        **{f"Cast to {code}": plain(node("Cast", to=code)) for code in (99, 0, TensorProto.COMPLEX64, F)},
        **{f"EyeLike of {code}": plain(node("EyeLike", dtype=code), inputs=[value("x", F, (2, 2))],
                                       outputs=[value("y", F, (2, 2))]) for code in (8, 1)},
        "stash_type": plain(node("LayerNormalization", ("x", "x"), stash_type=7)),
        "two values": plain(helper.make_node("Constant", [], ["y"], value_float=1.0, value_int=1)),
        "no value": plain(helper.make_node("Constant", [], ["y"])),
        **{f"a Pad that wraps in {opset}": plain(
            node("Pad", ("x", "p"), mode="wrap"), opset=opset, outputs=[value("y", F, (None,))],
            initializers=[weight("p", I64)]) for opset in (17, 19)},
        "activations": lstm("Sigmoid", "Tanh", "relu"), "another activation": lstm("Sigmoid", "Tanh", "Gelu"),
        "not a number": plain(node("LeakyRelu", alpha=math.nan)),
    },
    "AT-12": {
        "a reference outside of a function": attributed(REFERENCE), "inside": leaky(REFERENCE, "slope"),
        "with a value": leaky(AttributeProto(name="alpha", type=FLOAT, ref_attr_name="slope", f=0.5), "slope"),
        "as the default of a function": default_of_a_function,
    },
}  # fmt: skip


def reading(proto: TypeProto, *, ir: int = 14, opset: int = 28) -> Case:
    """A graph with an input of a type that nothing reads."""
    return plain(inputs=[value("x"), onnx.ValueInfoProto(name="odd", type=proto)], ir=ir, opset=opset)


def tensors(code: int) -> TypeProto:
    return helper.make_tensor_type_proto(code, [2])


NEW = {"int4": (tensors(INT4), 10), "bfloat16": (tensors(TensorProto.BFLOAT16), 4),
       "float6e2m3": (tensors(TensorProto.FLOAT6E2M3), 14),
       "optional": (helper.make_optional_type_proto(tensors(F)), 8),
       "sparse": (helper.make_sparse_tensor_type_proto(F, [2]), 8)}  # fmt: skip
TYPES: Cases = {
    "TY-01": {f"element type {code}": reading(tensors(code)) for code in TensorProto.DataType.values() if code},
    "TY-04": {"of a tensor": reading(tensors(99)),
              "of a sequence": reading(helper.make_sequence_type_proto(tensors(99))),
              "of the input": typed("input", "elem_type", 99), "left out": lambda: with_inner(value("t", 0, (2,)))},
    "TY-05": {"no element type": reading(TypeProto(sequence_type=TypeProto.Sequence())),
              "a sequence": reading(helper.make_sequence_type_proto(helper.make_tensor_type_proto(I64, ["n"])))},
    "TY-06": {**{f"a key of type {key}": reading(helper.make_map_type_proto(key, helper.make_tensor_type_proto(F, [])))
                 for key in (I64, 8, 2, F, 9, 0, 99)},
              "no value type": reading(TypeProto(map_type=TypeProto.Map(key_type=I64)))},
    "TY-07": {"optional": reading(helper.make_optional_type_proto(tensors(F))),
              "sparse": reading(helper.make_sparse_tensor_type_proto(F, [2])),
              "opaque": reading(TypeProto(opaque_type=TypeProto.Opaque(domain="com.acme", name="Image"))),
              "no element type": reading(TypeProto(optional_type=TypeProto.Optional()))},
    "TY-08": {**{f"{name} in IR version {ir}": reading(kind, ir=ir, opset=8)
                 for name, (kind, needed) in NEW.items() for ir in (needed - 1, needed)},
              **{f"a tensor in IR version {ir}": plain(initializers=[weight("w", INT4, (2,), [1, 2])], ir=ir)
                 for ir in (9, 10)}},
}  # fmt: skip


def with_inner(*values: onnx.ValueInfoProto) -> ModelProto:
    """With types of an inner value t."""
    proto = model(node(outputs=("t",)), node(inputs=("t",)))
    proto.graph.value_info.extend(values)
    return proto


def dims(*sizes: Any) -> Case:
    return plain(inputs=[value("x", F, sizes)], outputs=[value("y", F, (None,) * len(sizes))])


def shapes(op: str, first: tuple[int, ...], second: tuple[int, ...]) -> Case:
    return plain(node(op, ("x", "z")), inputs=[value("x", shape=first), value("z", shape=second)])


def inner_output(*shape: Any) -> tuple[onnx.GraphProto, onnx.GraphProto]:
    return tuple(graph(node(outputs=(name,)), outputs=[value(name, F, shape)], name=name)
                 for name in ("t", "e"))  # type: ignore[return-value]


SHAPES: Cases = {
    "SH-01": {"a shape": dims(2, "n", None)},
    "SH-04": {"unknown": dims(None, None)},
    "SH-05": {**{f"a name {name!r}": dims(name) for name in (
        "batch size*2", "s0 + 1", "2n", "a.b", "größe", "batch", "_n", "N2")},
        "one for each": dims("a b", "a b", "c d")},
    "SH-06": {"an empty name": dims("")},
    "SH-07": {"a star": dims("*")},
    "SH-08": {"a product": shapes("MatMul", (2, 3), (4, 2)), "a sum": shapes("Add", (2,), (3,))},
    "SH-12": {
        **{f"a size {size}": dims(size) for size in (-1, -2, 0)},
        "another one": plain(inputs=[value("x", shape=(-1,))], outputs=[value("y", shape=(3,))]),
        "of an inner value": lambda: with_inner(value("t", F, (-3,))),
        "of a sequence": reading(helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, [-3]))),
        "of a subgraph": chosen(*inner_output(-3)),
        "of an attribute": plain(
            helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(F, [-3])),
            helper.make_node("OptionalHasElement", ["o"], ["y"]), outputs=[value("y", BOOL, ())]),
    },
    "SH-14": {"one name in all graphs": chosen(*inner_output("n"))},
}  # fmt: skip

INT32 = {
    TensorProto.UINT8: (0, 255), TensorProto.INT8: (-128, 127), TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767), TensorProto.BOOL: (0, 1), TensorProto.FLOAT16: (0, 65535),
    TensorProto.BFLOAT16: (0, 65535), TensorProto.FLOAT8E5M2: (0, 255), TensorProto.FLOAT8E8M0: (0, 255),
    TensorProto.FLOAT6E2M3: (0, 63), TensorProto.FLOAT6E3M2: (0, 63)}  # fmt: skip


def data(**fields: Any) -> Case:
    return lambda: with_tensor(tensor(**fields))


TENSORS: Cases = {
    "TD-01": {**{f"type {code}": data(data_type=code, raw_data=BYTES) for code in (0, 99, -1, F)},
              "no type": lambda: with_tensor(TensorProto(name="w", dims=[2], raw_data=BYTES)),
              "that a node reads": plain(node("Add", ("x", "w")), initializers=[tensor(data_type=99, raw_data=BYTES)])},
    "TD-02": {
        "bytes and floats": data(raw_data=BYTES, float_data=[1, 2]), "none": data(),
        "floats and integers": data(float_data=[1, 2], int32_data=[1, 2]), "other integers": data(int64_data=[1, 2]),
        "texts as bytes": data(data_type=STRING, raw_data=b"ab"), "floats": data(float_data=[1, 2]),
        "texts": data(data_type=STRING, string_data=[b"a", b"b"]),
    },
    "TD-03": {"bytes of float6": data(data_type=TensorProto.FLOAT6E2M3, dims=[3], raw_data=BYTES[:4]),
              **{f"{size} bytes": data(raw_data=bytes(size)) for size in (4, 7, 9, 12)},
              **{f"{count} {kind}": data(data_type=code, float_data=[0] * count)
                 for kind, code in (("floats", F), ("parts of complex numbers", TensorProto.COMPLEX64))
                 for count in (1, 3)},
              "two complex numbers": data(data_type=TensorProto.COMPLEX64, float_data=[0] * 4)},
    "TD-04": {f"dims {str(sizes)[:40]}": data(dims=sizes, raw_data=BYTES) for sizes in (
        [-2], [-1, -2], [1 << 33, 1 << 33], [1 << 62], [1 << 62, 4], [1 << 40], [1] * 65)},
    "TD-05": {"no data": data(dims=[0, 3]), "no bytes": data(dims=[0, 3], raw_data=b""),
              "bytes": data(dims=[0], raw_data=BYTES), "floats": data(dims=[3, 0], float_data=[1]),
              "too large": data(dims=[0, 1 << 62, 1 << 62])},
    "TD-06": {
        **{f"type {code}, {entries}": data(data_type=code, int32_data=entries) for code, (low, high) in INT32.items()
           for entries in ([low, high], [low - 1, high], [low, high + 1])},
        **{f"type {code}, {number}": data(data_type=code, dims=[1], int32_data=[number])
           for code in (INT4, TensorProto.UINT2) for number in (-129, -128, 255, 256)},
        **{f"uint32 {entries}": data(data_type=TensorProto.UINT32, uint64_data=entries)
           for entries in ([0, 1 << 32], [0, (1 << 32) - 1])},
        "bytes of bool": data(data_type=TensorProto.BOOL, raw_data=b"\1\7"),
        "int32": data(data_type=TensorProto.INT32, int32_data=[-(1 << 31), (1 << 31) - 1]),
    },
    "TD-08": {**{f"uint4 {raw!r}": data(data_type=TensorProto.UINT4, dims=[3], raw_data=raw)
                 for raw in (b"\x21\x03", b"\x21\x53")},
              "uint2": data(data_type=TensorProto.UINT2, dims=[5], int32_data=[0xE4, 0x3C]),
              "float6": data(data_type=TensorProto.FLOAT6E2M3, dims=[1], raw_data=b"\x7f")},
    "TD-09": {f"{texts}": data(data_type=STRING, string_data=texts) for texts in (
        [b"ok", b"\xff"], ["é".encode(), b"a\0b"], [b"a\0", b""], [b"\xef\xbb\xbfa", b""])},
    "TD-10": {"a segment": data(raw_data=BYTES, segment=TensorProto.Segment(begin=0, end=2))},
}  # fmt: skip


def sparse(values: Sequence[float], indices: Any, sizes: Sequence[int], **odd: Any) -> Case:
    """A constant; `odd` replaces fields: dims of the values, data_type of the indices."""
    array = np.array(indices, np.int64)
    made = helper.make_sparse_tensor(
        tensor(name="", dims=odd.get("dims", [len(values)]), float_data=values),
        tensor(name="", data_type=odd.get("data_type", I64), dims=array.shape, raw_data=array.tobytes()), sizes)
    return plain(constant(sparse_value=made), outputs=[value("y", F, None)])


def sparse_weight(values: Sequence[float], places: Sequence[int], sizes: Sequence[int]) -> ModelProto:
    parts = weight("w", F, (len(values),), values), weight("", I64, (len(places),), places)
    made = helper.make_sparse_tensor(*parts, sizes)
    proto = model(node("Add", ("x", "w")), inputs=[value("x", shape=sizes)], outputs=[value("y", shape=sizes)], ir=11)
    proto.graph.sparse_initializer.append(made)
    return proto


GRID: Sequence[tuple[Sequence[float], Any, Sequence[int]]] = (
    ([1, 2], [0, 9], [3, 3]), ([1], [[0, 3]], [3, 3]), ([1], [-1], [3]), ([1, 2], [4, 2], [3, 3]),
    ([1, 2], [[1, 0], [0, 2]], [3, 3]), ([1, 2], [4, 4], [3, 3]), ([1, 2], [4], [3, 3]), ([1], [[[0]]], [3]),
    ([1], [0], []), ([1], [0], [0]), ([1], [0], [-3]), ([1], [0], [1 << 33, 1 << 33]),
    ([1, 2], [0, 8], [3, 3]), ([1, 2], [[0, 1], [2, 0]], [3, 3]), ([], [], [3]),
)  # fmt: skip
SPARSE_TENSORS: Cases = {"SP-01": {
    **{f"{values} at {places} of {sizes}": sparse(values, places, sizes) for values, places, sizes in GRID},
    **{f"as a weight, at {places} of {sizes}": lambda places=places, sizes=sizes: sparse_weight(  # type: ignore[misc]
        (1, 2)[: max(len(sizes) * 2, 1)], places, sizes)
       for places, sizes in (((0, 2), (3,)), ((0, 3), (3,)), ((2, 0), (3,)), ((1, 1), (3,)), ((0,), (3,)), ((0,), ()),
                             ((0, 1), (1 << 32, 1 << 32)))},
    "values that are no row": sparse([1], [0], [3], dims=[1, 1]),
    "indices of int32": sparse([1], [0], [3], data_type=TensorProto.INT32),
}}  # fmt: skip

BOMBS: Cases = {"LM-02": {
    "Tile": plain(node("Tile", ("x", "r")), initializers=[weight("r", I64, (1,), [1 << 40])]),
    "SplitToSequence by 0": plain(
        node("SplitToSequence", ("x", "s"), ("q",)), node("SequenceAt", ("q", "i")),
        initializers=[weight("s", I64, (), [0]), weight("i", I64, (), [0])]),
}}  # fmt: skip

CASES: Cases = {**NODES, **ATTRIBUTES, **TYPES, **SHAPES, **TENSORS, **SPARSE_TENSORS, **BOMBS}
