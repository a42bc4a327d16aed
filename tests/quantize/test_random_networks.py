"""Random networks of all kinds: what must hold for every one of them, and what was once wrong for some."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.layers import Conv, Requantize
from hwflow.layers.add import Add
from hwflow.onnx.model import Model
from hwflow.quantize import QDQ_PASSES, quantize
from hwflow.quantize.settings_file import settings_from_yaml
from tests.quantize.dialects.cases import QONNX, Maker
from tests.quantize.dialects.test_dialects_golden import agree, network
from tests.quantize.models import Qdq, assert_agrees, kinds
from tests.quantize.random_checks import Agreement, check_all, check_export, check_reals, difference, onnxruntime
from tests.quantize.random_models import feeds, float_model, qdq_model, qonnx_model, random_settings
from tests.quantize.standard_quantizers import with_standard_quantizers
from tests.random_cases import seeds

#: Settings that cannot be, and are refused by name: all that may be refused of the random ones.
REFUSED = ("must have more than one symmetric bit",)

#: Rows that each network computes, the rows that calibrate it among them.
ROWS = 12

#: The first seed of the slow tests.
SLOW = 10_000


def quantized_network(kind: str, seed: int, exact: bool, total: Agreement) -> None:
    """A model that came quantized; `exact`: it gives the very outputs of its golden model."""
    model = (qdq_model if kind == "qdq" else qonnx_model)(seed, exact)
    rows, quantized = feeds(model, ROWS, seed), quantize(model)
    check_all(model, quantized, rows, total, exact=exact)
    check_export(quantized)
    if exact:
        made = golden.predict(quantized, rows)
        for name, expected in onnxruntime(with_standard_quantizers(model), rows, list(made)).items():
            np.testing.assert_array_equal(made[name], expected)


def float_network(seed: int, total: Agreement) -> None:
    """A float model with 8 bits, and with settings that are random for all of it and for single layers."""
    model = float_model(seed)
    rows = feeds(model, ROWS, seed)
    plain = quantize(model, rows)
    check_all(model, plain, rows, total)
    check_reals(model, plain, rows)
    there = yaml.safe_load(plain.settings)
    names = (tuple(there.get(section, {})) for section in ("layers", "inputs"))
    data = rows if seed % 6 else None
    try:
        quantized = quantize(model, data, settings=random_settings(seed, *names, data=data is not None))
    except HwflowError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        return
    check_all(model, quantized, rows, total)
    settings = settings_from_yaml(quantized.settings, "settings", model)
    again = quantize(model, data, settings=settings)
    assert again.graph == quantized.graph, difference(again.graph, quantized.graph)
    if all(layer.output_stage == "auto" for layer in (settings.default, *settings.layers.values())):
        check_export(quantized)  # a QDQ model does not say which output stage was asked for


def cases(count: int, kind: str, exact: bool, start: int = 0) -> None:
    """`count` networks of one kind; says which one failed."""
    total = Agreement()
    for seed in range(start, start + count):
        try:
            if kind == "float":
                float_network(seed, total)
            else:
                quantized_network(kind, seed, exact, total)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    print(f"{kind}{', exact' if exact else ''}: {total}")


KINDS = [("float", False), ("qdq", False), ("qdq", True), ("qonnx", False), ("qonnx", True)]


@pytest.mark.parametrize(("kind", "exact"), KINDS)
def test_random_networks(kind: str, exact: bool) -> None:
    cases(2 if kind == "float" else 4, kind, exact)


@seeds(slow=[0], name="part")
@pytest.mark.parametrize(("kind", "exact"), KINDS)
def test_many_random_networks(kind: str, exact: bool, part: int) -> None:
    count = 40 if kind == "float" else 100
    cases(count, kind, exact, SLOW + part * count)


#: The fixture of small weights.
RNG = np.random.default_rng(5)


def joined_branches(quantizer: str) -> Model:
    """Two convolutions, a Concat, and behind it a quantizer that is one of a QuantizeLinear of scale 1."""
    m = Maker((1, 3, 4, 4))
    x = m.quant(m.x, 0.25, 0, 8)
    a, b = (m.node("Conv", x, m.quant(RNG.normal(0, 1, (2, 3, 1, 1)), 0.25)) for _ in range(2))
    y = m.node("Concat", a, b, axis=1)
    if quantizer == "BipolarQuant":
        y = m.node(quantizer, y, 0.5, domain=QONNX)
    else:
        y = m.quant(y, 0.5, 0, 4, rounding_mode=quantizer)
    return m.model(m.quant(m.node("Conv", y, m.quant(RNG.normal(0, 1, (2, 4, 1, 1)), 0.25)), 0.25, 0, 8))


@pytest.mark.parametrize("quantizer", ["FLOOR", "BipolarQuant"])
def test_the_parts_of_a_concat_mean_what_the_whole_means(quantizer: str) -> None:
    quantized = quantize(joined_branches(quantizer))
    joined = next(layer for layer in quantized.graph.layers if layer.kind == "concat")
    assert {quantized.graph.tensors[name].scale for name in (*joined.inputs, joined.output)} == {0.5}
    check_export(quantized)


@pytest.mark.parametrize("mode", ["ROUND", "FLOOR", "CEIL"])
@pytest.mark.parametrize(("bits", "zero"), [(8, -3), (8, 2), (5, 1)])
def test_a_zero_point_inside_the_rounding_takes_no_thresholds(mode: str, bits: int, zero: int) -> None:
    quantized = agree(network(lambda m, y: m.quant(y, 0.0625, zero, bits, rounding_mode=mode)))
    first = next(layer for layer in quantized.graph.layers if isinstance(layer, Conv))
    assert isinstance(first.requantize, Requantize)


def test_the_parts_of_a_concat_are_limited_as_the_whole_is() -> None:
    """From -4 on, which is one below the whole's."""
    m = Maker((1, 3, 4, 4))
    x = [m.quant(m.node(op, m.x), 1, 0, 3) for op in ("Identity", "Neg")]
    y = m.quant(m.node("Concat", *x, axis=1), 1, 0, 3, narrow=1)
    agree(m.model(m.node("Conv", y, m.quant(RNG.normal(0, 1, (2, 6, 1, 1)), 0.25))))


def test_two_failing_readers_of_a_concat_are_reported() -> None:
    """Each of them asked for the same parts again."""
    m = Qdq((1, 2, 4, 4)).qdq(0.05, 0)
    source = m.x
    branches = [m.node("Abs").node("Mul", m.constant("c", np.float32([[[1]], [[2]]]))).x]
    m.x = source
    branches.append(m.node("Relu").x)
    m.x = m.b.node("Concat", *reversed(branches), name="join", axis=1)
    m.node("Tanh").quantize(0.05, 0)
    whole = m.x
    for op in ("Relu", "Sigmoid"):
        m.x = whole
        m.b.output(m.dequantize(0.05, 0).node(op).x)
    with pytest.raises(HwflowError, match="must only rise or only fall"):
        quantize(m.model())


@pytest.mark.parametrize("op", ["PRelu", "BatchNormalization", "Mul"])
def test_a_table_for_all_channels_may_have_equal_constants_for_each(op: str) -> None:
    m = Qdq((1, 3, 4, 4)).qdq(0.0517, 4)
    if op == "BatchNormalization":
        m.node(op, *(m.constant("c", np.full(3, value, np.float32)) for value in (0.7, 0.1, -0.2, 1.5)))
    else:
        m.node(op, m.constant("c", np.full((3, 1, 1), 0.25, np.float32)))
    assert kinds(assert_agrees(m.node("Abs").qdq(0.0313, 0).model(), 0.0313)) == ["lookup"]


@pytest.mark.parametrize("op", ["Abs", "Tanh"])
def test_a_function_of_bipolar_integers_is_a_table(op: str) -> None:
    """It has two entries; that of Abs goes neither up nor down between them."""
    m = Maker((1, 3, 4, 4))
    y = m.node("BipolarQuant", m.node("Conv", m.quant(m.x, 0.25, 0, 8), m.quant(RNG.normal(0, 1, (4, 3, 1, 1)), 0.25)),
               0.5, domain=QONNX)  # fmt: skip
    join = m.node("Concat", m.quant(m.node(op, y), 0.125, 0, 8), m.quant(m.x, 0.125, 0, 8), axis=1)
    assert "lookup" in kinds(agree(m.model(m.node("Conv", join, m.quant(RNG.normal(0, 1, (2, 7, 1, 1)), 0.25)))))


def test_a_sum_is_not_compared_with_thresholds() -> None:
    m = Maker((1, 3))
    y = m.node("Add", m.quant(m.x, 0.25), m.quant(m.node("Neg", m.x), 0.5), name="join")
    with pytest.raises(HwflowError) as raised:
        quantize(m.model(m.node("BipolarQuant", y, 0.5, domain=QONNX)))
    assert str(raised.value).splitlines()[1:] == [
        "  'bipolarquant12.integers' (Where): the result of 'join' (Add) must have more than one symmetric bit, "
        "because only products are compared with thresholds",
        "    take 2 bits, or an unsigned one",
    ]


def test_a_sum_of_scales_far_apart_is_as_exact_as_any() -> None:
    """One bit whose step is 200 steps of the result, and 8 bits whose step is about one."""
    m = Qdq((1, 3, 8, 8)).qdq(0.0317, 0)
    source = m.x
    m.quantize(5.503800392150879, 0, np.uint8).node("Clip", *(m.constant("end", np.uint8(k)) for k in (0, 1)))
    coarse = m.dequantize(5.503800392150879, 0, np.uint8).x
    m.x = source
    quantized = assert_agrees(m.node("Sub", coarse).qdq(0.02487947605550289, 3).model(), 0.02487947605550289)
    (joined,) = (layer for layer in quantized.graph.layers if isinstance(layer, Add))
    for multiplier, scale in zip(joined.multipliers, (0.0317, -5.503800392150879), strict=True):
        assert abs(multiplier / 2**joined.shift / (scale / 0.02487947605550289) - 1) < 2.0**-17


def test_nodes_that_a_pass_copies_have_names_of_their_own() -> None:
    m = Qdq((1, 3, 4, 4)).qdq(0.05, 0)
    source = m.x
    for shape in ([1, -1], [1, 3, 16]):
        m.x = source
        m.b.output(m.node("Reshape", m.constant("shape", np.array(shape))).x)
    model = m.b.model()
    for step in QDQ_PASSES:
        model = step.run(model)
    names = [node.name for node in model.graph.nodes]
    assert len(set(names)) == len(names)
