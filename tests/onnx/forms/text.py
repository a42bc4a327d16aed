"""Forms of operators on texts, n-grams and losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.onnx.forms.form import Case, case, draw, words

A, B = words("a", "é", "", "日本"), words("b", "ß", "x", "")
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


def cases() -> Iterator[Case]:
    yield from (*texts(), *grams(), *losses())
    for pattern in PATTERNS:  # the same texts as RE2, which onnxruntime uses
        yield case("RegexFullMatch", 20, words(*TEXTS), pattern=pattern)
    yield case("RegexFullMatch", 20, words("\ud800", "a", "\ud800a"), pattern=".",
               expected=np.array([True, True, False]))  # half a surrogate pair is a character
    for since in (12, 13, 22):
        scores, labels = np.log(draw(2, 3, 4, low=0.1)), np.array([[0, 1, 2, 0], [2, 2, 1, 0]])
        picked = -np.take_along_axis(scores, labels[:, None], 1)[:, 0]
        for how, answer in (({"reduction": "none"}, picked), ({}, picked.mean()),
                            ({"reduction": "sum", "ignore_index": 1}, picked[labels != 1].sum())):  # fmt: skip
            yield case("NegativeLogLikelihoodLoss", since, scores, labels, attributes=how,
                       expected=np.asarray(answer, np.float32))  # fmt: skip
    for since in (12, 13):
        scores, labels = draw(4, 3), np.array([0, 2, 1, 1])
        logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        loss = -logs[np.arange(4), labels]
        yield case("SoftmaxCrossEntropyLoss", since, scores, labels, expected=np.asarray(loss.mean(), np.float32))
        yield case("SoftmaxCrossEntropyLoss", since, scores, labels, reduction="none", outputs=2, expected=[loss, logs])


def texts() -> list[Case]:
    messy = words("Monday", "tuesday", "WEDNESDAY", "thursday", "x")
    return [
        case("StringConcat", 20, A, B),
        case("StringConcat", 20, A.reshape(4, 1), words("x", "y")),
        *(case("StringNormalizer", 10, messy, case_change_action=action, is_case_sensitive=exact, stopwords=stop,
               locale="C")
          for action in ("LOWER", "UPPER", "NONE") for exact in (0, 1) for stop in (["monday", "thursday"], None)),
        case("StringNormalizer", 10, messy.reshape(1, 5), stopwords=["monday"], is_case_sensitive=0, locale="C"),
        case("StringNormalizer", 10, words("Été"), case_change_action="UPPER", expected=words("ÉTÉ")),
        case("StringNormalizer", 10, words("a", "b"), stopwords=["a", "b"], is_case_sensitive=1, expected=words("")),
        *(case("StringSplit", 20, words("a.b.c", "a..b", "", ".", "ab", " a  b "), outputs=2, **how)
          for how in ({"delimiter": "."}, {"delimiter": ".", "maxsplit": 1}, {}, {"delimiter": ""}, {"maxsplit": 1})),
        case("StringSplit", 20, words("a-b", "c", shape=(1, 2, 1)), delimiter="-", outputs=2),
    ]  # fmt: skip


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
