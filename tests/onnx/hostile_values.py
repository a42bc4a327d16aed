"""Models whose evaluation asks for too much."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import onnx
from onnx import TensorProto, helper

from tests.onnx.hostile_case import Case
from tests.onnx.rules.protos import BOOL, I64, F, graph, model, node, value, weight


def constants(*arrays: tuple[str, list[int]]) -> list[TensorProto]:
    return [helper.make_tensor(name, I64, [len(numbers)], numbers) for name, numbers in arrays]


def wide(*nodes: onnx.NodeProto, code: int = F, **numbers: list[int]) -> Callable[[], onnx.ModelProto]:
    """The output has any shape."""
    return lambda: model(*nodes, outputs=[value("y", code, None)], opset=18, initializers=constants(*numbers.items()))


def tile_bomb() -> onnx.ModelProto:
    steps = [node("Tile", (a, "r"), (b,)) for a, b in pairwise(["x", *(f"t{i}" for i in range(40)), "y"])]
    return model(*steps, outputs=[value("y", F, None)], initializers=constants(("r", [1000])))


def range_bomb() -> onnx.ModelProto:
    numbers = [helper.make_tensor(name, I64, [], [n]) for name, n in (("a", 0), ("b", 1 << 40), ("c", 1))]
    made = helper.make_node("Range", ["a", "b", "c"], ["y"])
    return model(made, outputs=[value("y", I64, None)], initializers=numbers)


def doubling(op: str, count: int, **attributes: Any) -> onnx.ModelProto:
    """Each node takes the one before twice: 2^count if values were computed again, or elements if they are joined."""
    names = ["x", *(f"t{i}" for i in range(count)), "y"]
    made = [node(op, (a, a), (b,), **attributes) for a, b in pairwise(names)]
    return model(*made, outputs=[value("y", F, None)])


def forever(**more: Any) -> onnx.ModelProto:
    """A Loop without an end; with `grow` its value doubles in each iteration."""
    step = node("Concat", ("v", "v"), ("w",), axis=0) if more.get("grow") else node("Relu", ("v",), ("w",))
    body = graph(
        step, node("Identity", ("c",), ("d",)), inputs=[value("i", I64, ()), value("c", BOOL, ()), value("v", F, None)],
        outputs=[value("d", BOOL, ()), value("w", F, None)], name="body")  # fmt: skip
    true = node("Constant", (), ("t",), value=helper.make_tensor("", BOOL, [], [True]))
    return model(true, node("Loop", ("", "t", "x"), body=body), outputs=[value("y", F, None)])


def nested_loops(depth: int) -> onnx.ModelProto:
    """Each iterates 2^40 times, the innermost one does the work."""
    inner = node("Relu", ("x",), ("w0",))
    for level in range(depth):
        body = graph(
            inner, node("Identity", (f"c{level}",), (f"d{level}",)), node("Identity", (f"w{level}",), (f"s{level}",)),
            inputs=[value(f"i{level}", I64, ()), value(f"c{level}", BOOL, ())],
            outputs=[value(f"d{level}", BOOL, ()), value(f"s{level}", F, None)], name=f"body{level}")  # fmt: skip
        inner = node("Loop", ("m", ""), (f"w{level + 1}",), body=body)
    last = node("Identity", (f"w{depth}",))
    count = helper.make_tensor("m", I64, [], [1 << 40])
    return model(inner, last, outputs=[value("y", F, None)], initializers=[count])


def large_product() -> onnx.ModelProto:
    """2^45 multiplications from a hundred bytes."""
    shapes = constants(("a", [1 << 15, 1 << 15]))
    made = node("ConstantOfShape", ("a",), ("w",)), node("MatMul", ("w", "w"))
    return model(*made, outputs=[value("y", F, None)], initializers=shapes)


def convolution(**attributes: Any) -> Callable[[], onnx.ModelProto]:
    made = node("Conv", ("x", "w"), **attributes)
    return lambda: model(made, inputs=[value("x", F, (1, 1, 4, 4))], outputs=[value("y", F, (None,) * 4)],
                         initializers=[weight("w", F, (1, 1, 1, 1), [1])])  # fmt: skip


BYTES = "bytes (tensor_bytes)"

VALUES = {
    "e02_expand_2e40": Case(wide(node("Expand", ("x", "s")), s=[1 << 39, 2]), "evaluate", BYTES),
    "e03_tile_bomb": Case(tile_bomb, "evaluate", BYTES),
    "e04_range_bomb": Case(range_bomb, "evaluate", BYTES),
    "e05_pad_2e40": Case(wide(node("Pad", ("x", "p")), p=[0, 1 << 40]), "evaluate", BYTES),
    "e05_resize_2e40": Case(
        lambda: model(node("Resize", ("x", "", "s")), outputs=[value("y", F, None)],
                      initializers=[weight("s", F, (1,), [float(1 << 40)])]), "evaluate", BYTES),
    "e05_onehot_2e40": Case(
        wide(node("OneHot", ("i", "n", "v")), code=I64, i=[0, 1], n=[1 << 40], v=[0, 1]), "evaluate", BYTES),
    "e06_loop_grows": Case(lambda: forever(grow=True), "evaluate", BYTES),
    "e06_nested_loops": Case(lambda: nested_loops(4), "evaluate", "iterations"),
    "e12_work": Case(large_product, "evaluate", ""),
    "e13_conv_pads": Case(convolution(pads=[1 << 40, 0, 0, 0]), "evaluate", ""),
    "e13_conv_dilation": Case(convolution(dilations=[1 << 62, 1]), "evaluate", ""),
    "e19_splitseq_zero": Case(
        lambda: model(node("SplitToSequence", ("x", "s"), ("q",)), node("SequenceLength", ("q",)),
                      outputs=[value("y", I64, ())], initializers=[helper.make_tensor("s", I64, [], [0])]),
        "evaluate", ""),
    "e20_rank_bomb": Case(wide(node("Expand", ("x", "s")), s=[1] * 1000), "evaluate", ""),
    "e20_reshape_rank": Case(wide(node("Reshape", ("x", "s")), s=[1] * 100_000 + [2]), "evaluate", ""),
    "e20_unsqueeze_rank": Case(wide(node("Unsqueeze", ("x", "s")), s=list(range(1, 1000))), "evaluate", ""),
    "e22_pow2_add_chain": Case(lambda: doubling("Add", 2000), None),
    "e22_concat_chain": Case(lambda: doubling("Concat", 60, axis=0), "evaluate", BYTES),
    "e23_gather_far": Case(wide(node("Gather", ("x", "i")), i=[1 << 62]), "evaluate", ""),
    "e24_reshape_wraps": Case(wide(node("Reshape", ("x", "s")), s=[1 << 33, 1 << 33]), "evaluate", ""),
    "e25_bad_axis": Case(wide(node("Concat", ("x", "x"), axis=1 << 62)), "evaluate", ""),
}  # fmt: skip
