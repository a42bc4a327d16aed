"""Operators on texts, n-grams and losses: against onnxruntime, and what they refuse."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import Limits
from tests.onnx.neural import Case, case, draw, error_of
from tests.onnx.oracle import ChildOracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as started:
        yield started


def words(*texts: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    return np.array(texts, np.object_).reshape(shape or len(texts))


def same(wanted: Case, oracle: ChildOracle) -> None:
    """The shapes of some of these depend on the data: nothing is inferred."""
    model, feeds = wanted.model()
    answers = oracle.run(model, feeds) if wanted.expected is None else wanted.expected
    for found, answer in zip(hwflow.onnx.evaluate(model, feeds).values(), answers, strict=True):
        assert found.shape == np.asarray(answer).shape
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, answer, rtol=1e-5, atol=1e-6)
        else:
            assert found.tolist() == np.asarray(answer).tolist()


A, B = words("a", "é", "", "日本"), words("b", "ß", "x", "")


def texts() -> list[Case]:
    messy = words("Monday", "tuesday", "WEDNESDAY", "thursday", "x")
    return [
        case("StringConcat", 20, A, B),
        case("StringConcat", 20, A.reshape(4, 1), words("x", "y")),
        *(case("StringNormalizer", 10, messy, case_change_action=action, is_case_sensitive=exact, stopwords=stop,
               locale="C")
          for action in ("LOWER", "UPPER", "NONE") for exact in (0, 1) for stop in (["monday", "thursday"], None)),
        case("StringNormalizer", 10, messy.reshape(1, 5), stopwords=["monday"], is_case_sensitive=0, locale="C"),
        case("StringNormalizer", 10, words("Été"), case_change_action="UPPER", expected=[["ÉTÉ"]]),
        case("StringNormalizer", 10, words("a", "b"), stopwords=["a", "b"], is_case_sensitive=1, expected=[[""]]),
        *(case("StringSplit", 20, words("a.b.c", "a..b", "", ".", "ab", " a  b "), outputs=2, **how)
          for how in ({"delimiter": "."}, {"delimiter": ".", "maxsplit": 1}, {}, {"delimiter": ""}, {"maxsplit": 1})),
        case("StringSplit", 20, words("a-b", "c", shape=(1, 2, 1)), delimiter="-", outputs=2),
    ]  # fmt: skip


@pytest.mark.parametrize("wanted", texts(), ids=lambda c: c.label)
def test_texts(wanted, oracle) -> None:
    same(wanted, oracle)


PATTERNS = [
    r"a+b*c?", r"[a-c]{2,3}", r"(?i)abc|D", r"www\.[\w.-]+\.\bcom\b", r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)",
    r"[^\d\s]+", r"\x41\x{42}\103", r".*", r"(?s).*", r"\pL+\p{Nd}", r"\Qa.b\E+", r"[[:alpha:]]+[[:^digit:]]",
    r"(?:a|ab)(?:c|bcd)(d*)", r"a{,2}", r"(?m)^a$\n^b$", r"[]a]+", r"[a\]]+", r"(?P<n>a)(?<m>b)", r"", r"a||b",
    r"(a*)*",
    r"(a*)+b", r"[^a]", r"(?i)[^a]", r"(?i)é", r"\bab\b", r"a\Bb", r"[a-]+", r"^ab$", r"\d+\.\d{2}", r"(?i:a)b",
    r"a(?i)b|c", r"[\w-]+", r"\/", r"{a}", r"a{2", r"\PL+", r"a*?b", r"\A\w\z", r"[\x41-\x{43}]+",
]  # fmt: skip
TEXTS = [
    "", "a", "aab", "abc", "ABC", "D", "d", "ab", "bc", "cab", "www.x.com", "www.foo-1.bar.com", "me@gmail.com", "AB C",
    "a\nb", "é1", "É", "é", "a.b", "a.bbb", "abcd", "abd", "xxxx", "]", "a]", "A", "b", "\n", "a-", "1.25", "Ab", "aB",
    "AC", "C", "c", "/", "-", "{a}", "a{2", "abcd1", "aa", "a{,2}", "a" * 30, "日本",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_regular_expressions(oracle, pattern) -> None:
    """The same texts as RE2, which onnxruntime uses."""
    same(case("RegexFullMatch", 20, words(*TEXTS), pattern=pattern), oracle)


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


def test_half_a_surrogate_pair_is_a_character() -> None:
    model, feeds = case("RegexFullMatch", 20, words("\ud800", "a", "\ud800a"), pattern=".").model()
    (found,) = hwflow.onnx.evaluate(model, feeds).values()
    assert found.tolist() == [True, True, False]


@pytest.mark.parametrize(("pattern", "text"), [
    ("(a*)*" * 20 + "b", "a" * 30_000), ("(a|aa)+$b", "a" * 30_000), ("(x+x+)+y", "x" * 30_000),
    ("[ab]*a[ab]{901}", "ab" * 5_000), ("x?" * 1000 + "y", "x" * 10_000),
    ("(" * 4999 + ")" * 4999, "a" * 10_000),
])
def test_no_pattern_takes_exponential_time(pattern, text) -> None:
    wanted = case("RegexFullMatch", 20, words(text), pattern=pattern)
    started = time.monotonic()
    model, feeds = wanted.model()
    (found,) = hwflow.onnx.evaluate(model, feeds).values()
    assert found.tolist() == [pattern.startswith("[")]
    assert time.monotonic() - started < 5


def test_a_costly_pattern_counts_as_work() -> None:
    model, feeds = case("RegexFullMatch", 20, words("ab" * 1000), pattern="[ab]*a[ab]{900}").model()
    with pytest.raises(LimitError, match="multiplications"):
        hwflow.onnx.evaluate(model, feeds, limits=Limits(work=1_000_000))


def grams() -> list[Case]:
    tokens = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
    whole: dict[str, Any] = {
        "ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    }  # fmt: skip
    mixed = {**whole, "ngram_indexes": [6, 2, 0, 3, 1, 5, 4]}
    texts = {
        "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2, 3], "pool_strings": ["a", "b", "a", "b", "b", "a"],
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1,
    }  # fmt: skip
    sizes = [(1, 1), (1, 2), (2, 2)]
    return [
        *(case("TfIdfVectorizer", 9, tokens, mode=mode, min_gram_length=low, max_gram_length=high, max_skip_count=skip,
               attributes=which) for mode in ("TF", "IDF", "TFIDF") for low, high in sizes for skip in (0, 1, 5)
          for which in (whole, mixed)),
        *(case("TfIdfVectorizer", 9, tokens.astype(np.int32), mode=mode, min_gram_length=1, max_gram_length=2,
               max_skip_count=0, weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], attributes=whole)
          for mode in ("TF", "IDF", "TFIDF")),
        case("TfIdfVectorizer", 9, words("a", "b", "c", "b"), attributes=texts),
        case("TfIdfVectorizer", 9, words("a", "b", "c", "b", shape=(2, 2)), attributes=texts),
        case("TfIdfVectorizer", 9, np.array([5]), mode="TF", min_gram_length=1, max_gram_length=3, max_skip_count=0,
             ngram_counts=[0, 1, 3], ngram_indexes=[0, 1, 2], pool_int64s=[5, 5, 5, 5, 5, 5]),
        case("TfIdfVectorizer", 9, np.array([5, 6, 7, 6, 7]), mode="TF", min_gram_length=3, max_gram_length=3,
             max_skip_count=0, ngram_counts=[0, 0, 0], ngram_indexes=[1, 0], pool_int64s=[6, 7, 6, 5, 6, 7]),
    ]  # fmt: skip


@pytest.mark.parametrize("wanted", grams(), ids=lambda c: c.label)
def test_n_grams(wanted, oracle) -> None:
    same(wanted, oracle)


def losses() -> list[Case]:
    rng = np.random.default_rng(0)
    many = []
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        for opset in (12, 13):
            for shape in ((5, 3), (2, 3, 4), (2, 3, 4, 2)):
                scores, labels = draw(*shape), rng.integers(0, 3, (shape[0], *shape[2:]))
                for weight in (None, np.array([0.5, 1.0, 2.0], np.float32)):
                    for ignored in ({}, {"ignore_index": 1}):
                        many += [case(op, opset, scores, labels, *(() if weight is None else (weight,)), reduction=r,
                                      attributes=ignored) for r in ("none", "sum", "mean")]  # fmt: skip
    return many


@pytest.mark.parametrize("wanted", losses(), ids=lambda c: c.label)
def test_losses(wanted, oracle) -> None:
    same(wanted, oracle)


S, L = draw(2, 3), np.array([0, 3])
POOL = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0],
        "ngram_indexes": [0], "pool_int64s": [5]}  # fmt: skip


def counted(**changed: Any) -> Case:
    return case("TfIdfVectorizer", 9, np.array([5]), attributes={**POOL, **changed})


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (case("NegativeLogLikelihoodLoss", 13, S, L), "the labels must be 0 to 2, not 3"),
        (case("SoftmaxCrossEntropyLoss", 13, S, L[:1]), "the labels must have the shape of the scores without axis 1"),
        (case("SoftmaxCrossEntropyLoss", 13, S, L, S[0, :2]), "the weights must be one for each of 3 classes, not [2]"),
        (case("NegativeLogLikelihoodLoss", 13, S, L, reduction="max"), "attribute 'reduction' must be none, sum or"),
        (case("StringNormalizer", 10, words("a", "b", shape=(2, 1))), "the input must have the shape [C] or [1, C]"),
        (case("StringNormalizer", 10, A, case_change_action="TITLE"), "attribute 'case_change_action' must be LOWER"),
        (case("StringConcat", 20, A, words("a", "b")), "the input shapes must fit together by broadcasting"),
        (counted(mode="IDFTF"), "there must be 1 'ngram_indexes' and 'mode' TF, IDF or TFIDF, not 1, 'IDFTF'"),
        (counted(ngram_counts=[2]), "'ngram_counts' must rise in whole n-grams up to the pool's size 1"),
        (counted(ngram_counts=[0, 0]), "'ngram_counts' must rise in whole n-grams up to the pool's size 1"),
        (counted(ngram_indexes=[-1]), "'ngram_indexes' must be numbers of 0 or more, not [-1]"),
        (counted(ngram_indexes=[1 << 40]), "a tensor must be at most"),
        (counted(pool_strings=["a"]), "the n-grams must be in one of pool_int64s and pool_strings"),
        (counted(weights=[1.0, 2.0], mode="IDF"), "there must be 1 weights, one for each n-gram, not 2"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)
def test_what_does_not_fit(wanted, message) -> None:
    assert error_of(wanted).startswith(message)
