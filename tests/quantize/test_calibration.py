"""Ranges from calibration data: histograms, methods, and data that cannot calibrate."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.onnx.model import Array, Model
from hwflow.quantize import quantize
from hwflow.quantize.calibrate.activations import BINS, Histogram, activation_form, choose_range
from hwflow.quantize.calibrate.ranges import ranges_of_silent
from hwflow.quantize.calibrate.weights import weight_form
from hwflow.quantize.settings import (
    ActivationSettings,
    LayerSettings,
    QuantizationSettings,
    RangeMethod,
    WeightSettings,
    settings_of_bits,
)
from tests.quantize.models import rows, runtime
from tests.quantize.test_float import Float

RNG = np.random.default_rng(3)


def histogram(*parts: Array) -> Histogram:
    seen = Histogram()
    for part in parts:
        seen.add(part)
    return seen


def settings(method: str, bits: int = 8, symmetric: bool = False, percentile: float = 99.99) -> ActivationSettings:
    return ActivationSettings(bits, symmetric, RangeMethod(method), percentile)


def quantized(values: Array, ends: tuple[float, float], bits: int, symmetric: bool = False) -> Array:
    """The reals that `values` become in the form for a range."""
    form = activation_form(*ends, bits, symmetric)
    if form.format.bipolar:
        return np.where(values >= 0, 1, -1) * float(form.scale)
    integers = np.clip(np.rint(values / float(form.scale)) + form.zero_point, form.low, form.high)
    return (integers - form.zero_point) * float(form.scale)


# The histogram.


def test_the_order_of_rows_does_not_matter() -> None:
    parts = [RNG.normal(0, 10.0**k, 1000).astype(np.float32) for k in (-3, 2, 0, -6, 1)]
    one, two, whole = histogram(*parts), histogram(*parts[::-1]), histogram(np.concatenate(parts))
    for other in (two, whole):
        assert (one.low, one.high, one.zeros, one.exponent, one.first) == (
            other.low, other.high, other.zeros, other.exponent, other.first)  # fmt: skip
        assert np.array_equal(one.counts, other.counts)
    assert BINS / 2 < len(one.counts) <= BINS


@pytest.mark.parametrize(
    "values",
    [
        [1e6, 1e6 + 1],
        [0, 0, 0],
        [5],
        [-3e38, 3e38],
        [1e-45, -1e-45],
        [0, 1e-40],
        [-2.0, -1.0],
        [1, 1e-30, 1e30],
    ],
)
def test_every_value_is_counted_in_its_bin(values: list[float]) -> None:
    array = np.array(values, np.float32)
    seen = histogram(array[:1], array)
    assert seen.zeros + seen.counts.sum() == len(array) + 1
    assert len(seen.counts) <= BINS
    edges = (seen.first + np.arange(len(seen.counts) + 1)) * seen.width
    expected, _ = np.histogram(np.concatenate([array[:1], array])[np.r_[array[:1], array] != 0], edges)
    assert np.array_equal(seen.counts[:-1], expected[:-1])  # numpy's last bin has both of its ends
    assert (seen.low, seen.high) == (array.min(), array.max())


def test_memory_is_bounded() -> None:
    seen = Histogram()
    for k in range(200):
        seen.add(RNG.normal(0, 1.2**k, 100))
    assert len(seen.counts) <= BINS
    assert seen.counts.sum() == 20_000


# The methods.


def test_minmax_is_what_was_seen_and_zero() -> None:
    assert choose_range(histogram(np.array([0.5, 2.0])), settings("minmax")) == (0.0, 2.0)
    assert choose_range(histogram(np.array([-0.5, 2.0])), settings("auto")) == (-0.5, 2.0)
    assert choose_range(histogram(np.array([-3.0, -2.0])), settings("minmax", 4)) == (-3.0, 0.0)


@pytest.mark.parametrize("percent", [50.0, 90.0, 99.0, 99.99, 100.0])
def test_percentile_of_absolute_values(percent: float) -> None:
    values = RNG.standard_normal(100_000)
    low, high = choose_range(histogram(values), settings("percentile", percentile=percent))
    expected = np.percentile(np.abs(values), percent)
    assert high == pytest.approx(min(expected, values.max()), rel=0.01)
    assert low == pytest.approx(max(-expected, values.min()), rel=0.01)


def test_a_percentile_counts_zeros_too() -> None:
    values = np.concatenate([np.zeros(900), np.linspace(0.001, 1, 100)])
    assert choose_range(histogram(values), settings("percentile", percentile=95))[1] == pytest.approx(0.5, abs=0.02)


SHAPES = {
    "normal": RNG.standard_normal(10_000),
    "relu of a normal": np.maximum(RNG.standard_normal(10_000), 0),
    "laplace, shifted": RNG.laplace(0.5, 1, 10_000),
    "negative": -RNG.exponential(2, 10_000),
    "normal with outliers": np.concatenate([RNG.standard_normal(10_000), [40, -3, 55]]),
}


@pytest.mark.quick(25)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bits", [8, 6, 4, 3, 2])
@pytest.mark.parametrize("symmetric", [False, True])
def test_mse_is_near_the_best_range(shape: str, bits: int, symmetric: bool) -> None:
    """Its error on the values themselves, against all of a fine grid of both ends."""
    values = SHAPES[shape]
    found = choose_range(histogram(values), settings("mse", bits, symmetric))
    error = np.mean((values - quantized(values, found, bits, symmetric)) ** 2)
    shares = np.linspace(0.05, 1, 20)
    low, high = min(values.min(), 0), max(values.max(), 0)
    tried = [
        np.mean((values - quantized(values, (a * low, b * high), bits, symmetric)) ** 2) for a in shares for b in shares
    ]
    assert error <= 1.15 * min(tried)
    assert activation_form(*found, bits, symmetric).zero_point in range(-128, 128)


@pytest.mark.parametrize("bits", [8, 4])
def test_entropy_lets_go_of_outliers_and_not_of_the_rest(bits: int) -> None:
    values = np.concatenate([np.abs(RNG.standard_normal(200_000)), [100.0]])
    low, high = choose_range(histogram(values), settings("entropy", bits))
    assert low == 0
    assert 1.5 < high < 20
    few = RNG.uniform(0, 1, 300)  # hardly two in a bin: nothing can be said about their distribution
    assert choose_range(histogram(few), settings("entropy", bits))[1] > 0.9


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse", "entropy", "auto"])
@pytest.mark.parametrize("bits", [1, 4, 8])
@pytest.mark.parametrize("values", [[0.0], [7.5], [-2.0], [1e-42], [-3e38, 3e38], [0.0, 0.0, 5.0]])
def test_every_method_takes_everything(method: str, bits: int, values: list[float]) -> None:
    low, high = choose_range(histogram(np.array(values)), settings(method, bits))
    assert min(values) <= low <= 0 or low == 0
    assert 0 <= high <= max(max(values), 0)
    form = activation_form(low, high, bits)
    assert form.scale >= np.finfo(np.float32).tiny
    assert form.low <= form.zero_point <= form.high


def test_a_range_replaces_any_method() -> None:
    chosen = ActivationSettings(4, method=RangeMethod.ENTROPY, range=(-9.0, 1.0))
    assert choose_range(histogram(np.ones(3)), chosen) == (-9.0, 1.0)


# Weights.


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("method", [RangeMethod.MINMAX, RangeMethod.MSE])
def test_weights(bits: int, per_channel: bool, method: RangeMethod) -> None:
    sizes = np.array([1, 10, 0.1, 0, 1]).reshape(5, 1, 1, 1)
    weights = (RNG.standard_normal((5, 3, 2, 2)) * sizes).astype(np.float32)
    form = weight_form(weights, WeightSettings(bits, per_channel, method))
    limit = max(2 ** (bits - 1) - 1, 1)
    assert form.integers.shape == weights.shape
    assert form.integers.dtype == np.int64
    assert np.abs(form.integers).max() == limit
    assert form.scales.dtype == np.float32
    assert len(np.unique(form.scales)) == (1 if not per_channel else 5)
    if bits > 1:
        assert not form.integers[3].any()
        if per_channel:
            assert form.scales[3] == 1
            plain = weight_form(weights, WeightSettings(bits, per_channel, RangeMethod.MINMAX))
            real = [f.integers * f.scales.astype(np.float64).reshape(5, 1, 1, 1) for f in (form, plain)]
            errors = [np.square(weights - r).reshape(5, -1).sum(axis=1) for r in real]
            assert (errors[0] <= errors[1] * (1 + 1e-6)).all()
    else:
        assert set(np.unique(form.integers)) == {-1, 1}
        expected = np.abs(weights).reshape(5, -1).mean(axis=1) if per_channel else np.full(5, np.abs(weights).mean())
        np.testing.assert_allclose(form.scales, np.maximum(expected, np.finfo(np.float32).tiny), rtol=1e-6)


# Data that cannot calibrate.


def model() -> Model:
    m = Float((1, 2, 6, 6)).conv(4, 2, 3, 3).do("Relu").conv(3, 4, 3, 3)
    return m.model()


def changed(value: float) -> Array:
    feeds = rows(model(), 3)["input"]
    feeds[2, 0, 1, 4, 5] = value
    return feeds


BAD: dict[str, tuple[dict[str, Array], str]] = {
    "nothing": ({}, "must cover the input 'input', not only nothing; add rows for it"),
    "another input": ({"image": rows(model(), 3)["input"]}, "must cover the input 'input', not only 'image'"),
    "no rows": ({"input": np.zeros((0, 1, 2, 6, 6), np.float32)}, "of input 'input' must have at least one row"),
    "a number": ({"input": np.float32(1)}, "of input 'input' must have at least one row, not none"),
    "another type": ({"input": np.zeros((3, 1, 2, 6, 6))}, "of input 'input' must be float32, not float64"),
    "another shape": (
        {"input": np.zeros((3, 2, 6, 6), np.float32)},
        r"of input 'input' must have the shape \[rows, 1, 2, 6, 6\], not \[3, 2, 6, 6\]",
    ),
    "NaN": ({"input": changed(np.nan)}, r"of input 'input' must be finite, not nan in row 2 at \[0, 1, 4, 5\]"),
    "infinite": ({"input": changed(-np.inf)}, r"of input 'input' must be finite, not -inf in row 2 at \[0, 1, 4, 5\]"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data(name: str) -> None:
    data, message = BAD[name]
    with pytest.raises(HwflowError, match=f"^calibration data {message}"):
        quantize(model(), data)


def test_inputs_with_different_numbers_of_rows() -> None:
    m = Float((1, 4))
    other = m.b.input("other", np.float32, (1, 4))
    joined = m.do("Gemm", m.c(4, 4)).do("Add", other).do("Gemm", m.c(4, 2)).model()
    data = {"input": np.ones((3, 1, 4), np.float32), "other": np.ones((2, 1, 4), np.float32)}
    with pytest.raises(HwflowError, match="the same number of rows for all inputs; 'input' has 3, 'other' has 2"):
        quantize(joined, data)


@pytest.mark.parametrize("value", [0.0, 5.0, -0.25])
def test_constant_data_is_legal(value: float) -> None:
    data = {"input": np.full((4, 1, 2, 6, 6), value, np.float32)}
    made = quantize(model(), data)
    assert f"tensor 'input' is {value:g} everywhere in the calibration data" in made.notes
    tensor = made.graph.tensors[made.graph.inputs[0]]
    if value:
        assert tensor.scale == pytest.approx(abs(value) / 255)


@pytest.mark.parametrize("layout", [[], ["Relu"], ["MaxPool"]], ids="-".join)
@pytest.mark.parametrize("bits", [(8, 8), (4, 4)], ids=str)
def test_a_tensor_of_zeros_does_not_make_the_next_bias_coarse(layout: list[str], bits: tuple[int, int]) -> None:
    """The second layer gives its small biases, 0.001 and less: they must be as exact as the result's own steps."""
    m = Float((1, 2, 6, 6))
    m.do("Conv", m.c(3, 2, 3, 3, scale=0.01), m.c(3, scale=0.1, offset=-5)).do("Relu")
    for op in layout:
        m.do(op, **({"kernel_shape": [2, 2]} if op == "MaxPool" else {}))
    m.do("Conv", m.c(4, 3, 1, 1), m.c(4, scale=1e-3))
    net = m.do("Flatten").model()
    data = rows(net, 20)
    made = quantize(net, data, settings=settings_of_bits(*bits))
    name = net.graph.outputs[0].name
    output = made.graph.tensors[made.graph.outputs[0]]
    difference = np.abs(golden.predict(made, data)[name] - runtime(net, data))
    assert difference.max() <= 0.76 * output.scale


def test_tensors_of_zeros_take_the_range_of_what_is_made_of_them() -> None:
    m = Float((1, 4))
    first = m.do("Gemm", m.c(4, 4)).x
    m.do("Relu").do("Gemm", m.c(4, 4))
    second = m.x
    wide = m.b.node("Gemm", first, m.c(4, 4))
    m.b.output(wide)
    graph = m.model().graph
    last, zero = graph.outputs[-1].name, (0.0, 0.0)
    ranges = {"input": (-2.0, 2.0), first: zero, second: (-1.0, 3.0), wide: (-9.0, 9.0)}
    assert last == second
    assert ranges_of_silent(graph, ranges) == {first: (-1.0, 3.0)}, "the narrowest one"
    assert ranges_of_silent(graph, {**ranges, second: zero}) == {first: (-9.0, 9.0)}
    assert ranges_of_silent(graph, {**ranges, "input": zero}) == {"input": (-1.0, 3.0), first: (-1.0, 3.0)}
    assert ranges_of_silent(graph, dict.fromkeys(ranges, zero)) == {}, "nothing says how wide"


def test_a_range_of_zeros_that_the_settings_ask_for_is_kept() -> None:
    ends = ActivationSettings(range=(0.0, 0.0))
    made = quantize(model(), rows(model(), 3), settings=QuantizationSettings(inputs={"input": ends}))
    assert made.graph.tensors[made.graph.inputs[0]].scale == 1


def test_ranges_of_all_tensors_need_no_data() -> None:
    ends = ActivationSettings(range=(-4.0, 4.0))
    made = quantize(model(), settings=QuantizationSettings(LayerSettings(output=ends)))
    assert {tensor.scale for tensor in made.graph.tensors.values()} == {float(np.float32(8 / 255))}
    assert not any("calibration" in note for note in made.notes)
