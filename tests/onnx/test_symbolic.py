"""Types of values whose sizes are open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from hwflow.onnx import Model, TensorType, Value
from hwflow.onnx.build import Builder, make_graph, make_node, tensor_type
from hwflow.onnx.inference import Types, infer_types
from hwflow.onnx.inference.worlds import Worlds
from hwflow.onnx.model import Function, Graph, OptionalType, SequenceType
from hwflow.onnx.rules.finding import Severity

F, I64 = np.float32, np.int64


def shape(types: Types, name: str) -> tuple[int | str | None, ...] | None:
    found = types[name]
    assert isinstance(found, TensorType)
    return found.shape


def of_node(op: str, *shapes: Sequence[int | str | None] | None, opset: int = 17, **attributes: object) -> Types:
    """Types of a model of one node "y" with float inputs."""
    b = Builder()
    names = [b.input(f"x{i}", F, s) for i, s in enumerate(shapes)]
    b.output(b.node(op, *names, output="y", **attributes))
    return infer_types(b.model(opset=opset))


def codes(types: Types) -> list[tuple[str, Severity]]:
    return [(finding.rule, finding.severity) for finding in types.findings]


class TestSizes:
    def test_names_of_sizes(self) -> None:
        worlds = Worlds()
        n, m = worlds.symbol("n"), worlds.symbol("m")

        def text(f: object) -> object:
            return worlds.text(worlds.gather({w: f(n[w], m[w]) for w in worlds.alive}))  # type: ignore[operator]

        assert text(lambda n, m: n) == "n"
        assert text(lambda n, m: 7) == 7
        assert text(lambda n, m: 2 * n) == "2*n"
        assert text(lambda n, m: n - 3) == "n - 3"
        assert text(lambda n, m: 3 - n) == "3 - n"
        assert text(lambda n, m: n * m) == "n*m"
        assert text(lambda n, m: 4 * n * m + 1) == "4*n*m + 1"
        assert text(lambda n, m: n + 2 * m - 5) == "n + 2*m - 5"
        assert text(lambda n, m: n // 2) is None
        assert text(lambda n, m: min(n, 10)) is None

    @pytest.mark.rule("SH-05")
    def test_a_name_that_is_no_identifier_is_one_text(self) -> None:
        types = of_node("Concat", ["s0 + 1", 2], ["s0 + 1", 2], axis=0)
        assert shape(types, "y") == ("2*(s0 + 1)", 2)
        assert types.findings == ()

    @pytest.mark.rule("SH-07")
    def test_a_star_is_a_name(self) -> None:
        assert shape(of_node("Relu", ["*", 2]), "y") == ("*", 2)

    def test_a_name_of_two_sizes_is_dropped(self) -> None:
        worlds = Worlds()
        worlds.call(worlds.fresh(), "k")
        other = worlds.fresh()
        worlds.call(other, "k")
        assert worlds.text(other) is None


class TestOperators:
    @pytest.mark.rule("SH-11")
    def test_matrix_product(self) -> None:
        types = of_node("MatMul", ["K", "M"], ["M", "N"])
        assert shape(types, "y") == ("K", "N")
        assert shape(of_node("MatMul", ["b", 3, "M"], ["M", 5]), "y") == ("b", 3, 5)

    @pytest.mark.rule("SH-04")
    @pytest.mark.rule("SH-06")
    def test_unknown_sizes_are_unrelated(self) -> None:
        assert shape(of_node("Add", [None, 3], [None, 3]), "y") == (None, 3)
        assert shape(of_node("Add", ["", 3], ["", 3]), "y") == (None, 3)

    @pytest.mark.rule("SH-01")
    @pytest.mark.rule("SH-02")
    @pytest.mark.rule("SH-03")
    def test_a_scalar_is_no_unknown_rank(self) -> None:
        assert shape(of_node("Neg", []), "y") == ()
        unknown = of_node("Neg", None)["y"]
        assert unknown == tensor_type(F)

    @pytest.mark.rule("SH-12")
    def test_negative_and_empty_sizes(self) -> None:
        assert shape(of_node("Concat", [-1, 2], [0, 2], axis=0), "y") == (None, 2)
        assert shape(of_node("Neg", [0, 2]), "y") == (0, 2)

    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            (["n", 1], [1, "m"], ("n", "m")),
            (["n"], [1], ("n",)),
            (["n"], [4], (4,)),
            (["n"], ["m"], (None,)),
            (["n", 3], ["n", 1], ("n", 3)),
            ([2, 3], ["n", 2, 3], ("n", 2, 3)),
        ],
    )
    def test_broadcasting(self, first, second, expected) -> None:
        types = of_node("Add", first, second)
        assert shape(types, "y") == expected
        assert types.findings == ()

    def test_convolution_of_any_image(self) -> None:
        b = Builder()
        w = b.constant("w", np.ones((8, 3, 3, 3), F))
        y = b.node("Conv", b.input("x", F, ("n", 3, "h", "w_")), w, pads=[1, 1, 1, 1])
        b.output(b.node("Conv", y, b.constant("v", np.ones((4, 8, 7, 7), F)), output="z"))
        types = infer_types(b.model())
        assert shape(types, y) == ("n", 8, "h", "w_")
        assert shape(types, "z") == ("n", 4, "h - 6", "w_ - 6")

    def test_rounded_sizes_meet_themselves(self) -> None:
        """(n - 1) // 2 + 1 has no simple name, but both branches have it, and twice of it is known to be even."""
        b = Builder()
        x = b.input("x", F, (1, 3, "n"))
        left, right = (b.node("MaxPool", x, kernel_shape=[1], strides=[2]) for _ in range(2))
        b.output(b.node("Add", left, right, output="sum"))
        types = infer_types(b.model())
        assert shape(types, left) == (1, 3, None)
        assert shape(types, "sum") == (1, 3, None)

    def test_a_limit_is_no_size(self) -> None:
        """The first ten of n are not always ten."""
        b = Builder()
        starts, ends = b.constant("starts", np.array([0])), b.constant("ends", np.array([10]))
        b.output(b.node("Slice", b.input("x", F, ("n", 2)), starts, ends, output="y"))
        assert shape(infer_types(b.model()), "y") == (None, 2)

    def test_a_size_that_the_operator_forces(self) -> None:
        b = Builder()
        y = b.node("Conv", b.input("x", F, ("n", "c", 8, 8)), b.constant("w", np.ones((4, 3, 3, 3), F)), output="y")
        b.output(y)
        assert shape(infer_types(b.model()), "y") == ("n", 4, 6, 6)

    def test_no_guess_where_two_sizes_fit(self) -> None:
        """The first axis of the indices may be 1 or 2: neither is known."""
        b = Builder()
        x, index = b.input("x", F, (2, 3)), b.input("i", I64, (None, 3))
        b.output(b.node("GatherElements", x, index, axis=1, output="y"))
        assert shape(infer_types(b.model()), "y") == (None, 3)


class TestConstants:
    def test_the_usual_view(self) -> None:
        """What exporters write for x.view(x.size(0), -1, 4)."""
        b = Builder()
        x = b.input("x", F, ("batch", "length", 12))
        size = b.node("Gather", b.node("Shape", x), b.constant("zero", np.array(0, I64)), axis=0)
        rest = [b.constant("minus", np.array([-1], I64)), b.constant("four", np.array([4], I64))]
        one = b.node("Unsqueeze", size, b.constant("axes", np.array([0], I64)))
        b.output(b.node("Reshape", x, b.node("Concat", one, *rest, axis=0), output="y"))
        types = infer_types(b.model())
        assert shape(types, "y") == ("batch", "3*length", 4)
        assert shape(types, size) == ()

    def test_flatten_of_open_sizes(self) -> None:
        assert shape(of_node("Flatten", ["batch", "length", 12]), "y") == ("batch", "12*length")

    def test_shape_that_is_not_known(self) -> None:
        b = Builder()
        b.output(b.node("Reshape", b.input("x", F, ("n", 2)), b.input("s", I64, (3,)), output="y"))
        b.output(b.node("Reshape", "x", b.input("t", I64, ("k",)), output="z"))
        types = infer_types(b.model())
        assert shape(types, "y") == (None, None, None)
        assert types["z"] == tensor_type(F)

    def test_constants_that_depend_on_sizes_are_no_promise(self) -> None:
        """A range over the batch has as many elements."""
        b = Builder()
        n = b.node("Squeeze", b.node("Shape", b.input("x", F, ("n",))))
        zero, one = b.constant("zero", np.array(0, I64)), b.constant("one", np.array(1, I64))
        b.output(b.node("Range", zero, n, one, output="y"))
        assert shape(infer_types(b.model()), "y") == ("n",)


def branches(condition: str, then: Graph, other: Graph, b: Builder) -> str:
    return b.node("If", condition, then_branch=then, else_branch=other, name="if", output="y")


def branch(*dims: int | str) -> Graph:
    node = make_node("RandomNormal", [], ["r"], shape=[d for d in dims if isinstance(d, int)])
    return make_graph([node], [], [Value("r", None)], name="branch")


class TestGraphs:
    def test_either_branch(self) -> None:
        b = Builder()
        b.output(branches(b.input("c", np.bool_, ()), branch(2, 3), branch(2, 4), b))
        types = infer_types(b.model())
        assert shape(types, "y") == (2, None)
        inner = types.inner["graph/node[0] 'if' (If)/attribute 'then_branch'"]
        assert inner["r"] == tensor_type(F, (2, 3))

    def test_the_branch_that_is_taken(self) -> None:
        b = Builder()
        b.output(branches(b.constant("c", np.array(False)), branch(2, 3), branch(2, 4), b))
        assert shape(infer_types(b.model()), "y") == (2, 4)

    @pytest.mark.rule("SH-14")
    def test_sizes_that_a_loop_changes(self) -> None:
        """The second state grows with every iteration, the first stays, the scanned value stacks."""
        body = make_graph(
            [
                make_node("Identity", ["go"], ["go_on"]),
                make_node("Neg", ["a"], ["a_next"]),
                make_node("Concat", ["b", "b"], ["b_next"], axis=0),
            ],
            [Value("i", tensor_type(I64, ())), Value("go", tensor_type(np.bool_, ())), *(Value(n, None) for n in "ab")],
            [Value("go_on", None), Value("a_next", None), Value("b_next", None), Value("a_next", None)],
        )
        b = Builder()
        count, go = b.constant("count", np.array(5)), b.constant("go0", np.array(True))
        a, grows = b.input("a0", F, ("n", 3)), b.input("b0", F, ("n", 3))
        b.nodes("Loop", count, go, a, grows, body=body, outputs=["ya", "yb", "all"])
        for name in ("ya", "yb", "all"):
            b.output(name)
        types = infer_types(b.model())
        assert [shape(types, name) for name in ("ya", "yb", "all")] == [("n", 3), (None, 3), (5, "n", 3)]
        assert types.findings == ()

    def test_scan(self) -> None:
        body = make_graph(
            [make_node("Add", ["s", "x"], ["t"])], [Value("s", None), Value("x", None)],
            [Value("t", None), Value("t", None)],
        )  # fmt: skip
        b = Builder()
        b.nodes("Scan", b.input("s0", F, (4,)), b.input("xs", F, ("steps", 4)), body=body, num_scan_inputs=1,
                outputs=["last", "all"])  # fmt: skip
        b.output("last")
        b.output("all")
        types = infer_types(b.model())
        assert [shape(types, name) for name in ("last", "all")] == [(4,), ("steps", 4)]

    @pytest.mark.rule("SH-10")
    def test_sequences(self) -> None:
        b = Builder()
        x, y, z = b.input("x", F, ("n", 2)), b.input("y_", F, ("n", 2)), b.input("z", F, ("m", 2))
        same, other = b.node("SequenceConstruct", x, y), b.node("SequenceConstruct", x, z)
        b.output(b.node("ConcatFromSequence", same, axis=1, output="joined"))
        b.output(b.node("Optional", other, output="maybe"))
        types = infer_types(b.model())
        assert types[same] == SequenceType(tensor_type(F, ("n", 2)))
        assert types["maybe"] == OptionalType(SequenceType(tensor_type(F, (None, 2))))
        assert shape(types, "joined") == ("n", None)

    def test_functions(self) -> None:
        body = (make_node("Transpose", ["a"], ["b"]), make_node("Relu", ["b"], ["c"]))
        function = Function("Turned", "acme", ("a",), ("c",), body, {"": 17})
        b = Builder()
        b.nodes("Turned", b.input("x", F, ("n", 4)), domain="acme", outputs=["y"], name="call")
        b.output("y")
        types = infer_types(replace(b.model(opsets={"acme": 1}), functions=(function,)))
        assert shape(types, "y") == (4, "n")
        assert types.inner["graph/node[0] 'call' (Turned)/function 'acme.Turned'"]["b"] == tensor_type(F, (4, "n"))


class TestContradictions:
    def stated(self, *nodes: tuple[str, object], **types: TensorType) -> Model:
        b = Builder()
        b.output(b.node("Relu", b.node("Neg", b.input("x", F, ("n", 3)), output="h"), output="y"), F, ("n", 3))
        model = b.model()
        return replace(model, graph=replace(model.graph, types=types))

    @pytest.mark.rule("GR-16")
    def test_a_value(self) -> None:
        types = infer_types(self.stated(h=tensor_type(F, ("n", 4))))
        assert [str(finding) for finding in types.findings] == [
            "graph/node[0] 'Neg_0' (Neg): the type of 'h' must be float32[n, 3], not float32[n, 4] as the file states; "
            "export the model again [GR-16]"
        ]
        assert shape(types, "h") == ("n", 3)

    @pytest.mark.rule("GR-21")
    @pytest.mark.parametrize("claim", [tensor_type(F, (3,)), tensor_type(I64, ("n", 3)), SequenceType(None)])
    def test_an_output(self, claim) -> None:
        b = Builder()
        b.output(b.node("Relu", b.input("x", F, ("n", 3)), output="y"))
        model = b.model()
        types = infer_types(replace(model, graph=replace(model.graph, outputs=(Value("y", claim),))))
        assert codes(types) == [("GR-21", Severity.ERROR)]

    @pytest.mark.rule("GR-12")
    def test_an_initializer(self) -> None:
        b = Builder()
        b.output(b.node("Add", b.input("x", F, (2,)), b.constant("w", F([1, 2])), output="y"))
        model = b.model()
        claimed = Value("w", tensor_type(F, (3,)))
        types = infer_types(replace(model, graph=replace(model.graph, overridable=(claimed,))))
        assert codes(types) == [("GR-12", Severity.ERROR)]

    @pytest.mark.rule("SH-13")
    def test_more_than_is_inferred_is_no_contradiction(self) -> None:
        types = infer_types(self.stated(h=tensor_type(F, (1, 3))))
        assert types.findings == ()
        assert shape(types, "h") == (1, 3)
        assert shape(types, "y") == ("n", 3)

    @pytest.mark.rule("SH-09")
    def test_a_name_for_two_sizes(self) -> None:
        b = Builder()
        b.input("z", F, ("m",))
        b.output(b.node("Relu", b.input("x", F, ("n",)), output="y"), F, ("m",))
        types = infer_types(b.model())
        assert codes(types) == [("SH-09", Severity.WARNING)]
        assert "the dim 'm' of 'y' must be one size everywhere, not also n" in str(types.findings[0])

    @pytest.mark.parametrize(
        ("op", "shapes", "attributes", "expected"),
        [
            ("Gemm", [("a", "b"), (1, "c"), ("d", 1)], {}, (None, None)),  # d is 1 or a
            ("Conv", [(1, 3, 2, 5), (6, 3, None, None)], {}, (None, None, None, None)),  # 2 by 5 is the largest kernel
            ("Concat", [(3, 4), ("a", "b"), ("c", "d")], {"axis": 0}, (None, None)),
            ("LSTM", [("t", 1, 2), ("d", 4, 2), ("d", 4, 1)], {"hidden_size": 1}, ("t", 1, 1, 1)),
            ("DFT", [("n", "s", "n")], {"axis": 1}, (None, "s", 2)),  # n is 1 or 2
        ],
    )
    def test_sizes_that_would_suit_are_no_facts(self, op, shapes, attributes, expected) -> None:
        """Several sizes of the file must be others than they seem; which ones, nobody knows."""
        types = of_node(op, *shapes, **attributes)
        assert codes(types) == []
        assert shape(types, "y") == expected

    @pytest.mark.rule("SH-08")
    def test_ranks_and_sizes_that_do_not_fit(self) -> None:
        types = of_node("Concat", [2, 3], [2, 3, 1], axis=0)
        assert codes(types) == [("SH-08", Severity.ERROR)]
        assert types.findings[0].path == "graph/node[0] 'Concat_0' (Concat)"
        assert codes(of_node("Add", ["n", 3], [4])) == [("SH-08", Severity.ERROR)]
        assert codes(of_node("MatMul", ["n", 3], [4, 2])) == []  # no size of n suits: nothing is known, nothing said

    @pytest.mark.rule("ND-05")
    def test_types_that_do_not_fit(self) -> None:
        b = Builder()
        b.output(b.node("Add", b.input("x", F, (2,)), b.input("z", I64, (2,)), output="y"))
        types = infer_types(b.model())
        assert [str(f) for f in types.findings] == [
            "graph/node[0] 'Add_0' (Add): input 1 (B) 'z' must be tensor(float) as input 0, not tensor(int64); "
            "insert a Cast, or export the model again [ND-05]"
        ]
