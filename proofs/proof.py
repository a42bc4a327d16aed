"""`Proof`: what is proved of a unit, and how; `prove` decides it and says what was seen."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .methods import Answer, Method, Verdict, not_reached
from .model import Model, make_model
from .programs import Clock, OutOfTime, Programs
from .scene import Scene

#: Seconds of a proof where nothing else is said, many times what each takes.
SECONDS = 300


@dataclass(frozen=True)
class Proof:
    """A claim about a unit of the gateware.

    Attributes
    ----------
    unit, case
        The unit, and its sizes.
    claim
        What is claimed, in words.
    scene
        Makes the unit, its environment and the claims anew.
    method
        How it is decided.
    within
        Cycles in which everything that the scene says must be possible has happened once.
    """

    unit: str
    case: str
    claim: str
    scene: Callable[[], Scene]
    method: Method
    within: int = 20

    @property
    def name(self) -> str:
        return f"{self.unit}: {self.case}"


@dataclass(frozen=True)
class Outcome:
    """What came of a proof, and its seconds."""

    proof: Proof
    answer: Answer
    seconds: float


def prove(proof: Proof, folder: Path, programs: Programs, seconds: float = SECONDS) -> Outcome:
    """Decide a proof; its files are in a folder of their own in `folder`."""
    started, clock = time.monotonic(), Clock(seconds)
    place = folder / re.sub(r"\W+", "_", proof.name).strip("_")
    shutil.rmtree(place, ignore_errors=True)
    try:
        model = make_model(proof.scene(), place, programs)
        answer = proof.method.decide(model, programs, clock)
        if answer.verdict.good:
            answer = not_vacuous(answer, proof, model, programs, clock)
    except OutOfTime:
        answer = Answer(Verdict.UNKNOWN, f"after {seconds:g} s")
    return Outcome(proof, answer, time.monotonic() - started)


def not_vacuous(answer: Answer, proof: Proof, model: Model, programs: Programs, clock: Clock) -> Answer:
    """The answer, if all that the scene says must be possible is so within `proof.within` cycles."""
    missing = not_reached(model, programs, clock, proof.within)
    return Answer(Verdict.VACUOUS, f"not reached in {proof.within} cycles", missing) if missing else answer
