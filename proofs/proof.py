"""`Proof`: what is proved of a unit, and how; `prove` decides it and says what was seen."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hwflow_base.errors import ToolFailed

from .methods import Answer, Method, Verdict, not_reached
from .model import make_model
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

    def decide(self, folder: Path, programs: Programs, clock: Clock) -> Answer:
        model = make_model(self.scene(), folder, programs)
        answer = self.method.decide(model, programs, clock)
        if not answer.verdict.good:
            return answer
        missing = not_reached(model, programs, clock, self.within)
        return Answer(Verdict.VACUOUS, f"not reached in {self.within} cycles", missing) if missing else answer


class Provable(Protocol):
    """What can be decided, with its files in a folder."""

    @property
    def unit(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def claim(self) -> str: ...

    def decide(self, folder: Path, programs: Programs, clock: Clock) -> Answer: ...


@dataclass(frozen=True)
class Outcome:
    """What came of a proof, and its seconds."""

    proof: Provable
    answer: Answer
    seconds: float


def prove(proof: Provable, folder: Path, programs: Programs, seconds: float = SECONDS) -> Outcome:
    """Decide a proof; its files are in a folder of their own in `folder`."""
    started, clock = time.monotonic(), Clock(seconds)
    place = folder / re.sub(r"\W+", "_", proof.name).strip("_")
    shutil.rmtree(place, ignore_errors=True)
    try:
        answer = proof.decide(place, programs, clock)
    except OutOfTime:
        answer = Answer(Verdict.UNKNOWN, f"after {seconds:g} s")
    except ToolFailed as error:
        answer = Answer(Verdict.FAILED, str(error))
    return Outcome(proof, answer, time.monotonic() - started)
