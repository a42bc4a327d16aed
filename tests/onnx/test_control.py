"""If, Loop and Scan: what their graphs see, and where they must stop; see also forms/whole.py."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import Graph, Model, Node, evaluate
from hwflow.onnx.build import make_graph, make_node, tensor_type
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import SequenceType, Value
from tests.onnx.models import BOOL, F32, I64, model_of, value

X = np.array([1, 2, 3], F32)


def if_model(then: Graph, otherwise: Graph, *before: Node, outputs=("y",)) -> Model:
    node = make_node("If", ["c"], outputs, name="if", then_branch=then, else_branch=otherwise)
    inputs = [value("c", BOOL, ()), value("x", F32, (3,))]
    return model_of([*before, node], inputs, [value(name) for name in outputs])


def branch(*nodes: Node, output="out", **constants) -> Graph:
    return make_graph(nodes, [], [value(output)], constants)


def loop_model(body: Graph, *, count=True, condition=True, state=("s",), outputs=("y",), opset=17) -> Model:
    inputs = [value("n", I64, ()), value("c", BOOL, ()), *(value(name) for name in state)]
    given = ["n" if count else "", "c" if condition else "", *state]
    node = make_node("Loop", given, outputs, name="loop", body=body)
    return model_of([node], inputs, [value(name) for name in outputs], opset=opset)


def loop_body(*nodes: Node, outputs, **constants) -> Graph:
    inputs = [value("i", I64, ()), value("going", BOOL, ()), value("a")]
    return make_graph(nodes, inputs, [v if isinstance(v, Value) else value(v) for v in outputs], constants)


#: s + s until it is 100 or more; each new value is collected.
DOUBLE = loop_body(
    make_node("Add", ["a", "a"], ["b"]),
    make_node("Less", ["b", "hundred"], ["on"]),
    make_node("Identity", ["b"], ["row"]),
    outputs=(value("on", BOOL, ()), "b", value("row", F32, ())),
    hundred=F32(100),
)


class TestIf:
    @pytest.mark.rule("NM-09")
    def test_branches_use_the_same_inner_names(self) -> None:
        then = branch(make_node("Neg", ["x"], ["t"]), make_node("Abs", ["t"], ["out"]))
        otherwise = branch(make_node("Exp", ["x"], ["t"]), make_node("Log", ["t"], ["out"]))
        model = if_model(then, otherwise)
        np.testing.assert_array_equal(evaluate(model, {"c": np.array(True), "x": X})["y"], X)
        np.testing.assert_allclose(evaluate(model, {"c": np.array(False), "x": X})["y"], X, rtol=1e-6)

    @pytest.mark.rule("NM-09")
    def test_inner_names_are_not_visible_outside(self) -> None:
        then = branch(make_node("Neg", ["x"], ["t"]), make_node("Abs", ["t"], ["out"]))
        model = if_model(then, then)
        with pytest.raises(HwflowError, match="'t' must be a tensor of the graph, not an unknown name"):
            evaluate(model, {"c": np.array(True), "x": X}, ["t"])

    @pytest.mark.rule("NM-10")
    def test_inner_nodes_read_values_of_all_kinds_around_them(self) -> None:
        """A graph input, an initializer and the output of a node, through two levels."""
        innermost = branch(make_node("Sum", ["x", "w", "h"], ["out"]))
        inner = branch(make_node("If", ["c"], ["out"], then_branch=innermost, else_branch=innermost))
        node = make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
        model = model_of(
            [make_node("Neg", ["x"], ["h"]), node], [value("c", BOOL, ()), value("x")], [value("y")], w=X
        )
        np.testing.assert_array_equal(evaluate(model, {"c": np.array(True), "x": X})["y"], X)

    @pytest.mark.rule("NM-10")
    def test_innermost_name_wins(self) -> None:
        shadow = branch(make_node("Mul", ["x", "w"], ["out"]), w=F32(10))
        outside = make_node("Neg", ["x"], ["w"])
        model = if_model(shadow, shadow, outside)
        np.testing.assert_array_equal(evaluate(model, {"c": np.array(True), "x": X})["y"], 10 * X)

    @pytest.mark.rule("NM-10")
    def test_outer_value_that_comes_later(self) -> None:
        inner = branch(make_node("Neg", ["late"], ["out"]))
        node = make_node("If", ["c"], ["y"], name="if", then_branch=inner, else_branch=inner)
        later = make_node("Abs", ["x"], ["late"])
        model = model_of([node, later], [value("c", BOOL, ()), value("x")], [value("y"), value("late")])
        with pytest.raises(HwflowError, match=r"node\[0\] 'if' \(If\): 'late' must be computed before it is read"):
            evaluate(model, {"c": np.array(True), "x": X})

    def test_condition_of_two_elements(self) -> None:
        model = if_model(branch(make_node("Neg", ["x"], ["out"])), branch(make_node("Neg", ["x"], ["out"])))
        model.graph.inputs[0].__dict__["type"] = tensor_type(BOOL)
        with pytest.raises(HwflowError, match="the condition must be one boolean, not an array of shape"):
            evaluate(model, {"c": np.array([True, False]), "x": X})

    def test_error_names_the_inner_node(self) -> None:
        inner = branch(make_node("Add", ["x", "w"], ["out"], name="sum"), w=np.zeros(2, F32))
        with pytest.raises(HwflowError) as caught:
            evaluate(if_model(inner, inner), {"c": np.array(True), "x": X})
        assert str(caught.value).startswith("graph/node[0] 'if' (If)/attribute 'then_branch'/node[0] 'sum' (Add): ")

    def test_missing_operators_in_graphs_are_named(self) -> None:
        inner = branch(make_node("Nonsense", ["x"], ["out"], name="n"))
        with pytest.raises(HwflowError) as caught:
            evaluate(if_model(inner, branch(make_node("Neg", ["x"], ["out"]))), {"c": np.array(False), "x": X})
        assert "graph/node[0] 'if' (If)/attribute 'then_branch'/node[0] 'n' (Nonsense)" in str(caught.value)


class TestLoop:
    @pytest.mark.parametrize("opset", [7, 11, 13, 16, 19, 21, 24])
    def test_while_with_a_limit(self, opset) -> None:
        found = evaluate(
            loop_model(DOUBLE, outputs=("y", "rows"), opset=opset),
            {"n": np.array(10), "c": np.array(True), "s": F32(20)},
        )
        assert found["y"] == 160
        np.testing.assert_array_equal(found["rows"], F32([40, 80, 160]))

    def test_trip_count_ends_it(self) -> None:
        assert evaluate(loop_model(DOUBLE), {"n": np.array(2), "c": np.array(True), "s": F32(1)})["y"] == 4

    def test_body_condition_is_ignored_without_one_outside(self) -> None:
        """The operator's text: with a trip count alone the condition of the body is required but ignored."""
        model = loop_model(DOUBLE, condition=False)
        assert evaluate(model, {"n": np.array(10), "s": F32(20)})["y"] == 20 * 1024

    @pytest.mark.parametrize("count, condition", [(0, True), (5, False)])
    def test_no_iteration(self, count, condition) -> None:
        found = evaluate(
            loop_model(DOUBLE, outputs=("y", "rows")), {"n": np.array(count), "c": np.array(condition), "s": F32(20)}
        )
        assert found["y"] == 20
        assert (found["rows"].shape, found["rows"].dtype) == ((0,), F32)

    @pytest.mark.rule("LM-02")
    def test_endless_loop(self) -> None:
        body = loop_body(make_node("Identity", ["going"], ["on"]), make_node("Neg", ["a"], ["b"]), outputs=("on", "b"))
        model = loop_model(body, count=False)
        with pytest.raises(LimitError) as caught:
            evaluate(model, {"c": np.array(True), "s": F32(1)}, limits=Limits(iterations=50))
        assert str(caught.value) == (
            "graph/node[0] 'loop' (Loop): all loops together must be at most 50 iterations (iterations), not 51; "
            "if you trust the model, raise it with --limit iterations=51"
        )

    @pytest.mark.rule("LM-02")
    def test_collected_rows_count_against_memory(self) -> None:
        body = loop_body(
            make_node("Identity", ["going"], ["on"]), make_node("Expand", ["a", "dims"], ["row"]),
            make_node("Identity", ["a"], ["b"]), outputs=("on", "b", "row"), dims=np.array([1000]),
        )  # fmt: skip
        with pytest.raises(LimitError, match=r"must be at most 100,000 bytes \(total_bytes\)"):
            evaluate(
                loop_model(body, outputs=("y", "rows")), {"n": np.array(1000), "c": np.array(True), "s": F32(1)},
                limits=Limits(total_bytes=100_000),
            )  # fmt: skip

    def test_sequence_is_carried(self) -> None:
        body = make_graph(
            [make_node("Identity", ["going"], ["on"]), make_node("SequenceInsert", ["q", "i"], ["r"])],
            [value("i", I64, ()), value("going", BOOL, ()), Value("q", SequenceType(tensor_type(I64, ())))],
            [value("on", BOOL, ()), Value("r", SequenceType(tensor_type(I64, ())))],
        )
        nodes = [
            make_node("SequenceEmpty", [], ["e"], dtype=7),
            make_node("Loop", ["n", "", "e"], ["s"], body=body),
            make_node("ConcatFromSequence", ["s"], ["y"], axis=0, new_axis=1),
        ]
        model = model_of(nodes, [value("n", I64, ())], [value("y", I64)])
        np.testing.assert_array_equal(evaluate(model, {"n": np.array(4)})["y"], [0, 1, 2, 3])

    def test_rows_of_two_shapes(self) -> None:
        body = loop_body(
            make_node("Identity", ["going"], ["on"]), make_node("Concat", ["a", "a"], ["b"], axis=0),
            make_node("Identity", ["b"], ["row"]), outputs=("on", "b", "row"),
        )  # fmt: skip
        with pytest.raises(HwflowError, match=r"'row' must have the same shape in each iteration, not \[2\]"):
            evaluate(
                loop_model(body, outputs=("y", "rows")), {"n": np.array(3), "c": np.array(True), "s": F32([1])}
            )

    def test_same_as_onnxruntime(self, onnxruntime_run) -> None:
        model = loop_model(DOUBLE, outputs=("y", "rows"))
        feeds = {"n": np.array(9), "c": np.array(True), "s": np.array(3, F32)}
        expected, found = onnxruntime_run(model, feeds), evaluate(model, feeds)
        for name in ("y", "rows"):
            np.testing.assert_array_equal(found[name], expected[name])
            assert found[name].shape == expected[name].shape


def scan_body(dtype=F32) -> Graph:
    """The sum so far, and that sum with the sign changed as a row."""
    return make_graph(
        [
            make_node("Add", ["sum", "row"], ["total"]),
            make_node("Neg", ["total"], ["out"]),
        ],
        [value("sum", dtype, (2,)), value("row", dtype, (2,))],
        [value("total", dtype, (2,)), value("out", dtype, (2,))],
    )


class TestScan:
    def model(self, shape, state=(2,), opset=17, lengths=False, **attributes) -> Model:
        node = make_node(
            "Scan", [*(["lengths" if lengths else ""] if opset == 8 else []), "s", "x"], ["y", "rows"], name="scan",
            body=scan_body(), num_scan_inputs=1, **attributes,
        )  # fmt: skip
        inputs = [value("s", F32, state), value("x", F32, shape)]
        inputs += [value("lengths", I64, (2,))] if lengths else []
        return model_of([node], inputs, [value("y"), value("rows")], opset=opset)

    @pytest.mark.parametrize("opset", [9, 11, 16, 21])
    @pytest.mark.parametrize("axis", [0, 1])
    @pytest.mark.parametrize("backward", [0, 1])
    def test_axes_and_directions(self, onnxruntime_run, opset, axis, backward) -> None:
        x = np.arange(6, dtype=F32).reshape((3, 2) if axis == 0 else (2, 3))
        model = self.model(
            x.shape, opset=opset, scan_input_axes=[axis], scan_input_directions=[backward],
            scan_output_axes=[axis], scan_output_directions=[1 - backward],
        )  # fmt: skip
        feeds = {"s": np.ones(2, F32), "x": x}
        expected, found = onnxruntime_run(model, feeds), evaluate(model, feeds)
        for name in ("y", "rows"):
            np.testing.assert_array_equal(found[name], expected[name])

    def test_version_8_lengths_that_do_not_fit(self) -> None:
        feeds = {"s": np.zeros((2, 2), F32), "x": np.zeros((2, 3, 2), F32), "lengths": np.array([1, 4])}
        with pytest.raises(HwflowError, match="'sequence_lens' must be one length from 0 to 3 for each of the batch"):
            evaluate(self.model((2, 3, 2), (2, 2), 8, lengths=True), feeds)

    def test_attribute_of_wrong_length(self) -> None:
        with pytest.raises(HwflowError, match=r"attribute 'scan_input_axes' must have 1 numbers, not \[0, 0\]"):
            evaluate(self.model((3, 2), scan_input_axes=[0, 0]), {"s": np.zeros(2, F32), "x": np.zeros((3, 2), F32)})
