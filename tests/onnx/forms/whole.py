"""Forms that are more than a node of tensors: control flow, sequences, optionals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hwflow.onnx import Graph
from hwflow.onnx.build import make_graph, make_model, make_node, tensor_type
from hwflow.onnx.model import Node, OptionalType, Value
from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.form import Form
from tests.onnx.models import BOOL, F32, I64, sequence, value

X = np.array([[1, -2], [3, 4]], F32)


def form(
    op: str, opset: int, nodes: list[Node], inputs: list[Value], outputs: list[Value], feeds: Mapping[str, Any],
    *expected: Any, constants: Mapping[str, Any] | None = None, note: str = "",
) -> Form:  # fmt: skip
    model = make_model(make_graph(nodes, inputs, outputs, constants), opset=opset)
    return Form(f"{op}-{opset}-{note}", "", op, opset, model, feeds, expected)


def forms() -> Iterator[Form]:
    yield from _branches()
    yield from _loops()
    yield from _scans()
    yield from _sequences()
    yield from _elements()
    yield from _optionals()


def _clip(opset: int, x: str, y: str) -> tuple[list[Node], dict[str, Any]]:
    """x from -1 on, in the words of an operator set: an inner graph whose nodes have to be converted as well."""
    if opset < 11:
        return [make_node("Clip", [x], [y], min=-1.0)], {}
    return [make_node("Clip", [x, "low"], [y])], {"low": F32(-1)}


def _branches() -> Iterator[Form]:
    for schema in versions_of("", "If"):
        since = schema.since
        nodes, constants = _clip(since, "x", "a")
        then = make_graph(nodes, [], [value("a", shape=(2, 2))], constants)
        old = {"axes": [0]} if since < 13 else {}
        other = make_graph(
            [make_node("Squeeze", ["w"] if old else ["w", "axes"], ["b"], **old)], [], [value("b", shape=(2, 2))],
            {"w": X[None]} | ({} if old else {"axes": np.array([0])}))  # fmt: skip
        node = make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
        for taken in (True, False):
            feeds = {"c": np.array(taken), "x": 2 * X}
            wanted = np.maximum(2 * X, -1) if taken else X
            inputs = [value("c", BOOL, ()), value("x", F32, (2, 2))]
            yield form("If", since, [node], inputs, [value("y", shape=(2, 2))], feeds, wanted, note=str(taken))


def _loop_body(opset: int) -> Graph:
    """a grows by one, at most to 3; each is collected."""
    if opset < 6:
        more = [make_node("Add", ["a", "one"], ["more"], broadcast=1)]
    else:
        more = [make_node("Add", ["a", "one"], ["more"], **({"broadcast": 1} if opset < 7 else {}))]
    if opset < 11:
        bounded, constants = [make_node("Clip", ["more"], ["b"], max=3.0)], {}
    else:
        bounded, constants = [make_node("Clip", ["more", "", "high"], ["b"])], {"high": F32(3)}
    nodes = [*more, *bounded, make_node("Identity", ["b"], ["row"]), make_node("Identity", ["going"], ["on"])]
    inputs = [value("i", I64, ()), value("going", BOOL, ()), value("a", F32, (2,))]
    outputs = [value("on", BOOL, ()), value("b", F32, (2,)), value("row", F32, (2,))]
    return make_graph(nodes, inputs, outputs, {"one": F32([1]), **constants})


def _loops() -> Iterator[Form]:
    for schema in versions_of("", "Loop"):
        since = schema.since
        node = make_node("Loop", ["n", "c", "s"], ["y", "rows"], body=_loop_body(since))
        inputs = [value("n", I64, ()), value("c", BOOL, ()), value("s", F32, (2,))]
        feeds = {"n": np.array(3), "c": np.array(True), "s": F32([0, 2])}
        rows = F32([[1, 3], [2, 3], [3, 3]])
        outputs = [value("y", shape=(2,)), value("rows", shape=(3, 2))]
        yield form("Loop", since, [node], inputs, outputs, feeds, rows[-1], rows)


def _scan_body(opset: int) -> Graph:
    nodes, constants = _clip(opset, "row", "kept")
    nodes = [*nodes, make_node("Add", ["sum", "kept"], ["total"]), make_node("Neg", ["total"], ["out"])]
    inputs = [value("sum", F32, (2,)), value("row", F32, (2,))]
    return make_graph(nodes, inputs, [value("total", F32, (2,)), value("out", F32, (2,))], constants)


def _scans() -> Iterator[Form]:
    x = np.arange(-6, 6, dtype=F32).reshape(2, 3, 2)
    for schema in versions_of("", "Scan"):
        since, body = schema.since, _scan_body(schema.since)
        outputs = [value("y"), value("rows")]
        if since == 8:
            kept = np.maximum(x, -1)
            node = make_node("Scan", ["", "s", "x"], ["y", "rows"], body=body, num_scan_inputs=1)
            inputs = [value("s", F32, (2, 2)), value("x", F32, (2, 3, 2))]
            feeds = {"s": np.zeros((2, 2), F32), "x": x}
            yield form("Scan", 8, [node], inputs, outputs, feeds, kept.sum(1), -np.cumsum(kept, 1))
            node = make_node("Scan", ["", "s", "x"], ["y", "rows"], body=body, num_scan_inputs=1, directions=[1])
            backwards = -np.cumsum(kept[:, ::-1], 1)
            yield form("Scan", 8, [node], inputs, outputs, feeds, kept.sum(1), backwards, note="back")
            node = make_node("Scan", ["n", "s", "x"], ["y", "rows"], body=body, num_scan_inputs=1)
            rows = -np.cumsum(kept, 1)
            rows[0, 1:] = 0
            ends = np.stack([kept[0, 0], kept[1].sum(0)])
            inputs, feeds = [*inputs, value("n", I64, (2,))], {**feeds, "n": np.array([1, 3])}
            yield form("Scan", 8, [node], inputs, outputs, feeds, ends, rows, note="lengths")
            continue
        kept = np.maximum(x[0], -1)
        inputs, feeds = [value("s", F32, (2,)), value("x", F32, (3, 2))], {"s": np.zeros(2, F32), "x": x[0]}
        node = make_node("Scan", ["s", "x"], ["y", "rows"], body=body, num_scan_inputs=1)
        yield form("Scan", since, [node], inputs, outputs, feeds, kept.sum(0), -np.cumsum(kept, 0))
        node = make_node("Scan", ["s", "x"], ["y", "rows"], body=body, num_scan_inputs=1, scan_input_directions=[1],
                         scan_output_axes=[1])  # fmt: skip
        yield form("Scan", since, [node], inputs, outputs, feeds, kept.sum(0), -np.cumsum(kept[::-1], 0).T, note="back")


def _sequences() -> Iterator[Form]:
    given, out = sequence("q"), sequence("y")
    same, whole = [make_node("Identity", ["x"], ["y"])], np.arange(3)
    for schema in versions_of("", "Identity"):
        since = schema.since
        yield form("Identity", since, same, [value("x", F32, (2, 2))], [value("y")], {"x": X}, X)
        numbers = [value("x", I64, (3,))], [value("y", I64)], {"x": whole}
        yield form("Identity", since, same, *numbers, whole, note="int64")
        if since >= 14:
            nodes = [make_node("Identity", ["q"], ["y"])]
            yield form("Identity", since, nodes, [given], [out], {"q": [X, X[:1]]}, [X, X[:1]], note="sequence")
    x = [value("x", F32, (2, 2))], [out], {"x": X}
    for since in (11, 24):
        nodes = [make_node("SplitToSequence", ["x"], ["y"])]
        yield form("SplitToSequence", since, nodes, *x, [X[:1], X[1:]], note="rows")
        nodes = [make_node("SplitToSequence", ["x", "n"], ["y"])]
        for sizes, parts in ((np.array(2), [X]), (np.array([2, 0]), [X, X[:0]])):
            yield form("SplitToSequence", since, nodes, *x, parts, constants={"n": sizes}, note=str(sizes.ndim))
        nodes = [make_node("SplitToSequence", ["x"], ["y"], axis=1, keepdims=0)]
        yield form("SplitToSequence", since, nodes, *x, [X[:, 0], X[:, 1]], note="keepdims")


def _elements() -> Iterator[Form]:
    """Operators that put in, take out and join."""
    a, b, c = F32([1]), F32([2, 3]), F32([4])
    q, out, y = sequence("q"), [sequence("y")], [value("y")]
    for content, at, answer in (([a, b], None, [a, b, c]), ([a, b], 0, [c, a, b]), ([a, b], -1, [a, c, b]),
                                ([a, b], 2, [a, b, c]), ([], 0, [c])):  # fmt: skip
        nodes = [make_node("SequenceInsert", ["q", "x", *(["i"] if at is not None else [])], ["y"])]
        constants = {} if at is None else {"i": np.array(at)}
        yield form("SequenceInsert", 11, nodes, [q, value("x", shape=(1,))], out, {"q": content, "x": c}, answer,
                   constants=constants, note=str(at))  # fmt: skip
    for at, answer in ((None, [a, b]), (-3, [b, c]), (1, [a, c])):
        nodes = [make_node("SequenceErase", ["q", *(["i"] if at is not None else [])], ["y"])]
        constants = {} if at is None else {"i": np.array(at)}
        yield form("SequenceErase", 11, nodes, [q], out, {"q": [a, b, c]}, answer, constants=constants, note=str(at))
    made = make_node("SequenceConstruct", ["x", "z"], ["y"])
    both = [value("x", shape=(1,)), value("z", shape=(2,))]
    yield form("SequenceConstruct", 11, [made], both, out, {"x": a, "z": b}, [a, b])
    for at, answer in ((-1, b), (0, a)):
        taken = make_node("SequenceAt", ["q", "i"], ["y"])
        constants = {"i": np.array(at)}
        yield form("SequenceAt", 11, [taken], [q], y, {"q": [a, b]}, answer, constants=constants, note=str(at))
    counted = make_node("SequenceLength", ["q"], ["y"])
    yield form("SequenceLength", 11, [counted], [q], [value("y", I64, ())], {"q": [a, b]}, np.array(2))
    for content, how, answer in (([a, b], {"axis": 0}, F32([1, 2, 3])),
                                 ([a, c], {"axis": -1, "new_axis": 1}, F32([[1, 4]]))):  # fmt: skip
        joined = make_node("ConcatFromSequence", ["q"], ["y"], **how)
        yield form("ConcatFromSequence", 11, [joined], [q], y, {"q": content}, answer, note=str(how["axis"]))
    nodes = [make_node("SequenceEmpty", [], ["e"], dtype=7), make_node("SequenceInsert", ["e", "x"], ["y"])]
    three = np.array(3)
    yield form("SequenceEmpty", 11, nodes, [value("x", I64, ())], [sequence("y", I64)], {"x": three}, [three])
    body = make_graph([make_node("Add", ["e", "t"], ["sum"]), make_node("Shape", ["e"], ["size"])],
                      [value("e"), value("t")], [value("sum"), value("size", I64)])  # fmt: skip
    node = make_node("SequenceMap", ["q", "x"], ["y", "sizes"], body=body)
    yield form("SequenceMap", 17, [node], [q, value("x", shape=(1,))], [*out, sequence("sizes", I64)],
               {"q": [b, a], "x": a}, [b + 1, a + 1], [np.array([2]), np.array([1])])  # fmt: skip


def _optionals() -> Iterator[Form]:
    stated = OptionalType(tensor_type(F32, (2, 2)))
    optional, tensor, y, truth = Value("o", stated), value("x", F32, (2, 2)), [value("y")], [value("y", BOOL)]
    for since in (15, 28):
        made = [make_node("Optional", ["x"], ["o"]), make_node("OptionalGetElement", ["o"], ["y"])]
        yield form("Optional", since, made, [tensor], y, {"x": X}, X)
        empty = [make_node("Optional", [], ["o"], type=stated.element), make_node("OptionalHasElement", ["o"], ["y"])]
        yield form("Optional", since, empty, [], truth, {}, np.array(False), note="empty")
    for since in (15, 18, 28):
        get, has = (make_node(op, ["o"], ["y"]) for op in ("OptionalGetElement", "OptionalHasElement"))
        yield form("OptionalGetElement", since, [get], [optional], y, {"o": X}, X)
        for content in (X, None):
            there = np.array(content is not None)
            yield form("OptionalHasElement", since, [has], [optional], truth, {"o": content}, there, note=str(there))
        if since >= 18:
            get, has = (make_node(op, ["x"], ["y"]) for op in ("OptionalGetElement", "OptionalHasElement"))
            yield form("OptionalGetElement", since, [get], [tensor], y, {"x": X}, X, note="tensor")
            yield form("OptionalHasElement", since, [has], [tensor], truth, {"x": X}, np.array(True), note="tensor")
            nothing = make_node("OptionalHasElement", [], ["y"])
            yield form("OptionalHasElement", since, [nothing], [], truth, {}, np.array(False), note="nothing")
