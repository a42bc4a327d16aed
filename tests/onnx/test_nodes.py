"""Nodes of which a form says too little: random numbers, limits of time, graphs as attributes, maps."""

from __future__ import annotations

import math
import time
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.build import Builder, make_graph, make_node, tensor_type
from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Value
from hwflow.onnx.ops import convolution
from hwflow.onnx.ops.custom.qonnx import DOMAINS
from hwflow.onnx.ops.special import erf, erf_inverse
from tests.onnx import single
from tests.onnx.forms.attention import BATCH, KEYS, QUERIES, attend, heads, masked
from tests.onnx.forms.custom import microsoft
from tests.onnx.forms.elementwise import logistic
from tests.onnx.forms.form import answers, case, draw, error_of, evaluated, form_of, number, same, words
from tests.onnx.forms.learning import ML, MODES, X5, grown, rows, vectors, votes
from tests.onnx.forms.learning import case as learn
from tests.onnx.forms.normalization import normal
from tests.onnx.forms.quantized import scale
from tests.onnx.oracle import ChildOracle

INT32, INT64, FLOAT, HALF, DOUBLE = 6, 7, 1, 10, 11


def test_casts_between_all_types() -> None:
    """1 is in all of them, and text as well."""
    real = [entry for entry in ELEMENT_TYPES if entry.dtype.kind != "c"]
    for target in real:
        for source in real:
            x = words("1") if source.dtype.kind == "O" else np.array([1]).astype(source.dtype)
            found = evaluated(case("Cast", 28, x, to=target.code))[0]
            assert found.dtype == target.dtype
            one = ["1"] if target.dtype.kind == "O" else np.array([1]).astype(target.dtype).tolist()
            assert found.tolist() == one


@pytest.mark.parametrize("to", [18, 20])
def test_unsigned_zero_has_no_negative(to) -> None:
    assert evaluated(case("Cast", 19, np.array([-0.0], np.float32), to=to))[0].view(np.uint8).tolist() == [0]


def test_the_rule_of_range_makes_no_numbers() -> None:
    """10^8 numbers take 800 MB; of 10^12 not even the shape is given, because no tensor may be that large."""
    tracemalloc.start()
    assert single.inferred("Range", np.array(0), np.array(10**8), np.array(1)) == [(np.int64, (10**8,))]
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    with pytest.raises(LimitError, match="must be at most"):
        single.inferred("Range", np.array(0), np.array(10**12), np.array(1))


def test_error_function() -> None:
    """To 1e-14 of the exact value, and so to the last bit of float32."""
    x = np.concatenate((np.linspace(-7, 7, 20001), np.logspace(-300, 1, 601), [0.46875, 6.0, -0.0]))
    exact = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(erf(x), exact, rtol=1e-14)
    small = x.astype(np.float32)
    rounded = np.array([math.erf(v) for v in small]).astype(np.float32)
    np.testing.assert_array_max_ulp(erf(small).astype(np.float32), rounded, 1)
    np.testing.assert_array_equal(erf(np.array([np.inf, -np.inf, np.nan])), [1, -1, np.nan])
    y = np.linspace(-0.99999, 0.99999, 2001)
    np.testing.assert_allclose(erf(erf_inverse(y)), y, rtol=1e-12, atol=1e-15)


def random(op: str, opset: int, **attributes: Any) -> np.ndarray:
    return evaluated(case(op, opset, attributes=attributes))[0]


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("dtype", [FLOAT, HALF, DOUBLE])
def test_random_numbers(opset, dtype) -> None:
    gauss = random("RandomNormal", opset, shape=(100, 200), mean=3.0, scale=2.0, dtype=dtype).astype(np.float64)
    assert abs(gauss.mean() - 3) < 0.05
    assert abs(gauss.std() - 2) < 0.05
    uniform = random("RandomUniform", opset, shape=(100, 200), low=-1.0, high=3.0, dtype=dtype).astype(np.float64)
    assert abs(uniform.mean() - 1) < 0.05
    assert -1 <= uniform.min() < -0.99 < 2.99 < uniform.max() <= 3


def test_random_numbers_are_the_same_every_time() -> None:
    first = random("RandomNormal", 1, shape=(5,), seed=7.0)
    assert first.tolist() == random("RandomNormal", 1, shape=(5,), seed=7.0).tolist()
    others = [random("RandomNormal", 1, shape=(5,), **seed) for seed in ({}, {"seed": 0.5}, {"seed": -1.0})]
    assert len({tuple(a) for a in (first, *others)}) == 4
    assert others[0].tolist() == random("RandomNormal", 1, shape=(5,), seed=0.0).tolist()


def test_chances() -> None:
    found = evaluated(case("Bernoulli", 15, np.full((100, 200), 0.3, np.float32), dtype=INT32, seed=3.0))[0]
    assert found.dtype == np.int32
    assert set(found.ravel().tolist()) == {0, 1}
    assert abs(found.mean() - 0.3) < 0.01
    x = np.log(np.array([[0.2, 0.3, 0.5], [1e-30, 1, 1e-30]], np.float32))
    found = evaluated(case("Multinomial", 7, x, sample_size=10_000, dtype=INT64))[0]
    np.testing.assert_allclose(np.bincount(found[0]) / 10_000, [0.2, 0.3, 0.5], atol=0.02)
    assert set(found[1].tolist()) == {1}


@pytest.mark.parametrize("opset", [1, 6, 12, 13, 22])
def test_dropout_in_training(opset) -> None:
    """The first versions drop unless it is a test."""
    x, old = np.ones((100, 200), np.float32), opset < 12
    wanted = case("Dropout", opset, x, *(() if old else (number(0.25), np.array(True))), outputs=2,
                  attributes={"ratio": 0.25} if old else {"seed": 5})  # fmt: skip
    y, mask = evaluated(wanted)
    assert mask.dtype == (np.float32 if old else np.bool_)
    assert abs(mask.mean() - 0.75) < 0.01
    np.testing.assert_allclose(y, mask / 0.75, rtol=1e-6)


def test_flex_attention() -> None:
    """The graphs see the scores and the shares in the precision of the softmax."""
    q, k, v = (a.astype(np.float16) for a in heads(4, 2))
    b = Builder()
    names = [b.input(n, a.dtype, a.shape) for n, a in zip("qkv", (q, k, v), strict=True)]
    inner = tensor_type(np.float32, (BATCH, 4, QUERIES, KEYS))
    twice = make_graph([make_node("Mul", ["s", "two"], ["t"])], [Value("s", inner)], [Value("t", inner)],
                       {"two": np.float32(2)})  # fmt: skip
    b.output(b.nodes("FlexAttention", *names, outputs=["y"], domain="ai.onnx.preview", name="n", score_mod=twice,
                     prob_mod=twice)[0])  # fmt: skip
    model = b.model(opset=25, opsets={"ai.onnx.preview": 1})
    found = hwflow.onnx.evaluate(model, dict(zip("qkv", (q, k, v), strict=True)))["y"]
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), 2 * attend(q, k, v, masked(True), 1.0), atol=5e-3)


def test_convolutions_in_blocks(monkeypatch) -> None:
    """The same in parts of a few rows as in one piece."""
    monkeypatch.setattr(convolution, "BLOCK_BYTES", 3000)
    with ChildOracle() as oracle:
        for groups in (1, 2, 8):
            x, w = draw(3, 8, 17, 9), draw(8, 8 // groups, 3, 3)
            one = case("Conv", 11, x, w, group=groups, pads=[1, 1, 1, 1], strides=[2, 1])
            assert same(evaluated(one), answers(form_of(one), oracle), form_of(one)) == ""


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_normalization_of_a_version_that_no_model_may_use(groups) -> None:
    """Version 18, whose scale and bias are for groups, is deprecated; its kernel stays."""
    x, s, b = draw(2, 6, 3, 4), draw(groups), draw(groups, seed=1)
    wanted = normal(x.reshape(2, groups, -1), 2) * s[:, None] + b[:, None]
    found = single.evaluated("GroupNormalization", x, s, b, opset=18, num_groups=groups)
    np.testing.assert_allclose(found, wanted.reshape(x.shape), rtol=1e-4, atol=1e-5)
    assert single.inferred("GroupNormalization", x, s, b, opset=18, num_groups=groups) == [(np.float32, x.shape)]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("op", "step", "how"), [("QLinearSigmoid", 1 / 256, {}), ("QLinearLeakyRelu", 0.0613,
                                                                                 {"alpha": 0.2})])  # fmt: skip
def test_roundings_of_microsoft(op, step, how, dtype) -> None:
    """Hardly ever another integer than the formula in float64, where onnxruntime may be one apart."""
    limits = np.iinfo(dtype)
    x = np.arange(limits.min, limits.max + 1).astype(dtype)
    real = (x.astype(np.float64) - 20) * np.float32(0.05)
    y = logistic(real) if op == "QLinearSigmoid" else np.where(real >= 0, real, real * 0.2)
    expected = np.clip(np.rint(y / np.float32(step)) + 3, limits.min, limits.max)
    inputs = (x, scale(0.05), number(20, dtype), scale(step), number(3, dtype))
    assert (evaluated(microsoft(op, *inputs, attributes=how))[0] != expected).mean() < 0.02


@pytest.mark.parametrize("domain", DOMAINS)
def test_without_an_import_version_1_of_qonnx_is_meant(domain) -> None:
    b = Builder()
    x = b.input("x", np.float32, (3,))
    names = [b.constant(n, np.float32(v)) for n, v in (("s", 0.5), ("z", 0), ("i", 6), ("o", 4))]
    b.output(b.nodes("Trunc", x, *names, outputs=["y"], domain=domain)[0])
    found = hwflow.onnx.evaluate(b.model(opset=9), {"x": np.float32([13, -13, 63]) * np.float32(0.5)})
    np.testing.assert_array_equal(found["y"], np.float32([1.5, -2, 7.5]))


def test_a_million_walks_take_no_python_loop() -> None:
    """200 trees for 5000 rows, in less time than a loop over rows would take for ten of them."""
    nodes = grown(6, 200, 8, 10, MODES[:1])
    nodes |= votes(nodes, "target", 1, 4)
    one = learn("TreeEnsembleRegressor", 1, rows(5000, 10), n_targets=1, attributes=nodes)
    with ChildOracle() as oracle:
        wanted = oracle.run(*one.model())[0]
    np.testing.assert_allclose(evaluated(one)[0], wanted, rtol=1e-4, atol=1e-4)


def test_probabilities_of_two_classes_are_those_of_the_pair() -> None:
    """onnxruntime stops earlier, at 0.005 / classes."""
    shared: dict[str, Any] = {
        "vectors_per_class": [1, 1], "support_vectors": vectors(2, 3, seed=1), "rho": [0.2],
        "coefficients": [1.0, -1.0], "classlabels_ints": [5, 7],
    }  # fmt: skip
    x, asked = draw(9, 3), {"prob_a": [-0.5], "prob_b": [0.25]}
    decision = evaluated(learn("SVMClassifier", 1, x, outputs=2, attributes=shared))[1][:, 1]
    found = evaluated(learn("SVMClassifier", 1, x, outputs=2, attributes=shared | asked))[1]
    np.testing.assert_allclose(found[:, 0], 1 / (1 + np.exp(-0.5 * decision + 0.25)), rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)


def test_zip_map() -> None:
    model, feeds = learn("ZipMap", 1, X5[:2], classlabels_strings=["a", "b"]).model()
    found = hwflow.onnx.evaluate(model, feeds)["y0"]
    assert [{key: float(value) for key, value in row.items()} for row in found] == [{"a": 0, "b": 2}, {"a": 0, "b": 4}]


@pytest.mark.parametrize(
    ("op", "value", "attributes", "wanted"),
    [
        ("DictVectorizer", {"a": 1.5, "c": 2.5}, {"string_vocabulary": ["c", "b", "a"]}, [[2.5, 0, 1.5]]),
        ("DictVectorizer", {4: 1.0, 7: 2.0}, {"int64_vocabulary": [7, 4]}, [[2, 1]]),
        ("CastMap", {4: 1.5, 1: 2.5}, {"cast_to": "TO_FLOAT"}, [[2.5, 1.5]]),
        ("CastMap", {3: 1.5, 1: 2.5}, {"cast_to": "TO_INT64", "map_form": "SPARSE", "max_map": 5}, [[0, 2, 0, 1, 0]]),
        ("CastMap", {3: "x"}, {"cast_to": "TO_STRING"}, [["x"]]),
    ],
)
def test_maps(op, value, attributes, wanted) -> None:
    b = Builder()
    b._inputs.append(Value("x", None))
    b.nodes(op, "x", outputs=["y"], domain=ML, **attributes)
    b.output("y")
    assert hwflow.onnx.evaluate(b.model(opsets={ML: 1}), {"x": value})["y"].tolist() == wanted


def test_a_type_that_the_scale_gives() -> None:
    """RMSNormalization has the type of its scale, LayerNormalization that of its input."""
    x = draw(2, 4)
    assert evaluated(case("RMSNormalization", 23, x.astype(np.float16), draw(4)))[0].dtype == np.float32
    small = [a.astype(ml_dtypes.bfloat16) for a in (x, draw(4))]
    assert evaluated(case("LayerNormalization", 17, *small))[0].dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?=a)b", "invalid perl operator: (?="),
        (r"(?<=a)b", "invalid perl operator: (?<="),
        (r"(a)\1", "invalid escape sequence: \\1"),
        (r"a**", "bad repetition operator: **"),
        (r"a)", "unexpected ): a)"),
        (r"(a", "missing ): (a"),
        (r"[b-a]", "invalid character class range: b-a"),
        (r"[a", "missing ]: [a"),
        (r"*a", "no argument for repetition operator: *"),
        (r"a{1001}", "invalid repetition size: {1001}"),
        (r"\k", "invalid escape sequence: \\k"),
        (r"\p{Elvish}", "invalid character class range: \\p{Elvish}"),
        ("(" * 100, "missing ): " + "(" * 100),
        ("(?:a{1000}){1000}", "invalid repetition size: {1000}"),
        ("((((){1000}){1000}){1000}){1000}", "invalid repetition size: {1000}"),
        ("a{1000}" * 1400, "pattern too large - compile failed"),
    ],
)
def test_what_is_no_regular_expression(pattern, reason, capfd) -> None:
    """The reasons are RE2's, which writes nothing of its own to the terminal."""
    message = error_of(case("RegexFullMatch", 20, words("a"), pattern=pattern))
    assert message == f"attribute 'pattern' must be a regular expression of RE2, not '{pattern}': {reason}"
    assert capfd.readouterr().err == ""


def test_a_pattern_is_not_endless() -> None:
    message = error_of(case("RegexFullMatch", 20, words("a"), pattern="a" * 10_001))
    assert message == "attribute 'pattern' must have at most 10000 characters, not 10001"


@pytest.mark.parametrize(("pattern", "text"), [
    ("(a*)*" * 20 + "b", "a" * 30_000), ("(a|aa)+$b", "a" * 30_000), ("(x+x+)+y", "x" * 30_000),
    ("[ab]*a[ab]{901}", "ab" * 5_000), ("x?" * 1000 + "y", "x" * 10_000),
    ("(" * 4999 + ")" * 4999, "a" * 10_000),
])
def test_no_pattern_takes_exponential_time(pattern, text) -> None:
    started = time.monotonic()
    model, feeds = case("RegexFullMatch", 20, words(text), pattern=pattern).model()
    (found,) = hwflow.onnx.evaluate(model, feeds).values()
    assert found.tolist() == [pattern.startswith("[")]
    assert time.monotonic() - started < 5


def test_a_costly_pattern_counts_as_work() -> None:
    model, feeds = case("RegexFullMatch", 20, words("ab" * 1000), pattern="[ab]*a[ab]{900}").model()
    with pytest.raises(LimitError, match="multiplications"):
        hwflow.onnx.evaluate(model, feeds, limits=Limits(work=1_000_000))
