"""Random models of all kinds: what must hold for every one of them.

Float, QDQ and QONNX networks, small networks with every form of the operators that move, pad, join, average and spread
elements, attention, indexing, and files that are quantized in part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import yaml
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.onnx.model import Array, Model, Node, Value
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.settings import QuantizationSettings, settings_of_bits
from hwflow.quantize.settings_file import settings_from_yaml
from tests.quantize.invariants import (
    Agreement,
    check_all,
    check_export,
    check_layers,
    check_reals,
    close,
    difference,
    onnxruntime,
)
from tests.quantize.noise import FACTOR, Tally, distance, excess
from tests.quantize.standard_quantizers import with_standard_quantizers
from tests.random_cases import seeds
from tests.strategies.attention import attention_model
from tests.strategies.drawing import Drawing, of_seed, search
from tests.strategies.indexing import indexing_model
from tests.strategies.networks import Style
from tests.strategies.operators import KINDS, Small, small_network
from tests.strategies.partly_quantized import quantized_model
from tests.strategies.styles import (
    QdqStyle,
    QonnxStyle,
    feeds,
    float_model,
    qdq_model,
    qonnx_model,
    random_settings,
)

#: Rows that each network computes, the rows that calibrate it among them; those of a small one.
ROWS, FEW = 12, 8


# Networks.

#: Settings that cannot be, and are refused by name: all that may be refused of the random ones.
BAD_SETTINGS = "must have more than one symmetric bit"


def quantized_network(model: Model, exact: bool, seed: int) -> None:
    """A model that came quantized; `exact`: it gives the very outputs of its golden model."""
    rows, quantized = feeds(model, ROWS, seed), quantize(model)
    check_all(model, quantized, rows, Agreement(), exact=exact)
    check_export(quantized)
    if exact:
        made = golden.predict(quantized, rows)
        expected = onnxruntime(with_standard_quantizers(model), rows, list(made))
        for name, values in expected.items():
            np.testing.assert_array_equal(made[name], values)


def float_network(model: Model, seed: int) -> None:
    """A float model with 8 bits, and with settings that are random for all of it and for single layers."""
    rows, total = feeds(model, ROWS, seed), Agreement()
    plain = quantize(model, rows)
    check_all(model, plain, rows, total)
    check_reals(model, plain, rows)
    there = yaml.safe_load(plain.settings)
    names = (tuple(there.get(section, {})) for section in ("layers", "inputs"))
    data = rows if seed % 6 else None
    try:
        quantized = quantize(model, data, settings=random_settings(seed, *names, data=data is not None))
    except HwflowError as error:
        if BAD_SETTINGS not in str(error):
            raise
        return
    check_all(model, quantized, rows, total)
    settings = settings_from_yaml(quantized.settings, "settings", model)
    again = quantize(model, data, settings=settings)
    assert again.graph == quantized.graph, difference(again.graph, quantized.graph)
    if all(layer.output_stage == "auto" for layer in (settings.default, *settings.layers.values())):
        check_export(quantized)  # a QDQ model does not say which output stage was asked for


@seeds(quick=[0], slow=range(2500, 2510), name="block")
def test_float_networks(block: int) -> None:
    for seed in range(4 * block, 4 * block + (4 if block else 2)):
        search(float_model, partial(float_network, seed=seed), [[1, seed]])


@seeds(quick=[0], slow=range(2500, 2525), name="block")
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("make", [qdq_model, qonnx_model])
def test_networks_that_came_quantized(make: Callable[..., Model], exact: bool, block: int) -> None:
    kind = (2 if make is qdq_model else 4) + exact
    for seed in range(4 * block, 4 * block + (4 if block else 2)):
        search(lambda rng: make(rng, exact), partial(quantized_network, exact=exact, seed=seed), [[kind, seed]])


# Small networks.

STYLES: Mapping[str, tuple[type[Style], bool]] = {
    "float": (Style, False), "qdq": (QdqStyle, False), "exact": (QdqStyle, True), "qonnx": (QonnxStyle, False),
}  # fmt: skip

#: What a quantized model must not do between its layers, refused by name: functions and pads of what is not quantized.
UNQUANTIZED = ("which no QuantizeLinear made integer", "must have one value, or one per channel")


def drawn_small(kind: str, style: str, seed: int, check: Callable[[Small], object], ranked: bool = False) -> None:
    made, exact = STYLES[style]
    places = (list(KINDS).index(kind), list(STYLES).index(style))
    search(lambda rng: small_network(kind, rng, made(), exact, ranked), check, [[50, seed, *places]])


def small(network: Small, style: str, seed: int) -> None:
    model, exact = network.model, STYLES[style][1]
    rows = feeds(model, FEW, seed)
    quantized = quantize(model, rows if style == "float" else None)
    check_all(model, quantized, rows, Agreement(), exact=exact)
    check_export(quantized)
    if exact:
        outputs = golden.predict(quantized, rows)
        for name, values in onnxruntime(model, rows, list(outputs)).items():
            np.testing.assert_array_equal(outputs[name], values)
    elif style == "float":
        check_reals(model, quantized, rows)


def small_networks(kind: str, style: str, block: range) -> None:
    """Few may be refused, and of a Resize some forms are drawn again."""
    told = {"refused": 0, "ties": 0}

    def check(network: Small, seed: int) -> None:
        told["ties"] += network.ties
        try:
            small(network, style, seed)
        except HwflowError as error:
            if not any(reason in str(error) for reason in UNQUANTIZED):
                raise
            told["refused"] += 1

    for seed in block:
        drawn_small(kind, style, seed, partial(check, seed=seed))
    assert told["refused"] <= len(block) // 10
    assert told["ties"] <= (len(block) if kind == "resize" else 0)


@pytest.mark.quick(3)
@pytest.mark.parametrize("kind", KINDS)
def test_small_networks(kind: str) -> None:
    small_networks(kind, "exact", range(2))


@seeds(slow=[2], name="block")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_many_small_networks(kind: str, style: str, block: int) -> None:
    small_networks(kind, style, range(50 * block, 50 * block + 50))


def ranked(network: Small, style: str, seed: int) -> bool:
    """The final ArgMax, ArgMin or TopK in hardware finds what onnxruntime finds.

    Where float32 rounds, among the integers that the hardware ranks; these are onnxruntime's, or a step from them where
    it is proven that they are ties.  False where the scores cannot become integers.
    """
    exact, model = STYLES[style][1], network.model
    rows, settings = feeds(model, FEW, seed), QuantizationSettings(hardware_argmax=True)
    try:
        quantized = quantize(model, rows if style == "float" else None, settings=settings)
    except HwflowError as error:
        if UNQUANTIZED[0] not in str(error):
            raise
        return False
    check_layers(quantized, rows, Agreement(), exact)
    found = golden.predict(quantized, rows)
    if not exact:
        twin = quantized.twin  # which has the tensor that is ranked; it computes what the model does
        close(*(onnxruntime(each, rows, list(found)) for each in (twin, model)))
        model, rows = twin, ranked_scores(quantized, rows)
    for name, values in onnxruntime(ranking(model, list(rows)), rows, list(found)).items():
        np.testing.assert_array_equal(found[name], values)
    return True


def ranked_scores(quantized: Quantized, rows: Mapping[str, Array]) -> dict[str, Array]:
    """What the hardware ranks, by its name in the twin; its elements may be moved before they are ranked there."""
    (best,) = (layer for layer in quantized.graph.layers if layer.kind == "top_k")
    integers = golden.run(quantized, golden.run_prologue(quantized, rows))[best.inputs[0]]
    view = quantized.views[best.inputs[0]]
    scores = integers.reshape(FEW, -1)[:, view.index.ravel()].reshape(FEW, *view.index.shape)
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


def best_of(kind: str, style: str, block: range) -> None:
    """Most of them become hardware."""
    told: list[bool] = []
    for seed in block:
        drawn_small(kind, style, seed, lambda network, seed=seed: told.append(ranked(network, style, seed)), True)
    assert 2 * sum(told) >= len(block)


@pytest.mark.parametrize("style", ["float", "exact"])
def test_the_best_of_what_was_moved(style: str) -> None:
    best_of("blocks", style, range(4))


@seeds(slow=[0], name="block")
@pytest.mark.parametrize("style", ["float", "exact"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_of_many(kind: str, style: str, block: int) -> None:
    best_of(kind, style, range(10 + 30 * block, 40 + 30 * block))


# Right, or refused by name.

ORACLES: dict[str, tuple[Callable[[Any], Model], tuple[str, ...]]] = {
    "attention": (attention_model, ()),
    "indexing": (indexing_model, (
        "operator ScatterND has no hardware", "operator ScatterElements has no hardware",
        "operator Trilu has no hardware", "joins constants with computed tensors",
        "must have one value, or one per channel of", "must only rise or only fall over its sums",
        "joins two computed tensors")),
    "quantized": (quantized_model, ()),
}  # fmt: skip


@seeds(quick=(0,), slow=range(1, 12), name="block")
@pytest.mark.parametrize("kind", ORACLES)
def test_right_or_refused_by_name(kind: str, block: int) -> None:
    tally, (make, refusals) = Tally(), ORACLES[kind]
    seeds = (of_seed(kind, seed) for seed in range(8 * block, 8 * block + (8 if block else 4)))
    search(make, partial(tally.judge, refusals=refusals), seeds)
    assert tally.right


@pytest.mark.parametrize(("kind", "seed"), [("attention", 1291), ("quantized", 3039)])
def test_much_noise_is_right_where_8_bits_explain_it(kind: str, seed: int) -> None:
    """A LayerNormalization of two elements is a sign; coarse quantizers that a file states turn by a whole step."""
    assert excess(ORACLES[kind][0](Drawing(of_seed(kind, seed)))) <= FACTOR


@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", range(4))
def test_little_noise_is_wrong_where_8_bits_do_not_explain_it(seed: int) -> None:
    """Of a model that is right with 8 bits, what 5 bits of activations give, or 3 of weights."""
    model = attention_model(Drawing(of_seed("attention", seed)))
    assert excess(model) <= FACTOR
    for weights, activations in ((8, 5), (3, 8)):
        assert excess(model, settings_of_bits(weights, activations)) > FACTOR


def test_how_far_apart_results_are() -> None:
    values = np.random.default_rng(0).normal(0, 1, (10, 20))
    assert distance(values, values) == 0
    assert distance(values, np.zeros_like(values)) == 1
    assert distance(values, values * np.nan) == distance(values, values[:, :1]) == np.inf
    assert 0.003 < distance(values, np.rint(values * 64) / 64) < 0.006
