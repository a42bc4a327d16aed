"""Streams between units: signatures, and `link()`, which connects two.

In every unit of this package `ready` at the input and `valid` at the output come from registers, so that a chain of
units has no combinational path from its end to its start.
"""

from __future__ import annotations

from amaranth.hdl import Module, Shape, ShapeLike, Value, unsigned
from amaranth.lib import data, stream, wiring

#: What lines, packets and memories with weights give and take.
BYTE = unsigned(8)


def stream_of(shape: ShapeLike, lanes: int) -> stream.Signature:
    """The signature of a stream whose beats hold `lanes` elements of `shape`, lane 0 first."""
    return stream.Signature(data.ArrayLayout(shape, lanes))


def payload_of(port) -> ShapeLike:
    """The shape of a stream port's payload."""
    return port.signature.members["payload"].shape


def lanes_of(port) -> int:
    """The lanes of a stream port made with `stream_of()`."""
    return payload_of(port).length


def link(m: Module, source, sink, *, names: tuple[str, str] | None = None) -> None:
    """Connect the stream `source` to the stream `sink`, whose payloads must be of the same shape.

    `wiring.connect` compares only widths: it connects signed(8) to unsigned(8) without an error.  `names` are the names
    of the two streams in the message of the `wiring.ConnectionError`; the default is the names of their signals.
    """
    ours, theirs = payload_of(source), payload_of(sink)
    if not same_shape(ours, theirs):
        first, second = names or (signal_name(source), signal_name(sink))
        raise wiring.ConnectionError(
            f"payload of stream '{second}' must be of the shape of '{first}' which feeds it, {ours!r}, not {theirs!r}; "
            f"convert the elements, or put a Gearbox between them if only the lanes differ")
    wiring.connect(m, source, sink)


def bytes_of(shape: ShapeLike) -> int:
    """Bytes of one element on a line: as many as its bits need, at least one."""
    return max(1, -(-Shape.cast(shape).width // 8))


def same_shape(a: ShapeLike, b: ShapeLike) -> bool:
    if isinstance(a, data.Layout) or isinstance(b, data.Layout):
        return a == b
    return Shape.cast(a) == Shape.cast(b)


def signal_name(port) -> str:
    value = Value.cast(port.payload)
    return getattr(value, "name", repr(value)).removesuffix("__payload")
