"""How many bits each knob can have, found by trying: what refuses a width is a part of a model that cannot be known.

The most bits for all activations are tried first.  Where the model is refused then, halves of the knobs are tried, down
to those that are the reason; what was accepted stays, so all that is found is accepted together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hwflow.quantize.settings import MOST_ACTIVATION_BITS
from hwflow.search.widths.knobs import Bits, Knob, KnobKind

#: The widths of activations that are tried, the most first.
LEVELS = (MOST_ACTIVATION_BITS, 14, 12, 10)

#: Why a design with these widths cannot be made; empty where it can.
Refusal = Callable[[Bits], str]


@dataclass(frozen=True)
class Held:
    """A knob that can have no more than so many `bits`, and why."""

    knob: Knob
    bits: int
    why: str

    def __str__(self) -> str:
        return f"'{self.knob.name}' has {self.bits} bits at most: {self.why}"


def widest(knobs: Sequence[Knob], refusal: Refusal, levels: Sequence[int] = LEVELS) -> tuple[Bits, tuple[Held, ...]]:
    """The most bits that all `knobs` can have together, and those that are held below the first of `levels`.

    Weights keep their widths.  `knobs` as they are make a design that is not refused.
    """
    bits = [knob.widths[0] for knob in knobs]
    left = [k for k, knob in enumerate(knobs) if knob.kind is not KnobKind.WEIGHTS]
    reasons: dict[int, str] = {}
    for level in levels:
        _raise_to(level, bits, [k for k in left if bits[k] < level], refusal, reasons)
        left = [k for k in left if bits[k] < level]
    return tuple(bits), tuple(Held(knobs[k], bits[k], why) for k, why in sorted(reasons.items()))


def _raise_to(level: int, bits: list[int], group: Sequence[int], refusal: Refusal, reasons: dict[int, str]) -> None:
    """Give `level` bits to those of the `group` that accept them, and note the first reason of each other one."""
    if not group:
        return
    tried = list(bits)
    for k in group:
        tried[k] = level
    why = refusal(tuple(tried))
    if not why:
        bits[:] = tried
    elif len(group) == 1:
        reasons.setdefault(group[0], why)
    else:
        half = len(group) // 2
        _raise_to(level, bits, group[:half], refusal, reasons)
        _raise_to(level, bits, group[half:], refusal, reasons)
