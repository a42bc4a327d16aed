"""How a user wants a design placed and routed.  It imports no hardware, so a command line knows it at once."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, fields
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.options import Option, Range, Section

# Knobs of nextpnr's analytical placer, which all of its architectures have.


@dataclass(frozen=True)
class Placer:
    """Knobs of the placer that are not as nextpnr has them; None is nextpnr's own.

    `beta`: how densely it fills an area, above 0 up to 1.  `critexp`: the exponent of a connection's criticality, 1 to
    10; the higher, the more the longest paths count alone.  `timingweight`: how much time counts against the length of
    wires, 0 to 1000.  HwflowError for others.
    """

    beta: float | None = None
    critexp: int | None = None
    timingweight: int | None = None

    def __post_init__(self) -> None:
        if self.beta is not None and not (isinstance(self.beta, float) and 0 < self.beta <= 1):
            raise HwflowError(f"beta must be a number above 0 and up to 1, not {self.beta!r:.60}")
        for name, least, most in (("critexp", 1, 10), ("timingweight", 0, 1000)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and least <= value <= most):
                raise HwflowError(f"{name} must be a whole number from {least} to {most}, not {value!r:.60}")

    def arguments(self) -> list[str]:
        """nextpnr's options."""
        return [word for name, value in self.given() for word in (f"--placer-heap-{name}", f"{value:g}")]

    def given(self) -> list[tuple[str, float | int]]:
        """The knobs that are not nextpnr's own."""
        pairs = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return [(name, value) for name, value in pairs if value is not None]

    def __str__(self) -> str:
        """The text that `placer_of` reads."""
        return ",".join(f"{name}={value:g}" for name, value in self.given())


#: nextpnr's own.
AS_IT_IS = Placer()


def placer_of(text: str) -> Placer:
    """The knobs in a text like "beta=0.85,critexp=3".  HwflowError where it says anything else."""
    names = [field.name for field in fields(Placer)]
    values: dict[str, float | int] = {}
    for part in filter(None, text.split(",")):
        name, _, number = (word.strip() for word in part.partition("="))
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            guess = f"; did you mean {near[0]}?" if near else ""
            raise HwflowError(f"knobs of the placer must be among {', '.join(names)}, not {name!r:.60}{guess}")
        if name in values:
            raise HwflowError(f"{name} must be given once")
        values[name] = number_of(name, number)
    return Placer(**values)  # type: ignore[arg-type]  # which it checks by itself


def number_of(name: str, text: str) -> float | int:
    """A whole number where the knob `name` is one."""
    try:
        value = float(text) if name == "beta" else int(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        kind = "number" if name == "beta" else "whole number"
        raise HwflowError(f"{name} must be a {kind}, not {text!r:.60}")
    return value


#: The clock that is the board's oscillator, in place of MHz.
ON_BOARD = "board"
#: The highest clock that --clock accepts; no FPGA of hwflow is faster.
MOST_MHZ = 1000.0
#: Seeds are 32 bits wide; the second is a sensible limit on their number.
LAST_SEED, MOST_SEEDS = 2**32 - 1, 1000


def clock_of(text: str) -> float | str:
    """`board` as it is, or MHz above 0.  ValueError for anything else."""
    if text == ON_BOARD:
        return text
    try:
        mhz = float(text)
    except ValueError:
        mhz = 0.0
    if not 0 < mhz < MOST_MHZ:
        raise ValueError(f"{text!r} must be MHz from 0 to {MOST_MHZ:g}, or {ON_BOARD}")
    return mhz


def knobs(text: str) -> Placer:
    """`beta=0.85,critexp=3` as the knobs of the placer.  ValueError for anything else."""
    try:
        return placer_of(text)
    except HwflowError as error:
        raise ValueError(error.why) from None


CLOCK = Option(
    "The core's clock, made by a PLL; default: the highest that the routed design allows.  \"board\": the clock of the "
    "board's oscillator, without a PLL.", Section.BOARD, "MHZ", parse=clock_of)


@dataclass(frozen=True)
class SynthesisOptions:
    """How a design is placed and routed; `synthesize` says what each means."""

    seed: Annotated[int, Option(
        "Seed of place and route.", Section.ROUTING, parse=Range(0, LAST_SEED - MOST_SEEDS))] = 1
    seeds: Annotated[int, Option(
        "Place and route with this many seeds, from --seed on, and keep the fastest result.", Section.ROUTING,
        parse=Range(1, MOST_SEEDS))] = 1
    route: Annotated[int | None, Option(
        "Of the seeds, route only the N whose placements look fastest; default: all.", Section.ROUTING, "N",
        parse=Range(1, MOST_SEEDS), needs="seeds")] = None
    jobs: Annotated[int | None, Option(
        "How many seeds to route at a time; default: as cores and free memory allow (2 GB each).", Section.ROUTING,
        parse=Range(1))] = None
    clock: Annotated[float | str | None, CLOCK] = None
    placer: Annotated[Placer, Option(
        "Knobs of nextpnr's placer: beta, critexp, timingweight (docs/synthesis.md).", Section.ROUTING,
        "NAME=NUMBER,...", parse=knobs)] = AS_IT_IS
