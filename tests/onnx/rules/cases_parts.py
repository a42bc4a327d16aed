"""Models for the rules about functions, quantization, devices and hardware (FN, HW, QA, DV)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, TensorProto, helper

from tests.onnx.rules.cases_models import Case, Cases, plain
from tests.onnx.rules.protos import BOOL, F, constant, graph, model, node, value, weight

U8 = TensorProto.UINT8


def function(
    name: str = "Foo", *nodes: onnx.NodeProto, inputs: Sequence[str] = ("a",), outputs: Sequence[str] = ("b",),
    opset: int = 17, domain: str = "com.acme", overload: str = "", imports: Sequence[tuple[str, int]] = (), **more: Any,
) -> FunctionProto:  # fmt: skip
    """The nodes (one Relu if none are given) as a function."""
    opsets = [helper.make_opsetid(d, v) for d, v in (("", opset), *imports)]
    body = list(nodes) or [node("Relu", ("a",), ("b",))]
    made = helper.make_function(domain, name, list(inputs), list(outputs), body, opsets, **more)
    made.overload = overload
    return made


def calling(*functions: FunctionProto, call: onnx.NodeProto | None = None, ir: int = 10, **more: Any) -> ModelProto:
    imports = more.pop("imports", [("", 17), ("com.acme", 1)])
    return model(call or node("Foo", domain="com.acme"), functions=functions, imports=imports, ir=ir, **more)


def calls(*functions: FunctionProto, **more: Any) -> Case:
    return lambda: calling(*functions, **more)


def call_of(inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ("y",), overload: str = "", **more: Any) -> Any:
    return node("Foo", inputs, outputs, domain="com.acme", overload=overload, **more)


def nested(name: str, *callees: str) -> FunctionProto:
    """A function of `com.acme` that calls others one after the other."""
    values = ["a", *(f"t{i}" for i in range(1, len(callees))), "b"]
    body = [node(callee, (values[i],), (values[i + 1],), domain="com.acme") for i, callee in enumerate(callees)]
    return function(name, *body, imports=[("com.acme", 1)])


def chain(length: int, times: int = 1) -> Case:
    """Each calls the next one so many times."""
    names = ["Foo", *(f"F{i}" for i in range(1, length))]
    return lambda: calling(*(nested(a, *[b] * times) for a, b in pairwise(names)), function(names[-1]))


def recursion_in_a_subgraph() -> ModelProto:
    inner = graph(node("Foo", ("a",), ("i",), domain="com.acme"), outputs=[value("i")], name="then")
    other = graph(node("Relu", ("a",), ("e",)), outputs=[value("e")], name="else")
    condition = node("Constant", (), ("p",), value=helper.make_tensor("", BOOL, [], [True]))
    choice = node("If", ("p",), ("b",), then_branch=inner, else_branch=other)
    return calling(function("Foo", condition, choice, imports=[("com.acme", 1)]))


def many_functions() -> ModelProto:
    proto = calling(function())
    proto.functions.extend(FunctionProto(domain="com.acme", name=f"F{i}") for i in range(10_000))
    return proto


LEAKY, SOFTMAX = node("LeakyRelu", ("a",), ("b",)), node("Softmax", ("a",), ("b",))
LEAKY.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
K, M = (helper.make_attribute(name, 1) for name in "km")
PAIR = (function(overload="1"), function(overload="2"))
FUNCTIONS: Cases = {
    "FN-01": {"an operator": calls(function("Foo", node("Relu", ("a",), ("t",)), node("Neg", ("t",), ("b",))))},
    "FN-02": {
        "twice": calls(function(), function()), "overloads": calls(*PAIR, call=call_of(overload="2")),
        "by both names of the default domain": calls(
            function(domain=""), function(domain="ai.onnx"), call=node("Foo")),
        "no name": calls(function(), function("")),
    },
    "FN-03": {
        "itself": calls(nested("Foo", "Foo")), "through a subgraph": recursion_in_a_subgraph,
        "in a ring": calls(nested("Foo", "Bar"), nested("Bar", "Baz"), nested("Baz", "Foo")),
        "one twice": calls(nested("Foo", "Bar", "Bar"), function("Bar")),
        **{f"{length} deep": chain(length) for length in (60, 100, 101, 5000)}, "ten thousand": many_functions,
    },
    "FN-04": {
        "an outer value": calls(function("Foo", node("Add", ("a", "x"), ("b",)))),
        "an unknown attribute": calls(function("Foo", LEAKY)),
        "an attribute": calls(function("Foo", LEAKY, attributes=["slope"])),
        "an input twice": calls(function("Foo", node("Add", ("a", "a"), ("b",)), inputs=["a", "a"])),
        "an input without a name": calls(function(inputs=["a", ""])),
        "an output twice": calls(function(outputs=["b", "b"])),
    },
    "FN-05": {"an output that no node writes": calls(function(outputs=["b", "c"]))},
    "FN-06": {"a domain that is not imported": calls(function(), imports=[("", 17)])},
    "FN-07": {"the same in both sets": calls(function(opset=16)),
              "another one": calls(function("Foo", SOFTMAX, opset=11)),
              "the same from 13 on": calls(function("Foo", SOFTMAX, opset=13)),
              "a sum": calls(function("Foo", node("ReduceSum", ("a",), ("b",)), opset=11))},
    "FN-08": {
        "in both lists": calls(function(attributes=["k"], attribute_protos=[K])),
        "twice": calls(function(attributes=["k", "k"])),
        "one in each": calls(function(attributes=["k"], attribute_protos=[M])),
        "unknown": calls(function(attributes=["k"]), call=call_of(m=1)),
    },
    "FN-09": {"two inputs": calls(function(), call=call_of("xx")),
              "two outputs": calls(function(), call=call_of("x", "yz")),
              "fewer": calls(function(inputs=["a", "c"])), "no such overload": calls(*PAIR, call=call_of(overload="3")),
              "an overload": calls(*PAIR, call=call_of(overload="1"))},
    "FN-10": {"a standard operator": calls(
        function("Relu", node("Neg", ("a",), ("b",)), domain=""), call=node("Relu"), imports=[("", 17)])},
    "FN-11": {"in IR version 7": calls(function(opset=14), ir=7, imports=[("", 14), ("com.acme", 1)]),
              "in IR version 8": calls(function(), ir=8)},
    "FN-12": {f"2^{count} calls": chain(count, 2) for count in (10, 17, 41)},
}  # fmt: skip


def quantizing(scale: Any, zero: Any = None, *, code: int = F, kind: int = U8) -> Case:
    scales = np.atleast_1d(np.array(scale, np.float64))
    parts = [weight("s", code, scales.shape if np.ndim(scale) else (), scales.tolist())]
    if zero is not None:
        parts.append(weight("z", kind, (), [zero]))
    return plain(node("QuantizeLinear", ("x", "s", "z")[: 1 + len(parts)]), inputs=[value("x", code)],
                 outputs=[value("y", kind)], initializers=parts, opset=21, ir=10)  # fmt: skip


def dequantizing(zero: int) -> Case:
    parts = [weight("s", F, (), [1]), weight("z", TensorProto.INT32, (), [zero])]
    return plain(node("DequantizeLinear", ("x", "s", "z")), inputs=[value("x", TensorProto.INT32)], initializers=parts)


def per_channel() -> ModelProto:
    parts = [*(weight(name, F, (), [1]) for name in ("xs", "ys")), weight("ws", F, (2,), [1, 0])]
    parts += [weight(z, U8, (), [0]) for z in ("xz", "wz", "yz")]
    made = node("QLinearConv", ("x", "xs", "xz", "w", "ws", "wz", "ys", "yz"))
    shape = [value(name, U8, (None,) * 4) for name in ("x", "w", "y")]
    return model(made, inputs=shape[:2], outputs=shape[2:], initializers=parts)


def scale_of_a_constant() -> ModelProto:
    made = constant(value=weight("", F, (), [-1]))
    made.output[0] = "s"
    return model(made, node("QuantizeLinear", ("x", "s")), outputs=[value("y", U8)], opset=21, ir=10)


def scale_around_branches() -> ModelProto:
    branches = [graph(node("QuantizeLinear", ("x", "s"), (name,)), outputs=[value(name, U8)], name=name)
                for name in "bc"]  # fmt: skip
    choice = node("If", ("p",), then_branch=branches[0], else_branch=branches[1])
    return model(choice, outputs=[value("y", U8)], inputs=[value("x"), value("p", BOOL, ())],
                 initializers=[weight("s", F, (), [0])])  # fmt: skip


HARDWARE: Cases = {"HW-01": {
    **{f"scale {scale}": quantizing(scale) for scale in (np.nan, 0.0, -0.5, np.inf, 1e-40, 0.5, 1e-30, 2.0**100)},
    **{f"zero point {zero}": quantizing(0.5, zero, kind=kind)
       for zero, kind in ((0, U8), (255, U8), (-128, TensorProto.INT8))},
    "of channels": per_channel, "zero point 0 of int32": dequantizing(0), "zero point 3 of int32": dequantizing(3),
    "a zero point that is no number": quantizing(1, np.nan, kind=TensorProto.FLOAT8E4M3FN),
    "half a zero point": plain(
        node("Quant", ("x", "s", "z", "b"), domain="qonnx.custom_op.general"), imports=[("qonnx.custom_op.general", 1)],
        initializers=[weight(name, F, (), [number]) for name, number in (("s", 1), ("z", 0.5), ("b", 8))]),
    "in a constant": scale_of_a_constant, "in a graph around": scale_around_branches,
    **{f"a weight {number}": plain(node("Add", ("x", "w")), initializers=[weight("w", F, (2,), [1, number])])
       for number in (np.nan, np.inf)},
}}  # fmt: skip


def annotated(tensor: str, *entries: tuple[str, str]) -> Case:
    def make() -> ModelProto:
        proto = model(initializers=[weight("s"), weight("z")])
        annotation = proto.graph.quantization_annotation.add(tensor_name=tensor)
        for key, name in entries:
            annotation.quant_parameter_tensor_names.add(key=key, value=name)
        return proto

    return make


def devices(change: Callable[[ModelProto, Any], object] = lambda proto, part: None) -> Case:
    """Two devices that share x."""
    def make() -> ModelProto:
        proto = model(ir=11)
        proto.configuration.add(name="two", num_devices=2, device=["a", "b"])
        part = proto.graph.node[0].device_configurations.add(configuration_id="two")
        sharding = part.sharding_spec.add(tensor_name="x", device=[0, 1])
        sharding.sharded_dim.add(axis=0).simple_sharding.add(dim_value=2, num_shards=2)
        change(proto, part)
        return proto

    return make


def no_devices(proto: ModelProto, part: Any) -> None:
    proto.configuration[0].num_devices = 0
    del part.sharding_spec[:]


SCALE, ZERO = ("SCALE_TENSOR", "s"), ("ZERO_POINT_TENSOR", "z")
HINTS: Cases = {
    "QA-01": {"an annotation": annotated("y", SCALE, ZERO), "of no tensor": annotated("nowhere", SCALE, ZERO),
              "an unknown key": annotated("y", SCALE, ("ZERO", "z")),
              "no such tensor": annotated("y", ("SCALE_TENSOR", "q"))},
    "DV-01": {
        "devices": devices(), "no name": devices(lambda proto, part: proto.configuration.add(num_devices=1)),
        "no number": devices(no_devices),
        "no such configuration": devices(lambda proto, part: setattr(part, "configuration_id", "three")),
        "no tensor of the node": devices(lambda proto, part: setattr(part.sharding_spec[0], "tensor_name", "w")),
        "no such device": devices(lambda proto, part: part.sharding_spec[0].device.__setitem__(1, 2)),
        "no shards": devices(lambda proto, part: setattr(
            part.sharding_spec[0].sharded_dim[0].simple_sharding[0], "num_shards", 0)),
    },
}  # fmt: skip

CASES: Cases = {**FUNCTIONS, **HARDWARE, **HINTS}
