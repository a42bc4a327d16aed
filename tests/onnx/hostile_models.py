"""Models made to do harm, in code: what hwflow must do with each stands beside it.

`CASES` maps a name to the bytes (or a function that makes them and files beside the model), the stage that refuses the
model (None: it is accepted and evaluated) and a part of what that stage says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.onnx.hostile_case import Case
from tests.onnx.hostile_values import VALUES
from tests.onnx.rules.protos import BOOL, F, graph, model, node, value


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def field(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


GOOD = model().SerializeToString()


# Files and external data.


def external(entries: Iterable[tuple[str, str]], code: int = F, dims: tuple[int, ...] = (4,)) -> TensorProto:
    made = TensorProto(name="w", data_type=code, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, text in entries:
        made.external_data.add(key=key, value=text)
    return made


def with_weight(made: TensorProto) -> onnx.ModelProto:
    return model(initializers=[made], opset=21, ir=10)


def data(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())


def at(location: str, text: str, prepare: Callable[[Path], object] = data) -> Case:
    return Case(lambda: with_weight(external([("location", location)])), "check", text, prepare)


OUTSIDE = "must lie in the model's folder"

FILES = {
    "x21_device": at("/dev/zero", OUTSIDE),
    "x23_long_name": at("a" * 5000, "beside the model, not missing"),
    "x23_deep_name": at("a/" * 5000 + "b", "beside the model, not missing"),
    "x25_loop_of_links": at("link", OUTSIDE, lambda folder: (folder / "link").symlink_to("link")),
    "x26_itself": Case(
        lambda: with_weight(external([("location", "model.onnx"), ("offset", "0")], TensorProto.UINT8)), None
    ),
}


# Tensors.


def tensor(**fields: Any) -> Callable[[], onnx.ModelProto]:
    return lambda: with_weight(TensorProto(**{"name": "w", "data_type": F} | fields))


TENSORS = {
    "t12_rank_1000000": Case(tensor(dims=[1 << 62] * 1_000_000), "check", "at most 64 dims, not 1000000"),
}


# Graphs, subgraphs and functions.


def choice(inner: onnx.GraphProto, *before: onnx.NodeProto, outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    """An If with a good branch and one to be judged."""
    other = graph(node("Relu", ("x",), ("good",)), outputs=[value("good")], name="else")
    made = node("If", ("p",), outputs, then_branch=inner, else_branch=other)
    return model(*before, made, inputs=[value("x"), value("p", BOOL, ())])


def branch(*nodes: onnx.NodeProto, output: str = "b", **more: Any) -> onnx.GraphProto:
    return graph(*(nodes or (node("Relu", ("x",), ("b",)),)), outputs=[value(output)], name="then", **more)


def inside(inner: Callable[[], onnx.GraphProto], stage: str | None, text: str = "", *before: onnx.NodeProto) -> Case:
    return Case(lambda: choice(inner(), *before), stage, text)


def deep(levels: int) -> onnx.ModelProto:
    inner = graph(node("Relu", ("x",), ("v0",)), outputs=[value("v0")], name="g0")
    for i in range(1, levels):
        other = graph(node("Relu", ("x",), (f"e{i}",)), outputs=[value(f"e{i}")], name=f"h{i}")
        made = node("If", ("p",), (f"v{i}",), then_branch=inner, else_branch=other)
        inner = graph(made, outputs=[value(f"v{i}")], name=f"g{i}")
    return choice(inner)


def deep_graphs(levels: int) -> bytes:
    """Graphs in attributes of nodes, as bytes, deeper than the library that makes messages goes."""
    inner = b""
    for _ in range(levels):
        attribute = field(1, b"then_branch") + field(6, inner)
        inner = field(1, field(4, b"If") + field(5, attribute))
    return GOOD + field(7, inner)


def deep_type(levels: int) -> bytes:
    """A sequence of sequences of ..., as bytes: the library that makes messages refuses them."""
    inner = helper.make_tensor_type_proto(F, [1]).SerializeToString()
    for _ in range(levels):
        inner = field(4, field(1, inner))
    odd = field(1, b"odd") + field(2, inner)
    return GOOD + field(7, field(11, odd))


def chain(count: int, calls: int = 1, last: str = "") -> onnx.ModelProto:
    """Functions that each call the next one; the last one calls `last`."""
    names = [f"F{i}" for i in range(count)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    functions = []
    for name, following in pairwise([*names, last]):
        values = ["a", *(f"t{i}" for i in range(1, calls)), "b"]
        body = [
            node(following or "Relu", (a,), (b,), domain="com.acme" if following else "") for a, b in pairwise(values)
        ]
        functions.append(helper.make_function("com.acme", name, ["a"], ["b"], body, opsets))
    return model(node("F0", domain="com.acme"), functions=functions, imports=[("", 17), ("com.acme", 1)], ir=10)


def hostile_names() -> onnx.ModelProto:
    names = ["\x1b[2J", "a\nb", "';DROP", "../../x", "module; endmodule", "__class__", "\u202e", "n" * 100_000]
    made = [node("Relu", (a,), (b,), name=b) for a, b in pairwise(["x", *names, "y"])]
    return model(*made)


GRAPHS = {
    "SG_ok": inside(branch, None),
    "SG_both": inside(lambda: branch(node("Relu", ("x",), ("good",)), output="good"), None),
    "d01_subgraph_10": Case(lambda: deep(10), None),
    "d01_subgraph_31": Case(lambda: deep(31), None),
    "d02_subgraph_1500": Case(lambda: deep_graphs(1500), "read", "nested at most 100 messages"),
    "d03_type_depth_2000": Case(lambda: deep_type(2000), "read", "nested at most 100 messages"),
    "d04_type_depth_40": Case(lambda: deep_type(40), None),
    "g36_names_hostile": Case(hostile_names, None),
    "g40_func_chain_5000": Case(lambda: chain(5000), "check", "at most 100 deep, not 5000"),
    "g40_func_chain_1500": Case(lambda: chain(1500), "check", "at most 100 deep, not 1500"),
    "g41_func_ring_3000": Case(lambda: chain(3000, last="F0"), "check", "a function must not call itself"),
    "g41_func_ring_1500": Case(lambda: chain(1500, last="F0"), "check", "a function must not call itself"),
    "g42_func_20_calls": Case(lambda: chain(20, 20), "check", "nodes must be at most 10,000,000 after inlining"),
    "g43_many_nodes": Case(
        lambda: model(*(node("Relu", (f"t{i}",), (f"t{i + 1}",)) for i in range(5_000)), inputs=[value("t0")],
                      outputs=[value("t5000")]), None),
}  # fmt: skip


# Bytes.

PROTOBUF = {
    "p04_wiretype": Case(lambda: GOOD + varint(7 << 3 | 0) + varint(5), None),
    "p06_group": Case(lambda: GOOD + varint(30 << 3 | 3) * 200, "read", ""),
    "p10_long_varint": Case(lambda: b"\x08" + b"\xff" * 20, "read", ""),
    "p11_textproto": Case(lambda: b'ir_version: 8\ngraph { name: "g" }\n', "read", "must be an ONNX model"),
    "p12_trailing_garbage": Case(lambda: GOOD + b"\0\0\0", "read", ""),
    "p14_field_0": Case(lambda: b"\0\0" + GOOD, "read", ""),
    "p15_many_fields": Case(lambda: GOOD + b"".join(varint(n << 3) + b"\1" for n in range(1000, 20_000)), None),
    "p16_packed_length": Case(
        lambda: GOOD + field(7, field(5, field(1, b"\xff" * 9 + b"\1") + field(4, b"123"))), "read", ""),
}  # fmt: skip

CASES = {**FILES, **TENSORS, **GRAPHS, **VALUES, **PROTOBUF}
