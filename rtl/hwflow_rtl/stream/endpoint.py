"""The ends of the links of a core."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Endpoint"]


@dataclass(frozen=True, order=True)
class Endpoint:
    """The output of a stage or one of its inputs; or, of the core itself, an input (as a source) or an output.

    `Endpoint.stage(2)` is stage 2, `Endpoint.core(0)` the first input or output of the core.
    """

    of_stage: bool
    number: int

    @classmethod
    def stage(cls, number: int) -> Endpoint:
        return cls(True, number)

    @classmethod
    def core(cls, number: int) -> Endpoint:
        return cls(False, number)
