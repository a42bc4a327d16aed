"""Multipliers of chosen width: as many bits as asked for, or as few as make every element that the reals make."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow
from hwflow.layers import Conv, IntFormat, Requantize, Tensor
from hwflow.layers.formats import Frame
from hwflow.layers.rescale import Rounding
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from hwflow.quantize.importer.choose_rescale import Accumulator, Affine, common_ratio, multiplication
from hwflow.quantize.scale import fixed_point, widest_multiplier
from hwflow.quantize.settings import LayerSettings, QuantizationSettings, with_rescale_bits
from tests.quantize.models import Qdq, rows, runtime

HALF = Fraction(1, 2)
ROUNDED = {
    Rounding.HALF_EVEN: round,
    Rounding.HALF_UP: lambda x: math.floor(x + HALF),
    Rounding.HALF_DOWN: lambda x: math.ceil(x - HALF),
    Rounding.FLOOR: math.floor,
    Rounding.CEIL: math.ceil,
}
AUTO = QuantizationSettings(LayerSettings(rescale_bits=None))


def ratio_of_scales(rng: np.random.Generator, about: float) -> Fraction:
    """Two float32 multiplied and divided by a third, exactly."""
    a, b, c = (Fraction(float(np.float32(x))) for x in rng.uniform(0.5, 2, 3))
    return a * b / c * Fraction(about)


def in_reals(a: Affine, channel: int, total: int) -> int:
    exact = ROUNDED[a.rounding](a.ratio[channel] * (total + a.bias[channel])) + a.zero_point
    return min(max(exact, a.low[channel]), a.high[channel])


@pytest.mark.parametrize("rounding", [
    Rounding.HALF_EVEN, Rounding.CEIL,
    *(pytest.param(each, marks=pytest.mark.slow) for each in (Rounding.HALF_UP, Rounding.HALF_DOWN, Rounding.FLOOR))])
def test_every_sum_is_as_in_reals_with_the_fewest_bits(rounding: Rounding) -> None:
    rng, channels, reach = np.random.default_rng(7), 4, 12000
    ratios = [ratio_of_scales(rng, 128 / reach) for _ in range(channels - 2)] + [Fraction(3, 256), Fraction(1, 64)]
    biases = [Fraction(int(b)) for b in rng.integers(-500, 500, channels)]
    a = Affine(tuple(ratios), tuple(biases), (-128,) * channels, (127,) * channels, -3, rounding, None)
    ends = np.full(channels, reach)
    made = multiplication(a, Accumulator(np.zeros(channels, np.int64), -ends, ends))
    sums = np.arange(-reach, reach + 1)
    wanted = np.array([[in_reals(a, channel, int(total)) for channel in range(channels)] for total in sums])
    np.testing.assert_array_equal(made.apply(np.tile(sums[:, None], channels)), wanted)
    widths = [int(m).bit_length() for m in made.multiplier]
    assert max(widths) > 18
    assert widths[-2:] == [2, 1]
    for channel, (ratio, width) in enumerate(zip(ratios, widths, strict=True)):
        multiplier, shift = fixed_point(ratio, width - 1)
        coarse = Requantize(made.bias[[channel]], np.array([multiplier]), np.array([shift]), -3, -128, 127,
                            rounding=rounding)
        assert width <= 18 or (coarse.apply(sums[:, None])[:, 0] != wanted[:, channel]).any()


def test_a_bias_between_two_sums_takes_no_bits_for_nothing() -> None:
    """No multiplier makes up for a bias that is rounded: the fewest bits with the fewest wrong levels."""
    a = Affine((Fraction(1, 3),), (Fraction(1, 1 << 13),), (0,), (85,), 0, Rounding.HALF_EVEN, None)
    sums = Accumulator(*(np.array([n]) for n in (0, 0, 255)))
    made = multiplication(a, sums)
    wrong = [(np.array([in_reals(a, 0, total) for total in range(256)])
              != multiplication(Affine(a.ratio, a.bias, a.low, a.high, 0, a.rounding, bits), sums).apply(
                  np.arange(256)[:, None])[:, 0]).sum() for bits in range(18, 33)]
    assert made == multiplication(
        Affine(a.ratio, a.bias, a.low, a.high, 0, a.rounding, 18 + int(np.argmin(wrong))), sums)


@pytest.mark.parametrize("bits", [18, 21, 26, 32])
def test_a_ratio_is_the_nearest_of_so_many_bits(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for about in (1e-9, 3e-5, 0.01, 0.7, 3.0, 70000.0):
        ratio = ratio_of_scales(rng, about)
        multiplier, shift = fixed_point(ratio, bits)
        assert 0 < multiplier < 1 << bits
        assert 0 <= shift <= 62
        assert abs(Fraction(multiplier, 1 << shift) / ratio - 1) <= Fraction(1, 1 << bits)
    multiplier, shift = fixed_point(Fraction(5, 3) / (1 << 40), bits)  # no shift beyond 62
    assert multiplier.bit_length() <= 23
    assert shift <= 62


def test_products_stay_inside_int64() -> None:
    assert [widest_multiplier((1 << bits) - 1) for bits in (20, 30, 31, 40, 44, 60)] == [32, 32, 31, 22, 18, 18]
    m = Qdq((1, 8)).qdq(2.0**-30, 3).matmul(8, 4).qdq(1e-9, 0)  # a bias of 40 bits
    for bits in ("auto", 32):
        quantize(m.model(), settings=with_rescale_bits(QuantizationSettings(), bits))


@pytest.mark.parametrize("about", [(0.4, 0.9), (1.0, 1.0), (0.02, 1.7), (3e-3, 0.3)])
def test_every_pair_of_a_sum_is_as_in_reals(about: tuple[float, float]) -> None:
    rng = np.random.default_rng(int(1000 * about[0]))
    ratios = [ratio_of_scales(rng, each) for each in about]
    xs = [Tensor(name, Frame(1, 1, 1), IntFormat(8, True), 1.0, zero) for name, zero in (("a", -128), ("b", 5))]
    (m0, m1), shift = common_ratio(ratios, xs, (-100, 120), None)
    for a in range(0, 256, 5):
        for b in range(-133, 123):
            exact = min(max(round(ratios[0] * a + ratios[1] * b), -100), 120)
            assert min(max(round(Fraction(m0 * a + m1 * b, 1 << shift)), -100), 120) == exact


def branches() -> Model:
    """A convolution, and a sum and a product of its result with its input."""
    m = Qdq((1, 24, 6, 6)).qdq(0.0313, 3)
    source = m.x
    m.conv((24, 24, 3, 3), pads=(1, 1, 1, 1)).qdq(0.2723, -5).node("Add", source).qdq(0.2641, 4)
    return m.node("Mul", source).qdq(0.3137, 0).model()


def test_all_layers_of_a_network() -> None:
    model = branches()
    conv, *others = quantize(model, settings=AUTO).graph.layers
    assert [layer.kind for layer in others] == ["add", "multiply"]
    assert isinstance(conv, Conv)
    assert isinstance(conv.requantize, Requantize)
    assert 18 < int(conv.requantize.multiplier.max()).bit_length() <= 32
    plain = quantize(model)
    assert plain.graph == quantize(model, settings=with_rescale_bits(QuantizationSettings(), 18)).graph
    assert plain.graph != quantize(model, settings=AUTO).graph
    feeds = rows(model, 200)
    expected = runtime(model, feeds)
    wrong = [np.count_nonzero(hwflow.run_golden(quantize(model, settings=chosen), feeds)[model.graph.outputs[0].name]
                              != expected[:, 0]) for chosen in (QuantizationSettings(), AUTO)]
    assert wrong[1] < wrong[0]
    assert wrong[1] <= 2


def test_each_layer_may_have_its_own() -> None:
    model = branches()
    (name,) = (node.name for node in model.graph.nodes if node.op_type == "Conv")
    found = quantize(model, settings=QuantizationSettings(layers={name: LayerSettings(rescale_bits=29)})).graph.layers
    plain = quantize(model).graph.layers
    assert int(found[0].requantize.multiplier.max()).bit_length() == 29
    assert [a.name for a, b in zip(found, plain, strict=True) if a != b] == [name]
    by_name = hwflow.quantize_model(model, rescale_bits="auto").graph
    assert by_name == quantize(model, settings=AUTO).graph
    assert hwflow.quantize_model(model, rescale_bits=29).graph.layers[0] == found[0]


@pytest.mark.parametrize("bits", [17, 33, True, 20.5, "wide"])
def test_bits_that_there_are_not(bits: object) -> None:
    message = f"the bits of a rescaling must be a whole number from 18 to 32, or None, not {bits}"
    with pytest.raises(HwflowError, match=message):
        hwflow.quantize_model(branches(), rescale_bits=bits)  # type: ignore[arg-type]
