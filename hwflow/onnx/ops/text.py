"""Operators on texts, and counts of words and their neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.shapes import as_bool, broadcast_shape

#: A text is at most this long after StringConcat and StringNormalizer; texts that double in a loop stop here.
_MAX_CHARACTERS = 1 << 28


def strings(texts: Iterable[str], shape: tuple[int, ...]) -> Arr:
    """Texts as an array of objects."""
    listed = list(texts)
    result = np.empty(len(listed), np.object_)
    result[:] = listed
    return result.reshape(shape)


def _attribute_strings(call: Call, name: str) -> tuple[str, ...]:
    value = call.node.attributes.get(name, ())
    if not isinstance(value, tuple) or not all(isinstance(text, str) for text in value):
        raise call.error(f"attribute '{name}' must be a list of texts, not {value!r}", "export the model again")
    return value  # type: ignore[return-value]


def _concat(call: Call, x: Arr, y: Arr) -> Arr:
    shape = broadcast_shape(call, x, y)
    call.check_size(shape, np.dtype(np.object_))
    a, b = np.broadcast_to(x, shape).reshape(-1), np.broadcast_to(y, shape).reshape(-1)
    _check_length(call, sum(map(len, a)) + sum(map(len, b)))
    return strings((str(left) + str(right) for left, right in zip(a, b, strict=True)), shape)


def _check_length(call: Call, total: int) -> None:
    if total > _MAX_CHARACTERS:
        raise call.error(f"the texts must have at most {_MAX_CHARACTERS} characters, not {total}")
    call.work(total)


def _concat_shapes(call: Call, x: Known, y: Known) -> Known:
    return Known(np.dtype(np.object_), broadcast_shape(call, x, y))


def _normalize(call: Call, x: Arr) -> Arr:
    """Without stop words, in one case.  Upper and lower case are Unicode's; `locale` changes nothing."""
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise call.error(f"the input must have the shape [C] or [1, C], not {list(x.shape)}")
    action = call.text("case_change_action")
    if action not in ("LOWER", "UPPER", "NONE"):
        raise call.error(f"attribute 'case_change_action' must be LOWER, UPPER or NONE, not '{action}'")
    exact = bool(call.integer("is_case_sensitive"))
    stop = {word if exact else word.lower() for word in _attribute_strings(call, "stopwords")}
    words = [str(t) for t in x.reshape(-1) if (str(t) if exact else str(t).lower()) not in stop] or [""]
    if action != "NONE":
        words = [text.lower() if action == "LOWER" else text.upper() for text in words]
    return strings(words, (*x.shape[:-1], len(words)))


def _split(call: Call, x: Arr) -> tuple[Arr, Arr]:
    """The parts of each text along a new last axis, filled up with empty texts; and how many parts there are."""
    delimiter = call.text("delimiter", "") or None
    limit = call.integer("maxsplit") if call.has("maxsplit") else -1
    parts = [(str(text) if delimiter else str(text).strip()).split(delimiter, limit) for text in x.reshape(-1)]
    parts = [[] if p == [""] else p for p in parts]
    width = max(map(len, parts), default=0)
    call.check_size((*x.shape, width), np.dtype(np.object_))
    table = strings((part for p in parts for part in (*p, *[""] * (width - len(p)))), (*x.shape, width))
    return table, np.array([len(p) for p in parts], np.int64).reshape(x.shape)


#: A step of RE2's slowest matcher takes as long as this many multiplications (measured: 4 to 11 ns).
_STEP = 10
#: Bounds for patterns of files that cannot be trusted.  RE2 bounds its compiled program (bytes), but not the time and
#: memory in which it reads a pattern: 10 000 characters take at most 0.3 s and 150 MB.
_MAX_PATTERN, _MAX_PROGRAM = 10_000, 1 << 20


def _regex_full_match(call: Call, x: Arr) -> Arr:
    """True where the whole text matches the pattern.

    RE2 matches in time that grows with text times pattern, never exponentially, and its syntax is the one that ONNX
    names.
    """
    import re2  # here, because every command would load it, and hardly a model has this operator

    pattern = call.text("pattern")
    if len(pattern) > _MAX_PATTERN:
        raise call.error(f"attribute 'pattern' must have at most {_MAX_PATTERN} characters, not {len(pattern)}")
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, _MAX_PROGRAM
    try:
        program = re2.compile(_utf8(pattern), options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise call.error(
            f"attribute 'pattern' must be a regular expression of RE2, not '{pattern}': {reason}"
        ) from None
    texts = [_utf8(str(t)) for t in x.reshape(-1)]
    call.work(_STEP * sum(map(len, texts)) * program.programsize)
    return np.array([program.fullmatch(t) is not None for t in texts], np.bool_).reshape(x.shape)


def _utf8(text: str) -> bytes:
    """Bytes for RE2, which takes half a surrogate pair for one character, as Python does."""
    return text.encode(errors="surrogatepass")


_Ids = npt.NDArray[np.int64]


def _pool(call: Call) -> Sequence[int | str]:
    stated = [name for name in ("pool_int64s", "pool_strings") if call.has(name)]
    value = call.node.attributes[stated[0]] if len(stated) == 1 else None
    if not isinstance(value, tuple):
        raise call.error(f"the n-grams must be in one of pool_int64s and pool_strings, not in {stated or 'none'}")
    return value  # type: ignore[return-value]


def _grams(call: Call, pool: Sequence[int | str]) -> list[_Ids]:
    """Where the n-grams of length 1, 2, ... begin in the pool."""
    starts = (*call.integers("ngram_counts"), len(pool))
    grams = []
    for length, (first, last) in enumerate(itertools.pairwise(starts), start=1):
        if not 0 <= first <= last <= len(pool) or (last - first) % length:
            raise call.error(
                f"'ngram_counts' must rise in whole n-grams up to the pool's size {len(pool)}, "
                f"not be {list(starts[:-1])}", "export the model again"
            )
        grams.append(np.arange(first, last, length))
    return grams


def _width(call: Call) -> int:
    indexes = call.integers("ngram_indexes")
    if not indexes or min(indexes) < 0:
        raise call.error(f"'ngram_indexes' must be numbers of 0 or more, not {list(indexes[:8]) or 'none'}")
    return max(indexes) + 1


def _ranks(ids: _Ids, known: _Ids) -> _Ids:
    """The position of each element in the ascending `known`, -1 where it is not there."""
    if not len(known):
        return np.full(ids.shape, -1)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, at, -1)


def _matches(windows: _Ids, grams: _Ids) -> _Ids:
    """For each window [..., n] the row of `grams` [g, n] that equals it, -1 for none.  Unknown tokens are -1."""
    state = np.zeros(windows.shape[:-1], np.int64)
    gram_state = np.zeros(len(grams), np.int64)
    base = int(grams.max(initial=0)) + 1
    for column in range(grams.shape[1]):  # prefixes get numbers, so that no key outgrows 64 bits
        keys, numbered = np.unique(gram_state * base + grams[:, column], return_inverse=True)
        token = windows[..., column]
        known = (state >= 0) & (token >= 0) & (token < base)
        state = np.where(known, _ranks(np.where(known, state * base + token, -1), keys), -1)
        gram_state = numbered
    last = np.zeros(len(keys), np.int64)
    last[gram_state] = np.arange(len(grams))
    return np.where(state >= 0, last[state], -1)


def _tokens(pool: Sequence[int | str], x: Arr) -> tuple[_Ids, _Ids]:
    """The pool and the input as numbers; -1 for what is not in the pool."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(pool))}
    known = np.array([numbers[word] for word in pool], np.int64)
    if x.dtype.kind in "OU":
        return known, np.array([numbers.get(str(word), -1) for word in x.reshape(-1)], np.int64).reshape(x.shape)
    words, inverse = np.unique(x, return_inverse=True)
    of_words = np.array([numbers.get(word, -1) for word in words.tolist()], np.int64)
    return known, of_words[inverse].reshape(x.shape)


def _counts(call: Call, rows: _Ids, pool_ids: _Ids, grams: list[_Ids], total: int) -> npt.NDArray[np.int64]:
    """How often each n-gram is in each row."""
    counts = np.zeros((len(rows), total), np.int64)
    before, size = 0, rows.shape[1]
    for length, starts in enumerate(grams, start=1):
        if call.integer("min_gram_length") <= length <= call.integer("max_gram_length") and len(starts):
            table = pool_ids[starts[:, None] + np.arange(length)]
            for step in range(1, call.integer("max_skip_count") + 2 if length > 1 else 2):
                windows = size - (length - 1) * step
                if windows <= 0:
                    break
                call.work(len(rows) * windows * length)
                matches = _matches(rows[:, np.arange(windows)[:, None] + step * np.arange(length)], table)
                row, at = np.nonzero(matches >= 0)
                np.add.at(counts, (row, before + matches[row, at]), 1)
        before += len(starts)
    return counts


def _tfidf(call: Call, x: Arr) -> Arr:
    result = _tfidf_shapes(call, Known(x.dtype, x.shape))
    pool, indexes = _pool(call), np.array(call.integers("ngram_indexes"), np.int64)
    grams, mode = _grams(call, pool), call.text("mode")
    total = sum(map(len, grams))
    if total != len(indexes) or mode not in ("TF", "IDF", "TFIDF"):
        raise call.error(
            f"there must be {total} 'ngram_indexes' and 'mode' TF, IDF or TFIDF, not {len(indexes)}, '{mode}'"
        )
    rows = x.reshape(x.shape[0] if x.ndim == 2 else 1, x.shape[-1])
    call.check_size((len(rows), total), np.dtype(np.int64))
    call.check_size(result.shape, result.dtype)
    pool_ids, ids = _tokens(pool, rows)
    counts = _counts(call, ids, pool_ids, grams, total)
    values = np.minimum(counts, 1) if mode == "IDF" else counts
    y = np.zeros((len(rows), _width(call)), np.float32)
    np.add.at(y.T, indexes, (values * _weights(call, mode, total)).T)
    return y.reshape(result.shape)


def _weights(call: Call, mode: str, total: int) -> npt.NDArray[np.float32]:
    weights = np.array(call.node.attributes.get("weights", ()), np.float32)
    if mode == "TF" or not weights.size:
        return np.ones(total, np.float32)
    if weights.shape != (total,):
        raise call.error(f"there must be {total} weights, one for each n-gram, not {weights.size}")
    return weights


def _tfidf_shapes(call: Call, x: Known) -> Known:
    if x.ndim not in (1, 2):
        raise call.error(f"the input must have the shape [C] or [N, C], not {list(x.shape)}")
    return Known(np.dtype(np.float32), (*x.shape[:-1], _width(call)))


OPERATORS: Table = {
    ("", "StringConcat"): (Operator(20, _concat, _concat_shapes),),
    ("", "StringNormalizer"): (Operator(10, _normalize, None),),
    ("", "StringSplit"): (Operator(20, _split, None),),
    ("", "RegexFullMatch"): (Operator(20, _regex_full_match, as_bool),),
    ("", "TfIdfVectorizer"): (Operator(9, _tfidf, _tfidf_shapes),),
}
