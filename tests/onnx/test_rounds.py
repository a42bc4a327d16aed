"""Loops with a constant number of rounds: written out, or the recurrent layer that they are; those without an end.

Loops are made in many spellings, as tf2onnx and torch.jit write them; the oracle is onnxruntime.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnxruntime
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import Model, dumps, evaluate, infer, simplify
from hwflow.onnx.build import Builder, make_graph, make_model, make_node, tensor_type
from hwflow.onnx.model import Node, Value
from hwflow.quantize import quantize
from tests.quantize.played import check_played
from tests.random_cases import seeds


@dataclass
class Spelling:
    """How a loop is written."""

    kind: str
    steps: int
    size: int
    hidden: int
    scan: bool
    joined: bool  # x and h side by side, one product
    outside: bool  # the product with x is made in front of the loop
    parts: bool  # each gate has products of its own
    sequence: bool  # every state is a result, not the last alone
    hard: bool


def spelling(rng: np.random.Generator) -> Spelling:
    kind = str(rng.choice(["RNN", "GRU", "GRU_before", "LSTM"]))
    flags = {name: bool(rng.integers(2)) for name in ("scan", "joined", "outside", "parts", "sequence", "hard")}
    flags["outside"] &= not flags["joined"]
    flags["joined"] &= kind in ("RNN", "LSTM")
    return Spelling(kind, int(rng.integers(2, 7)), int(rng.integers(1, 5)), int(rng.integers(1, 6)), **flags)


def value(name: str, shape: tuple[int, ...] | None = None, dtype: type = np.float32) -> Value:
    return Value(name, tensor_type(dtype, shape))


class Body:
    """The body of a loop around one cell; weights are constants of the graph around it."""

    def __init__(self, form: Spelling, outer: Builder, rng: np.random.Generator) -> None:
        self.form, self.outer, self.rng, self.nodes = form, outer, rng, list[Node]()

    def emit(self, op: str, *inputs: str, outputs: int = 1, **attributes) -> str | list[str]:
        names = [f"b{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def weights(self, name: str, *shape: int) -> str:
        return self.outer.constant(f"{name}{self.rng.integers(1 << 40)}",
                                   self.rng.standard_normal(shape).astype(np.float32))

    def sums(self, x: str, h: str, gates: int) -> list[str]:
        """The sums of all gates, of input and state together."""
        form = self.form
        n, size = form.hidden, form.size
        if form.joined:
            both = self.emit("Concat", x, h, axis=1)
            total = self.emit("Gemm", both, self.weights("w", size + n, gates * n), self.weights("b", gates * n))
        elif form.parts and not form.outside:
            return [self.emit("Add", self.emit("MatMul", x, self.weights("w", size, n)),
                              self.emit("Gemm", h, self.weights("r", n, n), self.weights("b", n), transB=1))
                    for _ in range(gates)]
        else:
            product = x if form.outside else self.emit("MatMul", x, self.weights("w", size, gates * n))
            of_h = self.emit("Gemm", h, self.weights("r", n, gates * n), self.weights("b", gates * n))
            total = self.emit("Add", product, of_h)
        split = self.outer.constant(f"split{gates}", np.array([n] * gates))
        return self.emit("Split", total, split, outputs=gates, axis=1) if gates > 1 else [total]

    def gate(self, x: str) -> str:
        return self.emit("HardSigmoid", x, alpha=0.2, beta=0.5) if self.form.hard else self.emit("Sigmoid", x)

    def cell(self, x: str, h: str, c: str) -> tuple[str, str]:
        """The next h and c."""
        if self.form.kind == "RNN":
            return self.emit("Tanh", self.sums(x, h, 1)[0]), ""
        if self.form.kind == "LSTM":
            f, g, i, o = self.sums(x, h, 4)
            kept = self.emit("Mul", self.gate(f), c)
            c = self.emit("Add", kept, self.emit("Mul", self.emit("Tanh", g), self.gate(i)))
            return self.emit("Mul", self.emit("Tanh", c), self.gate(o)), c
        r, z = (self.gate(part) for part in self.sums(x, h, 2))
        n, one = self.form.hidden, self.outer.constant("one", np.float32(1))
        x_part = self.part_of_x(x)
        if self.form.kind == "GRU":
            h_part = self.emit("Mul", r, self.emit("Gemm", h, self.weights("r", n, n), self.weights("b", n)))
        else:
            h_part = self.emit("MatMul", self.emit("Mul", h, r), self.weights("r", n, n))
        new = self.emit("Tanh", self.emit("Add", x_part, h_part))
        if self.rng.integers(2):  # n + z * (h - n)
            return self.emit("Add", new, self.emit("Mul", z, self.emit("Sub", h, new))), ""
        return self.emit("Add", self.emit("Mul", z, new), self.emit("Mul", self.emit("Sub", one, z), h)), ""

    def part_of_x(self, x: str) -> str:
        n = self.form.hidden
        width = 2 * n if self.form.outside else self.form.size
        return self.emit("Gemm", x, self.weights("w", width, n), self.weights("b", n))


def loop_model(form: Spelling, rng: np.random.Generator) -> Model:
    """A model of one loop and a product behind it."""
    b = Builder()
    x = b.input("x", np.float32, (form.steps, 1, form.size))
    gates = {"RNN": 1, "LSTM": 4}.get(form.kind, 2)
    if form.outside:
        v = rng.standard_normal((form.size, gates * form.hidden)).astype(np.float32)
        x = b.node("MatMul", x, b.constant("v", v))
    body = Body(form, b, rng)
    states = ["h", "c"] if form.kind == "LSTM" else ["h"]
    begun = [b.constant(f"{name}0", (rng.standard_normal((1, form.hidden)) * rng.integers(2)).astype(np.float32))
             for name in states]
    if form.scan:
        h, c = body.cell("x_t", "h", "c")
        inputs, inits, counters = [*map(value, states), value("x_t")], [*begun, x], []
    else:
        body.nodes.append(make_node("Gather", [x, "t"], ["x_t"], axis=0))
        h, c = body.cell("x_t", "h", "c")
        body.nodes += [make_node("Add", ["t", "step"], ["t2"]), make_node("Less", ["t2", "limit"], ["on2"])]
        b.constant("step", np.array(1))
        b.constant("limit", np.array(form.steps))
        inputs = [value("i", (), np.int64), value("on", (), np.bool_), value("t", (), np.int64), *map(value, states)]
        inits = [b.constant("most", np.array(1 << 40)), b.constant("true", np.array(True)),
                 b.constant("t0", np.array(0)), *begun]
        counters = ["t2"]
    body.nodes.append(make_node("Identity", [h], ["row"]))
    carried = [h, c][: len(states)]
    outputs = [*([] if form.scan else ["on2"]), *counters, *carried, "row"]
    graph = make_graph(body.nodes, inputs, [value(name, None, np.bool_ if name == "on2" else
                       np.int64 if name == "t2" else np.float32) for name in outputs], name="body")
    names = [f"end{k}" for k in range(len(counters) + len(states))] + ["rows"]
    extra = {"num_scan_inputs": 1} if form.scan else {}
    b.nodes("Scan" if form.scan else "Loop", *inits, outputs=names, name="loop", body=graph, **extra)
    seen = "rows" if form.sequence else names[len(counters)]
    b.output(b.node("MatMul", seen, b.constant("out", rng.standard_normal((form.hidden, 3)).astype(np.float32)),
                    output="y"), np.float32, None)
    return b.model()


@seeds(range(12), range(12, 80))
def test_loops_of_gates_are_recurrent_layers(seed: int) -> None:
    """Whatever nodes write the gates, and whether the loop counts itself or scans."""
    rng = np.random.default_rng(seed)
    form = spelling(rng)
    model = loop_model(form, rng)
    inferred = simplify(infer(model))
    kinds = [node.op_type for node in inferred.graph.nodes]
    assert form.kind.removesuffix("_before") in kinds, form
    assert not {"Loop", "Scan", "Sigmoid", "Tanh"}.intersection(kinds)
    require_same(model, inferred, rng)


def require_same(model: Model, inferred: Model, rng: np.random.Generator) -> None:
    """onnxruntime gives the same for both files."""
    sessions = [onnxruntime.InferenceSession(dumps(each), providers=["CPUExecutionProvider"])
                for each in (model, inferred)]
    for _ in range(3):
        fed = {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in sessions[0].get_inputs()}
        for a, b in zip(*(session.run(None, fed) for session in sessions), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_a_loop_becomes_hardware(kind: str) -> None:
    """It is a layer of the steps of the sequence, and its RTL computes what the golden model does."""
    rng = np.random.default_rng(3)
    model = loop_model(Spelling(kind, 3, 2, 3, False, False, False, False, False, False), rng)
    quantized = quantize(model, {"x": rng.standard_normal((30, 3, 1, 2)).astype(np.float32)})
    assert "Recurrent" in {type(layer).__name__ for layer in quantized.graph.layers}
    check_played(quantized.graph)


def running(nodes: list[Node], outputs: list[str], **options) -> Model:
    """A loop that carries a vector v [2], of the nodes of its body; with `states` more carried values."""
    b = Builder()
    b.input("x", np.float32, (1, 2))
    b.input("n", np.int64, ())
    b.constant("two", np.array(2))
    b.constant("true", np.array(True))
    b.constant("half", np.float32(0.5))
    body = make_graph(nodes, [value("i", (), np.int64), value("on", (), np.bool_), value("v")],
                      [value(name, None, np.bool_ if k == 0 else np.float32) for k, name in enumerate(outputs)])
    b.nodes("Loop", options.get("most", "two"), options.get("begun", "true"), "x",
            outputs=("y", "rows")[:len(outputs) - 1], name="loop", body=body)
    b.output("y", np.float32, (1, 2))
    return b.model()


TURN = [make_node("Mul", ["v", "half"], ["m"]), make_node("Relu", ["m"], ["w"]),
        make_node("Identity", ["on"], ["on2"])]


def test_another_loop_is_written_out() -> None:
    model = running(TURN, ["on2", "w", "m"])
    inferred = simplify(infer(model))
    assert [node.op_type for node in inferred.graph.nodes] == ["Mul", "Relu", "Mul", "Relu"]


@pytest.mark.parametrize(("options", "message"), [
    ({"most": ""}, "'loop' (Loop): must have an end within 4096 rounds to be written out, and its condition never "
     "changes; give it a number of rounds, or a condition that becomes false"),
    ({"most": "n"}, "'loop' (Loop): its number of rounds must be constant, not computed from the inputs; if the input "
     "never changes, give --constant n=NUMBER"),
])
def test_loops_without_a_constant_end(options, message) -> None:
    with pytest.raises(HwflowError) as caught:
        infer(running(TURN, ["on2", "w"], **options))
    assert str(caught.value) == f"graph/node[0] {message}"


def test_a_condition_of_the_data() -> None:
    nodes = [*TURN[:2], make_node("ReduceSum", ["w"], ["s"], keepdims=0), make_node("Greater", ["s", "half"], ["on2"])]
    with pytest.raises(HwflowError) as caught:
        infer(make_model(running(nodes, ["on2", "w"]).graph, opset=13))
    assert "its condition must be constant, not computed from the inputs" in str(caught.value)


def test_a_loop_that_never_comes_to_its_end() -> None:
    nodes = [*TURN[:2], make_node("Less", ["i", "far"], ["on2"])]
    model = running(nodes, ["on2", "v"], most="")
    graph = model.graph
    far = {**graph.initializers, "far": np.array(1 << 40)}
    with pytest.raises(HwflowError) as caught:
        infer(make_model(make_graph(graph.nodes, graph.inputs, graph.outputs, far)))
    assert "must end after at most 4096 rounds to be written out, and goes on after 4096" in str(caught.value)


def test_rounds_that_know_nothing_of_each_other_are_written_once() -> None:
    """Operands of all ranks, constants of both graphs, and results that keep axes; the oracle is onnxruntime."""
    rng = np.random.default_rng(9)
    b = Builder()
    x = b.input("x", np.float32, (2, 3))
    rows, more = (b.constant(name, rng.standard_normal(shape).astype(np.float32))
                  for name, shape in (("rows", (7, 3)), ("more", (7,))))
    b.constant("outer", rng.standard_normal((2, 1)).astype(np.float32))
    nodes = [
        make_node("Constant", [], ["two"], value=np.array(2, np.float32)),
        make_node("Sub", ["h", "row"], ["apart"]), make_node("Pow", ["apart", "two"], ["powers"]),
        make_node("ReduceSum", ["powers", "along"], ["sums"], keepdims=0),
        make_node("ReduceMax", ["apart"], ["most"], axes=[-1], keepdims=1),
        make_node("Mul", ["sums", "number"], ["scaled"]), make_node("Add", ["most", "outer"], ["shifted"]),
        make_node("Identity", ["h"], ["h2"])]
    body = make_graph(nodes, [value("h"), value("row"), value("number")],
                      [value("h2"), value("scaled"), value("shifted")], {"along": np.array([1])}, name="body")
    names = b.nodes("Scan", x, rows, more, outputs=("h", "scaled_rows", "shifted_rows"), body=body, num_scan_inputs=2)
    for name in names:
        b.output(name, np.float32, None)
    model = b.model(opset=17)
    inferred = infer(model)
    assert len(inferred.graph.nodes) <= 10
    rows_of_x = rng.standard_normal((2, 3)).astype(np.float32)
    wanted = onnxruntime.InferenceSession(dumps(model)).run(None, {"x": rows_of_x})
    for made, result in zip(evaluate(inferred, {"x": rows_of_x}).values(), wanted, strict=True):
        np.testing.assert_allclose(made, result, rtol=1e-6)
