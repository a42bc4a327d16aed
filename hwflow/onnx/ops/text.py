"""Operators on texts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.shapes import broadcast_shape

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
    kept = [str(t) for t in x.reshape(-1) if (str(t) if exact else str(t).lower()) not in stop] or [""]
    if action != "NONE":
        kept = [text.lower() if action == "LOWER" else text.upper() for text in kept]
    return strings(kept, (*x.shape[:-1], len(kept)))


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


def _as_bool(call: Call, x: Known) -> Known:
    return Known(np.dtype(np.bool_), x.shape)


OPERATORS: Table = {
    ("", "StringConcat"): (Operator(20, _concat, _concat_shapes),),
    ("", "StringNormalizer"): (Operator(10, _normalize, None),),
    ("", "StringSplit"): (Operator(20, _split, None),),
    ("", "RegexFullMatch"): (Operator(20, _regex_full_match, _as_bool),),
}
