"""Forms that are more than a node of tensors: control flow, sequences, optionals, and operators of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hwflow.onnx import Graph
from hwflow.onnx.build import make_graph, make_model, make_node, tensor_type
from hwflow.onnx.model import Node, OptionalType, SequenceType, Value
from hwflow.onnx.schemas import versions_of
from tests.onnx import test_ops_ml as trees
from tests.onnx.forms.form import Form
from tests.onnx.neural import Case

F32, I64, BOOL = np.float32, np.int64, np.bool_
X = np.array([[1, -2], [3, 4]], F32)


def value(name: str, dtype: Any = F32, shape: tuple[int, ...] | None = None) -> Value:
    return Value(name, tensor_type(dtype, shape))


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
            yield form(
                "If",
                since,
                [node],
                [value("c", BOOL, ()), value("x", F32, (2, 2))],
                [value("y", shape=(2, 2))],
                feeds,
                wanted,
                note=str(taken),
            )


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
            yield form(
                "Scan", 8, [node], inputs, outputs, feeds, kept.sum(1), -np.cumsum(kept[:, ::-1], 1), note="back"
            )
            node = make_node("Scan", ["n", "s", "x"], ["y", "rows"], body=body, num_scan_inputs=1)
            rows = -np.cumsum(kept, 1)
            rows[0, 1:] = 0
            ends = np.stack([kept[0, 0], kept[1].sum(0)])
            yield form(
                "Scan",
                8,
                [node],
                [*inputs, value("n", I64, (2,))],
                outputs,
                {**feeds, "n": np.array([1, 3])},
                ends,
                rows,
                note="lengths",
            )
            continue
        kept = np.maximum(x[0], -1)
        inputs, feeds = [value("s", F32, (2,)), value("x", F32, (3, 2))], {"s": np.zeros(2, F32), "x": x[0]}
        node = make_node("Scan", ["s", "x"], ["y", "rows"], body=body, num_scan_inputs=1)
        yield form("Scan", since, [node], inputs, outputs, feeds, kept.sum(0), -np.cumsum(kept, 0))
        node = make_node("Scan", ["s", "x"], ["y", "rows"], body=body, num_scan_inputs=1, scan_input_directions=[1],
                         scan_output_axes=[1])  # fmt: skip
        yield form("Scan", since, [node], inputs, outputs, feeds, kept.sum(0), -np.cumsum(kept[::-1], 0).T, note="back")


def _sequences() -> Iterator[Form]:
    sequence = Value("q", SequenceType(tensor_type(F32)))
    out = Value("y", SequenceType(tensor_type(F32)))
    for schema in versions_of("", "Identity"):
        since = schema.since
        yield form(
            "Identity",
            since,
            [make_node("Identity", ["x"], ["y"])],
            [value("x", F32, (2, 2))],
            [value("y")],
            {"x": X},
            X,
        )
        whole = np.arange(3)
        yield form(
            "Identity",
            since,
            [make_node("Identity", ["x"], ["y"])],
            [value("x", I64, (3,))],
            [value("y", I64)],
            {"x": whole},
            whole,
            note="int64",
        )
        if since >= 14:
            yield form(
                "Identity",
                since,
                [make_node("Identity", ["q"], ["y"])],
                [sequence],
                [out],
                {"q": [X, X[:1]]},
                [X, X[:1]],
                note="sequence",
            )
    yield from _split_sequences(out)


def _split_sequences(out: Value) -> Iterator[Form]:
    for since in (11, 24):
        for sizes, parts in ((None, [X[:1], X[1:]]), (np.array(2), [X]), (np.array([2, 0]), [X, X[:0]])):
            inputs = ["x"] if sizes is None else ["x", "n"]
            constants = {} if sizes is None else {"n": sizes}
            yield form(
                "SplitToSequence",
                since,
                [make_node("SplitToSequence", inputs, ["y"])],
                [value("x", F32, (2, 2))],
                [out],
                {"x": X},
                parts,
                constants=constants,
                note="rows" if sizes is None else str(sizes.ndim),
            )
        node = make_node("SplitToSequence", ["x"], ["y"], axis=1, keepdims=0)
        yield form(
            "SplitToSequence",
            since,
            [node],
            [value("x", F32, (2, 2))],
            [out],
            {"x": X},
            [X[:, 0], X[:, 1]],
            note="keepdims",
        )


def _optionals() -> Iterator[Form]:
    stated = OptionalType(tensor_type(F32, (2, 2)))
    optional = Value("o", stated)
    tensor = value("x", F32, (2, 2))
    for since in (15, 28):
        made = [make_node("Optional", ["x"], ["o"]), make_node("OptionalGetElement", ["o"], ["y"])]
        yield form("Optional", since, made, [tensor], [value("y")], {"x": X}, X)
        empty = [make_node("Optional", [], ["o"], type=stated.element), make_node("OptionalHasElement", ["o"], ["y"])]
        yield form("Optional", since, empty, [], [value("y", BOOL)], {}, np.array(False), note="empty")
    for since in (15, 18, 28):
        get, has = make_node("OptionalGetElement", ["o"], ["y"]), make_node("OptionalHasElement", ["o"], ["y"])
        yield form("OptionalGetElement", since, [get], [optional], [value("y")], {"o": X}, X)
        for content in (X, None):
            yield form(
                "OptionalHasElement",
                since,
                [has],
                [optional],
                [value("y", BOOL)],
                {"o": content},
                np.array(content is not None),
                note=str(content is not None),
            )
        if since >= 18:
            node = make_node("OptionalGetElement", ["x"], ["y"])
            yield form("OptionalGetElement", since, [node], [tensor], [value("y")], {"x": X}, X, note="tensor")
            node = make_node("OptionalHasElement", ["x"], ["y"])
            yield form(
                "OptionalHasElement",
                since,
                [node],
                [tensor],
                [value("y", BOOL)],
                {"x": X},
                np.array(True),
                note="tensor",
            )
            node = make_node("OptionalHasElement", [], ["y"])
            yield form("OptionalHasElement", since, [node], [], [value("y", BOOL)], {}, np.array(False), note="nothing")


def ml_cases() -> Iterator[Case]:
    """Encoders of each version; trees with each way to compare, sums and averages."""
    for made in trees.simple():
        if made.op == "LabelEncoder":
            yield made
    for opset in (1, 3):
        nodes = trees.grown(opset, 4, 3, 4, trees.MODES[:5])
        for aggregate in ("SUM", "AVERAGE", "MIN"):
            attributes = {**nodes, **trees.votes(nodes, "target", 2, 1), "n_targets": 2, "base_values": [0.5, -0.25]}
            yield trees.case("TreeEnsembleRegressor", opset, trees.rows(40, 4), aggregate_function=aggregate,
                             attributes=attributes)  # fmt: skip
        attributes = {**nodes, **trees.votes(nodes, "class", 3, 2), "classlabels_strings": ["x", "y", "z"]}
        for kind in ("NONE", "LOGISTIC"):
            yield trees.case("TreeEnsembleClassifier", opset, trees.rows(40, 4), outputs=2, attributes=attributes,
                             post_transform=kind)  # fmt: skip
