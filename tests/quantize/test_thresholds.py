"""Thresholds and multiplications of the importer: exact, equal where both are chosen from, cheap."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hwflow.layers import Conv, IntFormat, Requantize
from hwflow.layers.rescale import Rescale, Rounding, Thresholds
from hwflow.quantize import quantize
from hwflow.quantize.importer.choose_rescale import Accumulator, Affine, rescale, thresholds
from hwflow.quantize.settings import LayerSettings, OutputStage, QuantizationSettings
from tests.quantize.models import Qdq, assert_agrees

UINT2, INT8 = IntFormat(2, signed=False), IntFormat(8, signed=True)


def rounded(value: Fraction, rounding: Rounding) -> int:
    """By the definition of each way of rounding."""
    floor = value.numerator // value.denominator
    rest = value - floor
    up = {
        Rounding.HALF_EVEN: rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1),
        Rounding.HALF_UP: rest >= Fraction(1, 2),
        Rounding.HALF_DOWN: rest > Fraction(1, 2),
        Rounding.FLOOR: False,
        Rounding.CEIL: rest > 0,
    }[rounding]
    return floor + up


def meaning(a: Affine, sums: np.ndarray) -> np.ndarray:
    """clamp(round(ratio * (sum + bias)) + zero_point), one fraction after the other."""
    rows = [
        [
            min(max(rounded(r * (int(s) + b), a.rounding) + a.zero_point, low), high)
            for r, b, low, high in zip(a.ratio, a.bias, a.low, a.high, strict=True)
        ]
        for s in sums
    ]
    return np.array(rows)


def whole(low: int, high: int, channels: int) -> Accumulator:
    full = np.ones(channels, np.int64)
    return Accumulator(0 * full, low * full, high * full)


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("zero_point", [-1, 0, 2])
def test_thresholds_are_exact_for_every_sum(rounding: Rounding, zero_point: int) -> None:
    """Ratios of 1/4 and 3/8 meet ties all the time; biases of a half and of a seventh lie beside them."""
    ratios = (Fraction(1, 4), Fraction(3, 8), Fraction(1, 4), Fraction(355, 1130))
    biases = (Fraction(0), Fraction(1, 2), Fraction(-3), Fraction(1, 7))
    a = Affine(ratios, biases, (-3,) * 4, (4,) * 4, zero_point, rounding)
    sums = np.arange(-40, 41)
    made = thresholds(a, whole(-40, 40, 4))
    np.testing.assert_array_equal(made.apply(np.repeat(sums[:, None], 4, axis=1)), meaning(a, sums))


def test_thresholds_stay_inside_the_sums() -> None:
    a = Affine((Fraction(1, 2),), (Fraction(0),), (0,), (7,), 0, Rounding.HALF_EVEN)
    assert thresholds(a, whole(-3, 5, 1)).values.tolist() == [[2, 3, 6, 6, 6, 6, 6]]
    assert thresholds(a, whole(4, 5, 1)).values.tolist() == [[4, 4, 6, 6, 6, 6, 6]]


@pytest.mark.parametrize("stage", list(OutputStage))
@pytest.mark.parametrize("output", [UINT2, IntFormat(4, signed=True), INT8], ids=str)
def test_either_kind_does_the_same_where_both_are_exact(stage: OutputStage, output: IntFormat) -> None:
    ratios = tuple(Fraction(k, 1 << 12) for k in (3, 100, 2049))
    biases = (Fraction(17), Fraction(-250), Fraction(0))
    a = Affine(ratios, biases, (output.low,) * 3, (output.high,) * 3, 1, Rounding.HALF_EVEN)
    made = rescale(a, whole(-900, 900, 3), output, stage)
    sums = np.arange(-900, 901)
    np.testing.assert_array_equal(made.apply(np.repeat(sums[:, None], 3, axis=1)), meaning(a, sums))
    if stage is not OutputStage.AUTO:
        assert isinstance(made, {OutputStage.MULTIPLY: Requantize, OutputStage.THRESHOLDS: Thresholds}[stage])


def test_a_multiplication_that_is_not_exact_is_not_chosen() -> None:
    """A ratio of 1/3 has no power of two below it: somewhere in a million sums it rounds to another level."""
    a = Affine((Fraction(1, 300_000),), (Fraction(0),), (0,), (3,), 0, Rounding.HALF_EVEN)
    exact = rescale(a, whole(0, 1_000_000, 1), UINT2, OutputStage.AUTO)
    assert isinstance(exact, Thresholds)
    assert exact.values.tolist() == [[150_001, 450_000, 750_001]]
    near = rescale(a, whole(0, 1_000_000, 1), UINT2, OutputStage.MULTIPLY)
    assert near.apply(np.array([[450_000]])).tolist() != [[2]] or near.apply(np.array([[750_000]])).tolist() != [[2]]


def test_many_levels_are_multiplied() -> None:
    a = Affine((Fraction(1, 3),), (Fraction(0),), (-128,), (127,), 0, Rounding.HALF_EVEN)
    assert isinstance(rescale(a, whole(-9000, 9000, 1), INT8, OutputStage.AUTO), Requantize)


def test_limits_per_channel_need_thresholds() -> None:
    a = Affine((Fraction(1, 3),) * 2, (Fraction(0),) * 2, (-128, 0), (127, 20), 0, Rounding.HALF_EVEN)
    made = rescale(a, whole(-900, 900, 2), INT8, OutputStage.AUTO)
    assert isinstance(made, Thresholds)
    sums = np.arange(-900, 901)
    np.testing.assert_array_equal(made.apply(np.repeat(sums[:, None], 2, axis=1)), meaning(a, sums))
    with pytest.raises(ValueError, match="its limits differ from channel to channel"):
        rescale(a, whole(-900, 900, 2), INT8, OutputStage.MULTIPLY)


@pytest.mark.parametrize("stage", list(OutputStage))
def test_a_constant_result(stage: OutputStage) -> None:
    a = Affine((Fraction(1, 3),), (Fraction(0),), (2,), (2,), 0, Rounding.HALF_EVEN)
    made = rescale(a, whole(-9, 9, 1), UINT2, stage)
    assert set(made.apply(np.arange(-9, 10)[:, None]).ravel().tolist()) == {2}


def low_bits(low: int, high: int) -> Qdq:
    """A convolution to a few bits, as a QuantizeLinear with a Clip behind it."""
    m = Qdq((1, 3, 6, 6)).qdq(0.0313, 3).conv((4, 3, 3, 3)).node("Relu").quantize(2.1, 0)
    m.node("Clip", m.constant("low", np.int8(low)), m.constant("high", np.int8(high)))
    return m.dequantize(2.1, 0)


def output_stage(model: object, settings: QuantizationSettings | None = None) -> Rescale:
    (layer,) = quantize(model, settings=settings).graph.layers  # type: ignore[arg-type]
    assert isinstance(layer, Conv)
    return layer.requantize


@pytest.mark.parametrize("stage", [OutputStage.MULTIPLY, OutputStage.THRESHOLDS])
def test_the_user_may_choose(stage: OutputStage) -> None:
    model = low_bits(0, 7).model()
    kind = {OutputStage.MULTIPLY: Requantize, OutputStage.THRESHOLDS: Thresholds}[stage]
    everywhere = QuantizationSettings(default=LayerSettings(output_stage=stage))
    assert isinstance(output_stage(model, everywhere), kind)
    (name,) = (node.name for node in model.graph.nodes if node.op_type == "Conv")
    here = QuantizationSettings(layers={name: LayerSettings(output_stage=stage)})
    assert isinstance(output_stage(model, here), kind)


@pytest.mark.parametrize("high", [1, 3, 15])
def test_few_levels_agree_with_onnxruntime(high: int) -> None:
    model = low_bits(0, high).model()
    q = quantize(model)
    assert q.graph.tensors[q.graph.outputs[0]].format == IntFormat.covering(0, high)
    if high > 1:
        assert_agrees(model, 2.1, share=0.9999)
