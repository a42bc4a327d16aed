"""The ends of the links of a core."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Endpoint:
    """An output of a stage or one of its inputs; or, of the core itself, an input (as a source) or an output.

    `Endpoint.stage(2)` is stage 2, as a source its first output, `Endpoint.stage(2, 1)` its second one;
    `Endpoint.core(0)` is the first input or output of the core.
    """

    of_stage: bool
    number: int
    output: int = 0

    @classmethod
    def stage(cls, number: int, output: int = 0) -> Endpoint:
        return cls(True, number, output)

    @classmethod
    def core(cls, number: int) -> Endpoint:
        return cls(False, number)
