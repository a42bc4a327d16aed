"""Which design is on a board: eight bytes of an integer graph and a plan, held in a ROM and told to the host."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from ..hls.plan import Plan
from ..layers.base import LayerGraph

__all__ = ["IDENTITY_BYTES", "identity"]

#: Length of an identity (docs/host-link.md).
IDENTITY_BYTES = 8


def identity(graph: LayerGraph, plan: Plan) -> bytes:
    """The first 8 bytes of SHA-256 over all of `graph` (formats, scales, zero points, weights, constants) and over the
    foldings of `plan`.

    The same in every process and on every machine.  Not over what the foldings decide (cycles, resources): a better
    estimate makes no other design.
    """
    total = hashlib.sha256()
    for part in _parts((graph, tuple(stage.folding for stage in plan.stages))):
        total.update(part)
    return total.digest()[:IDENTITY_BYTES]


def _parts(value: object) -> Iterator[bytes]:
    """`value` as bytes that no other value has: every part says its type and its length."""
    if isinstance(value, np.ndarray):
        little = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        yield f"array {little.dtype.str} {little.shape};".encode()
        yield little.tobytes()
    elif isinstance(value, enum.Enum):
        yield from _parts((type(value).__name__, value.value))
    elif is_dataclass(value):
        yield from _parts((type(value).__name__, tuple((f.name, getattr(value, f.name)) for f in fields(value))))
    elif isinstance(value, Mapping):
        yield from _parts(("mapping", tuple(sorted(value.items()))))  # tensors have no order
    elif isinstance(value, tuple | list):
        yield f"list {len(value)};".encode()
        for item in value:
            yield from _parts(item)
    else:
        yield _plain(value)


def _plain(value: object) -> bytes:
    """A value without parts; raises TypeError for one whose text might differ between processes."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is not None and type(value) not in (bool, int, float, str):
        raise TypeError(f"a value of an identity must be plain data, not {type(value).__name__}")
    text = value.hex() if isinstance(value, float) else str(value)
    return f"{type(value).__name__} {len(text.encode())} {text};".encode()
