"""Small random networks with every form of the operators that move, pad, join, average and spread elements.

Compared with onnxruntime layer by layer and as a whole, on the model as it is exported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.onnx.model import Array, Model, Node, Value
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.settings import QuantizationSettings
from tests.quantize.models import Qdq, assert_agrees, kinds, rows, runtime
from tests.quantize.random_checks import (
    Agreement,
    check_all,
    check_export,
    check_layers,
    check_reals,
    close,
    onnxruntime,
)
from tests.quantize.random_models import QdqStyle, QonnxStyle, feeds
from tests.quantize.random_nets import Style
from tests.quantize.random_small import KINDS, Small, small_network
from tests.random_cases import seeds

STYLES: Mapping[str, tuple[type[Style], bool]] = {
    "float": (Style, False), "qdq": (QdqStyle, False), "exact": (QdqStyle, True), "qonnx": (QonnxStyle, False),
}  # fmt: skip

ROWS = 8

#: What a quantized model must not do between its layers, refused by name: functions and pads of what is not quantized.
REFUSED = ("which no QuantizeLinear made integer", "must have one value, or one per channel")


def drawn(kind: str, style: str, seed: int, ranked: bool = False) -> Small:
    made, exact = STYLES[style]
    rng = np.random.default_rng([50, seed, list(KINDS).index(kind), list(STYLES).index(style)])
    return small_network(kind, rng, made(), exact, ranked)


def small(kind: str, style: str, seed: int, total: Agreement) -> int:
    """How often a form of the network was drawn again."""
    network, exact = drawn(kind, style, seed), STYLES[style][1]
    model, given = network.model, feeds(network.model, ROWS, seed)
    quantized = quantize(model, given if style == "float" else None)
    check_all(model, quantized, given, total, exact=exact)
    check_export(quantized)
    if exact:
        outputs = golden.predict(quantized, given)
        for name, values in onnxruntime(model, given, list(outputs)).items():
            np.testing.assert_array_equal(outputs[name], values)
    elif style == "float":
        check_reals(model, quantized, given)
    return network.ties


def ranked(kind: str, style: str, seed: int, total: Agreement) -> bool:
    """The final ArgMax, ArgMin or TopK in hardware finds what onnxruntime finds.

    Where float32 rounds, among the integers that the hardware ranks; these are onnxruntime's, or a step from them where
    it is proven that they are ties.  False where the scores cannot become integers.
    """
    network, exact = drawn(kind, style, seed, ranked=True), STYLES[style][1]
    model, given = network.model, feeds(network.model, ROWS, seed)
    settings = QuantizationSettings(hardware_argmax=True)
    try:
        quantized = quantize(model, given if style == "float" else None, settings=settings)
    except HwflowError as error:
        if "which no QuantizeLinear made integer" not in str(error):
            raise
        return False
    check_layers(quantized, given, total, exact)
    found = golden.predict(quantized, given)
    if not exact:
        twin = quantized.twin  # which has the tensor that is ranked; it computes what the model does
        close(onnxruntime(twin, given, list(found)), onnxruntime(model, given, list(found)))
        model, given = twin, ranked_scores(quantized, given)
    for name, values in onnxruntime(ranking(model, list(given)), given, list(found)).items():
        np.testing.assert_array_equal(found[name], values)
    return True


def ranked_scores(quantized: Quantized, given: Mapping[str, Array]) -> dict[str, Array]:
    """What the hardware ranks, by its name in the twin; its elements may be moved before they are ranked there."""
    (best,) = (layer for layer in quantized.graph.layers if layer.kind == "top_k")
    integers = golden.run(quantized, golden.run_prologue(quantized, given))[best.inputs[0]]
    view = quantized.views[best.inputs[0]]
    scores = integers.reshape(ROWS, -1)[:, view.index.ravel()].reshape(ROWS, *view.index.shape)
    return {view.source: scores.astype(np.float32)}


def ranking(model: Model, entries: list[str]) -> Model:
    """The end of `model` from the tensors `entries` on; without a Softmax, which keeps the order."""
    graph, same, reached, nodes = model.graph, dict[str, str](), set(entries), list[Node]()
    for node in graph.nodes:
        if node.op_type == "Softmax":
            same[node.outputs[0]] = node.inputs[0]
            continue
        inputs = tuple(same.get(name, name) for name in node.inputs)
        if reached.intersection(inputs) or all(name in graph.initializers for name in inputs):
            nodes.append(replace(node, inputs=inputs))
            reached.update(node.outputs)
    return replace(model, graph=replace(
        graph, nodes=tuple(nodes), inputs=tuple(Value(name, graph.tensor_type(name)) for name in entries)))  # fmt: skip


def over(kind: str, style: str, seeds: range) -> None:
    total, refused, ties = Agreement(), 0, 0
    for seed in seeds:
        try:
            ties += small(kind, style, seed, total)
        except Exception as error:
            if isinstance(error, HwflowError) and any(reason in str(error) for reason in REFUSED):
                refused += 1
                continue
            raise AssertionError(f"{kind}, {style}, seed {seed}: {type(error).__name__}: {error}") from error
    print(f"{kind}, {style}: {refused} refused, {ties} forms drawn again; {total}")
    assert refused <= len(seeds) // 10
    assert ties <= (len(seeds) if kind == "resize" else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_small_networks(kind: str) -> None:
    over(kind, "exact", range(2))


@seeds(slow=[2], name="block")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_many_small_networks(kind: str, style: str, block: int) -> None:
    over(kind, style, range(50 * block, 50 * block + 50))


def test_phases_without_taps_have_the_scale_of_their_channel() -> None:
    """A kernel of one tap and stride 2: every other pixel is a bias alone, in steps as fine as its channel's."""
    m = Qdq((1, 3, 4)).qdq(0.0625, 0)
    weights = m.constant("w", m.rng.integers(-127, 128, (3, 2, 1), dtype=np.int8))
    w = m.b.node("DequantizeLinear", weights, m.constant("s", np.float32([0.5, 0.25])),
                 m.constant("z", np.zeros(2, np.int8)), axis=1)  # fmt: skip
    bias = m.constant("b", np.array([3, 41], np.int32))
    b = m.b.node("DequantizeLinear", bias, m.constant("s", np.float32([0.5, 0.25]) * np.float32(0.0625)), axis=0)
    model = m.node("ConvTranspose", w, b, strides=(2,), output_padding=(1,)).model()
    feeds = rows(model)
    np.testing.assert_array_equal(golden.predict(quantize(model), feeds)[m.x], runtime(model, feeds))


@pytest.mark.parametrize("op", [None, "Relu", "LeakyRelu", "HardSigmoid"])
def test_a_pad_between_a_layer_and_its_quantizer(op: str | None) -> None:
    """What is quantized is then padded with what the function and the quantizer make of the padding."""
    m = Qdq((1, 3, 5, 5)).qdq(0.1, 0).conv((4, 3, 3, 3))
    m.node("Pad", m.constant("pads", np.array([0, 0, 1, 0, 0, 0, 2, 1])), m.constant("fill", np.float32(-0.37)))
    if op is not None:
        m.node(op)
    model = m.qdq(0.0271, 5).conv((2, 4, 2, 2)).qdq(0.1, 0).model()
    found = kinds(assert_agrees(model, 0.1, share=0.99))
    assert ("rearrange" in found) == (op not in ("Relu", "LeakyRelu"))  # which make 0 of it: a window's own padding


def test_weights_that_stayed_floats_beside_integers() -> None:
    """onnxruntime's quantizer leaves ConvTranspose as it is where it writes QOperator nodes."""
    m = Qdq((1, 3, 4)).qdq(0.1, 0)
    m.node("ConvTranspose", m.constant("w", np.ones((3, 2, 1), np.float32)))
    model = m.qdq(0.1, 0).model()
    layer = next(node.name for node in model.graph.nodes if node.op_type == "ConvTranspose")
    told = quantize(model).notes[0]
    assert told == f"the file is quantized in part: constants of reals got 8 bits: {layer}.weight"
    assert_agrees(model, 0.1, share=0.99)


def test_parts_of_a_concat_that_were_put_in_rows() -> None:
    """Parts of different heights meet as rows, which are no tensors of the model, and are quantized anew."""
    m = Qdq((1, 2, 5, 4)).qdq(0.1, 0).conv((3, 2, 2, 2)).qdq(0.05, 0)
    m.b.nodes("Split", m.x, m.constant("sizes", np.array([1, 3])), outputs=("top", "bottom"), name="split", axis=2)
    m.x = m.b.node("Concat", "bottom", "top", name="join", axis=2)
    model = m.qdq(0.0713, 3).conv((2, 3, 2, 2)).qdq(0.1, 0).model()
    assert "concat" in kinds(assert_agrees(model, 0.1, share=0.99))


def best_of(kind: str, style: str, seeds: range) -> None:
    total = Agreement()
    made = sum(ranked(kind, style, seed, total) for seed in seeds)
    print(f"{kind}, {style}: {made} of {len(seeds)} became hardware; {total}")
    assert 2 * made >= len(seeds)


@pytest.mark.parametrize("style", ["float", "exact"])
def test_the_best_of_what_was_moved(style: str) -> None:
    best_of("blocks", style, range(4))


@seeds(slow=[0], name="block")
@pytest.mark.parametrize("style", ["float", "exact"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_of_many(kind: str, style: str, block: int) -> None:
    best_of(kind, style, range(10 + 30 * block, 40 + 30 * block))
