"""The safety net: every pass, broken on purpose in turn, is caught with its name and a tensor of the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest

from hwflow import HwflowError, onnx
from hwflow.layers import Conv
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Array, Model, Node
from hwflow.onnx.rewrite.passes import Pass
from hwflow.quantize import post_training, quantization, quantize
from hwflow.quantize.checks.meaning import Meaning, MeaningChanged, Trail
from hwflow.quantize.passes.streaming import keep_states
from hwflow.quantize.settings import QuantizationSettings
from tests.quantize import (
    cache_models,
    test_audio,
    test_caches,
    test_computed_masks,
    test_embedding,
    test_host_parts,
    test_row_layers,
)
from tests.quantize.dialects.cases import QONNX, Maker
from tests.quantize.dialects.test_small_floats import TYPES, Small
from tests.quantize.models import Qdq, rows
from tests.quantize.rewrites import cases, every_pass, rows_for
from tests.quantize.tuning.networks import Net
from tests.strategies.classical import classical_model

#: What a mistake does to the result of a pass.
Mistake: TypeAlias = Callable[[Model], Model]


def on_first(
    op: str, change: Callable[[Model, Node], tuple[list[Node], Mapping[str, Array]]], constant: int | None = None
) -> Mistake:
    """Change the first node of this operator; of those whose input `constant` is one."""

    def mistake(model: Model) -> Model:
        known = model.graph.initializers
        found = (node for node in model.graph.nodes if node.op_type == op)
        node = next(node for node in found if constant is None or node.inputs[constant] in known)
        nodes, constants = change(model, node)
        others = [new for old in model.graph.nodes for new in (nodes if old is node else [old])]
        graph = replace(model.graph, nodes=tuple(others), initializers={**model.graph.initializers, **constants})
        return replace(model, graph=graph)

    return mistake


def forgets(op: str) -> Mistake:
    """The first node of this operator gives its input."""
    return on_first(op, lambda _, node: ([Node("Identity", node.inputs[:1], node.outputs[:1], name=node.name)], {}))


def writes(op: str, **attributes: Any) -> Mistake:
    return on_first(op, lambda _, node: ([replace(node, attributes={**node.attributes, **attributes})], {}))


def reads(op: str, first: int, second: int) -> Mistake:
    """Its inputs, both the same."""
    return on_first(op, lambda _, node: ([replace(node, inputs=(node.inputs[first], node.inputs[second]))], {}))


def computes(op: str, at: int, change: Callable[[Array], Any]) -> Mistake:
    """A constant of the first node of this operator that has it."""

    def changed(model: Model, node: Node) -> tuple[list[Node], Mapping[str, Array]]:
        array = model.graph.initializers[node.inputs[at]]
        inputs = (*node.inputs[:at], "mistaken", *node.inputs[at + 1 :])
        return [replace(node, inputs=inputs)], {"mistaken": np.asarray(change(array), array.dtype)}

    return on_first(op, changed, at)


def qonnx() -> Model:
    m = Maker((1, 3, 4, 4))
    x = m.quant(m.x, 0.25, 0, 8)
    weights = np.random.default_rng(1).normal(0, 1, (4, 3, 3, 3))
    y = m.node("Conv", x, m.quant(weights, 0.25), name="conv")
    return onnx.infer(m.model(m.quant(y, 0.5, 0, 8), domains={QONNX: 1}))


def text(title: str) -> Callable[[], Model]:
    """The model of a case of rewrites.txt."""
    return cases()[title].model


#: A model that the pass changes, and a mistake that it might make.
CASES: Mapping[str, tuple[Callable[[], Model], Mistake]] = {
    "remove-identities": (text("identities"), forgets("Relu")),
    "remove-unused": (text("unused"), forgets("Relu")),
    "floats-to-float32": (text("float64"), computes("MatMul", 1, lambda w: 1.01 * w)),
    "to-standard-qdq": (qonnx, computes("QuantizeLinear", 1, lambda scale: 2 * scale)),
    "classical-to-standard": (lambda: classical_model("TreeEnsembleRegressor", np.random.default_rng(0)),
                              computes("Mul", 1, lambda scale: 2 * scale)),
    "small-floats-to-float32": (lambda: onnx.infer(Small(TYPES["float8_e5m2"]).model("tensor")),
                                computes("MatMul", 1, lambda w: 1.01 * w)),
    "masks-before-softmax": (text("mask"), computes("Add", 1, lambda mask: np.flip(mask, -1))),
    "sum-to-add": (text("sum of three"), reads("Add", 0, 0)),
    "gemm-of-two": (text("gemm of two"), writes("Gemm", alpha=0.6)),
    "factors-behind-products": (text("factor"), computes("Mul", 1, lambda by: 1.01 * by)),
    "vectors-to-matrices": (text("vector"), computes("MatMul", 1, lambda w: 1.01 * w)),
    "rows-to-conv": (text("rows"), computes("Conv", 1, lambda w: 1.01 * w)),
    "whole-sequences": (text("whole sequences"), computes("GRU", 1, lambda w: 0.9 * w)),
    "batch-second": (text("layout"), computes("LSTM", 1, lambda w: 0.9 * w)),
    "last-states-of-y": (text("last state"), computes("Gather", 1, lambda step: step - 1)),
    "constant-layout": (text("weights moved"), computes("DequantizeLinear", 0, lambda w: w[::-1])),
    "transposed-to-conv": (text("stride 2"), computes("Conv", 1, lambda w: w[..., ::-1])),
    "limits-to-joins": (text("limits from data"), forgets("Min")),
    "choices-to-products": (text("choice of two"), reads("Sub", 1, 0)),
    "traced-moves": (text("columns of two"), reads("Concat", 1, 0)),
    "computed-masks": (lambda: onnx.infer(test_computed_masks.attention("where")),
                       computes("Where", 1, lambda hidden: 0 * hidden)),
    "caches-to-rows": (lambda: keep_states(cache_models.decoder(), {"keys": "keys_new", "values": "values_new"}),
                       computes("Gather", 0, lambda table: table[::-1])),
    "widened-to-expand": (text("a constant of more elements"), computes("Mul", 1, lambda by: 1.01 * by)),
    "flags-behind-moves": (text("flags that move"), reads("Mul", 0, 0)),
    "states-of-the-host": (lambda: keep_states(test_host_parts.of_overlaps(), {"overlap": "later"}), forgets("Cos")),
    "constant-parts-to-pads": (text("constants in a concat"), computes("Pad", 2, lambda value: value + 0.1)),
    "batches-to-dilations": (text("a dilation as a batch"), writes("Conv", dilations=(1, 1), pads=(0, 0, 0, 0))),
    "fold-pads": (text("pad"), writes("Conv", pads=(0, 0, 2, 2))),
    "dequantize-before-pool": (text("pool of integers"), computes("DequantizeLinear", 1, lambda scale: 2 * scale)),
    "decomposed-to-operators": (lambda: onnx.infer(test_row_layers.written_out(test_row_layers.torch_before_17)),
                                computes("LayerNormalization", 1, lambda gamma: 1.1 * gamma)),
    "fourier-to-products": (lambda: onnx.infer(test_audio.features("STFT")),
                            computes("Conv", 1, lambda waves: waves[:, :, ::-1])),
    "joins-to-sums-and-products": (text("Max"), reads("Sub", 1, 0)),
    "turn-before-copies": (text("copies"), computes("Pad", 1, lambda pads: np.roll(pads, 4))),
    "one-hot-to-gather": (text("one hot"), computes("Gather", 0, lambda table: table[::-1])),
    "tables-to-constants": (text("table"), computes("Gather", 0, lambda table: table[::-1])),
    "numbers-of-rows": (lambda: onnx.infer(test_embedding.model(test_embedding.gathered)),
                        computes("Gather", 0, lambda every: every[::-1])),
    "functions-into-tables": (text("function of rows"), computes("Gather", 0, lambda every: every[::-1])),
    "name-nodes": (text("unused"), forgets("Relu")),
    "convert-opset": (text("old limits"), computes("Clip", 2, lambda high: 0.5 * high)),
    "matrix-to-gemm": (text("matrix"), computes("Gemm", 1, lambda w: w[::-1])),
    "functions-before-moves": (text("function behind a shuffle"), writes("LeakyRelu", alpha=0.1)),
    "fold-affine": (text("batch normalization"), computes("Conv", 2, lambda bias: bias + 0.01)),
    "prelu-to-relu": (text("slopes"), computes("Conv", 1, np.abs)),
    "max-pool-last": (text("pool in front of a quantizer"), computes("QuantizeLinear", 2, lambda zero: zero + 1)),
    "clamps-before-concat": (text("clamp behind a concat"), forgets("Relu")),
    "affine-before-rankings": (text("before a ranking"), computes("Conv", 2, lambda bias: bias + 0.01)),
    "equalize": (text("identities"), computes("Conv", 1, lambda w: 1.01 * w)),
    "layout-before-dequantize": (text("layout in front"), writes("Transpose", perm=(0, 3, 2, 1))),
    "merge-equal": (text("equal quantizers"), computes("QuantizeLinear", 1, lambda scale: 2 * scale)),
}  # fmt: skip

#: Rows where random ones mean nothing: masks that hide some of a row, positions.
ROWS: Mapping[str, Callable[[Model], dict[str, Array]]] = {
    "computed-masks": lambda model: test_computed_masks.rows_of(model, True, 3),
    "caches-to-rows": lambda _: test_caches.tokens(3),
}

#: Passes after which the nodes are the same ones, or have other names.
LEAVE_NODES = ("remove-unused", "name-nodes", "states-of-the-host")

TUPLES = ((quantization, "PASSES"), (quantization, "DIALECT_PASSES"), (quantization, "QDQ_PASSES"),
          (post_training, "FLOAT_PASSES"), (post_training, "PASSES"))  # fmt: skip

#: Passes that settings ask for, and these settings.
ASKED = {"EQUALIZE": QuantizationSettings(equalize=True),
         "BEFORE_RANKINGS": QuantizationSettings(hardware_argmax=True)}  # fmt: skip


def test_every_pass_has_a_case() -> None:
    assert every_pass().keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_broken_pass_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, mistake = CASES[name]
    model, changed = make(), []
    data = ROWS[name](model) if name in ROWS else rows_for(model, 3)
    settings = next((given for asked, given in ASKED.items() if getattr(post_training, asked).name == name), None)
    quantize(model, data, settings=settings)  # as it is, all is well

    def broken(step: Pass) -> Pass:
        def run(before: Model) -> Model:
            after = step.run(before)
            same = after.graph.nodes == before.graph.nodes and name not in LEAVE_NODES
            if same or changed:
                return after
            changed.append(name)
            return mistake(after)

        return replace(step, run=run) if step.name == name else step

    for place, tuple_name in TUPLES:
        monkeypatch.setattr(place, tuple_name, tuple(map(broken, getattr(place, tuple_name))))
    for asked in ASKED:
        monkeypatch.setattr(post_training, asked, broken(getattr(post_training, asked)))
    with pytest.raises(MeaningChanged, match=f"the pass '{name}' must keep what the model computes") as raised:
        quantize(model, data, settings=settings)
    assert changed
    assert raised.value.exit_code == 70
    (tensor,) = re.findall(r"tensor '([^']*)'", str(raised.value))
    assert "mistaken" not in tensor
    assert re.search(r" of '[^']+' \(\w+\) (differs|has the shape)", str(raised.value))


def test_a_broken_import_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Conv.compute
    monkeypatch.setattr(Conv, "compute", lambda self, graph, x: compute(replace(self, pads=(0, 0, 2, 2)), graph, x))
    message = "the import must keep what .*: tensor 'relu2_out_quantized.frame' of layer 'conv1'"
    with pytest.raises(MeaningChanged, match=message):
        quantize(Net((1, 3, 8, 8)).conv(4).node("Relu").model())


def test_what_fails_after_a_pass_is_caught() -> None:
    model = cases()["unused"].model()
    meaning = Meaning.of(model, rows(model, 1))
    nodes = tuple(replace(node, attributes={**node.attributes, "group": 2}) if node.op_type == "Conv" else node
                  for node in model.graph.nodes)  # fmt: skip
    difference = meaning.difference(replace(model, graph=replace(model.graph, nodes=nodes)))
    assert difference is not None
    assert difference.how.startswith("fails: ")


def test_a_model_that_made_up_rows_cannot_run_says_so() -> None:
    b = Builder("lookup")
    index = b.input("index", np.int64, (4, 1))
    b.output(b.node("GatherND", b.constant("table", np.ones((1, 3), np.float32)), index), np.float32)
    assert "the indices must be -1 to 0" in Meaning.of(onnx.infer(b.model()), None).problem


def test_what_overflows_in_float16_is_not_held_against_float32() -> None:
    b = Builder("half")
    x = b.input("x", np.float16, (1, 4))
    large = b.node("Mul", x, b.constant("k", np.full((1, 4), 6e4, np.float16)), name="large")
    small = b.node("Mul", large, b.constant("l", np.full((1, 4), 1e-4, np.float16)), name="small")
    w = np.random.default_rng(0).normal(0, 0.3, (4, 3)).astype(np.float16)
    b.output(b.node("Gemm", small, b.constant("w", w), name="gemm"))
    model = onnx.infer(b.model())
    data = {"x": np.array([[[0.1, 0.2, 0.3, 0.4]], [[4.0, -3.0, 2.0, 1.0]]], np.float16)}
    quantize(model, data)


def shifted(shift: float, dtype: Any = np.float32) -> Model:
    """What is added to a convolution is subtracted again: the floats between have few digits of it."""
    b = Builder("shifted")
    x = b.input("x", dtype, (1, 3, 4, 4))
    w = np.random.default_rng(0).normal(0, 1, (4, 3, 1, 1)).astype(dtype)
    bias = (shift + np.linspace(-3, 3, 4)).astype(dtype)
    y = b.node("Conv", x, b.constant("w", w), b.constant("b", bias), name="conv")
    b.output(b.node("Sub", y, b.constant("shift", np.array(shift, dtype)), name="back", output="y"))
    return onnx.infer(b.model())


@pytest.mark.parametrize(("shift", "dtype"), [(1e6, np.float32), (600, np.float16)])
def test_what_the_floats_of_the_model_round_away_is_no_mistake(shift: float, dtype: Any) -> None:
    model = shifted(shift, dtype)
    meaning = Meaning.of(model, None)
    folded = quantize(model).twin
    assert meaning.difference(folded) is not None  # as they stand, the digits differ
    wrong = replace(folded, graph=replace(folded.graph, initializers={
        name: -array if array.ndim == 4 else array for name, array in folded.graph.initializers.items()
    }))  # fmt: skip
    trail = Trail(model, (("fold-affine", folded), ("broken", wrong)))
    with pytest.raises(MeaningChanged, match=r"the pass 'broken' .* tensor 'y'"):
        meaning.require(trail)


def test_what_overflows_in_the_model_alone_is_no_mistake() -> None:
    b = Builder("overflow")
    x = b.input("x", np.float32, (1, 3, 4, 4))
    w = np.random.default_rng(0).normal(0, 3e38, (4, 3, 1, 1)).clip(-3e38, 3e38).astype(np.float32)
    large = b.node("Conv", x, b.constant("w", w), name="conv")
    b.output(b.node("Mul", large, b.constant("k", np.array(1e-38, np.float32)), name="small"))
    quantize(onnx.infer(b.model()))


def test_a_model_that_needs_float64_is_refused() -> None:
    with pytest.raises(HwflowError, match=r"digits in float32, .*: tensor 'y' .* shift or scale") as raised:
        quantize(shifted(1e9, np.float64))
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(("value", "scale", "out"), [(0.1, 0.1, 0.2), (0.3, 0.3, 0.2), (1e30, 0.05, 0.3)])
def test_rows_that_are_nothing_but_ties_are_no_mistake(value: float, scale: float, out: float) -> None:
    """Means in the middle between two integers, which float32 rounds to one side or the other."""
    m = Qdq((1, 4, 8, 8)).qdq(scale, 0, np.uint8).node("GlobalAveragePool").qdq(out, 3, np.uint8)
    quantize(m.model(), {"input": np.full((1, 1, 4, 8, 8), value, np.float32)})


@pytest.mark.parametrize("is_output", [False, True])
def test_a_tensor_without_elements_is_left_out_or_refused(is_output: bool) -> None:
    net = Net((1, 3, 8, 8)).conv(4)
    ends = [net.b.constant(name, np.array([k])) for name, k in (("starts", 0), ("ends", 0), ("axes", 1))]
    empty = net.b.node("Slice", net.x, *ends, name="cut", output="empty")
    if not is_output:
        net.x = net.b.node("Concat", net.x, empty, axis=1)
        assert [layer.kind for layer in quantize(net.node("Relu").model()).graph.layers] == ["conv"]
        return
    net.b.output(empty)
    with pytest.raises(HwflowError, match=r"tensor 'empty' of 'cut' \(Slice\) must have elements, not the shape \[1"):
        quantize(net.node("Relu").model())
