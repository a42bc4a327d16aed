"""Texts for people: those of a file made harmless and short, and numbers as "12,345".

Nothing in a text of a file may move the cursor, change colours or turn the direction of writing.  Outside of UTF-8
locales Python gives each byte above 127 in the name of a file as half of a surrogate (PEP 383).
"""

from __future__ import annotations

import codecs
import re

#: A run of such bytes; between parentheses, so that `split` keeps it.
UNDECODED = re.compile("([\udc80-\udcff]+)")
#: How a stream writes what its encoding has not, as of `errors` of `open`: see `as_named`.
AS_NAMED = "hwflow.as_named"


def clean(text: str) -> str:
    """The text with what is not printable (control characters, lone surrogates, marks of direction) as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def harmless(text: str) -> str:
    """`clean`, with its lines.  The name of a file that the locale cannot express stays what it is for a stream with
    AS_NAMED: a command with it is to be typed again."""
    parts = [UNDECODED.split(line) for line in text.split("\n")]
    return "\n".join("".join(part if k % 2 and bytes_of(part) else clean(part) for k, part in enumerate(line))
                     for line in parts)


def bytes_of(run: str) -> bytes | None:
    """The bytes of a run, where they are UTF-8 of printable characters."""
    data = run.encode("ascii", "surrogateescape")
    try:
        return data if data.decode("utf-8").isprintable() else None
    except UnicodeDecodeError:
        return None


def as_named(error: UnicodeError) -> tuple[str | bytes, int]:
    """Characters that the output cannot encode: a name that came in as bytes goes out as these, the rest as escapes."""
    assert isinstance(error, UnicodeEncodeError)
    run = UNDECODED.match(error.object, error.start)
    data = bytes_of(run[0]) if run else None
    if run and data is not None:
        return data, run.end()
    error.end = error.start + 1
    return codecs.backslashreplace_errors(error)


codecs.register_error(AS_NAMED, as_named)


#: The width of a layer's name in a table of one line for each layer, in a terminal of 80 columns.
NAME_WIDTH = 28


def shortened(text: str, length: int) -> str:
    """At most `length` printable characters; what is cut out in the middle shows as an ellipsis."""
    text = clean(text if len(text) <= 4 * length else f"{text[: 2 * length]}{text[-2 * length :]}")
    if len(text) <= length:
        return text
    tail = length // 2
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


# How numbers are written: 12,345 everywhere, without a space at which a line could break.


def number(value: int) -> str:
    """12345 as "12,345"."""
    return f"{value:,}"


def decimal(value: float, digits: int = 1) -> str:
    """12345.67 as "12,345.7"."""
    return f"{value:,.{digits}f}"


def rate_text(value: float) -> str:
    """Frames a second: whole numbers from 100 on, else three digits."""
    return number(round(value)) if value >= 100 else f"{value:.3g}"


def percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"


def counted(count: int, thing: str) -> str:
    """"1 layer", "2 layers", "no layer"."""
    return f"{number(count) if count else 'no'} {thing}{'s' if count > 1 else ''}"
