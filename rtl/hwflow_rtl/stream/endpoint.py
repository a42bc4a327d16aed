"""The ends of the links of a core."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Endpoint:
    """An output of a stage or one of its inputs; of the core itself, an input (as a source) or an output; or a state,
    which as a source gives in each frame what it took as a sink in the frame before.

    `Endpoint.stage(2)` is stage 2, as a source its first output, `Endpoint.stage(2, 1)` its second one;
    `Endpoint.core(0)` is the first input or output of the core, `Endpoint.state(0)` its first state.
    """

    of_stage: bool
    number: int
    output: int = 0
    of_state: bool = False

    @property
    def of_core(self) -> bool:
        """Whether it is an input or an output of the core."""
        return not (self.of_stage or self.of_state)

    @classmethod
    def stage(cls, number: int, output: int = 0) -> Endpoint:
        return cls(True, number, output)

    @classmethod
    def core(cls, number: int) -> Endpoint:
        return cls(False, number)

    @classmethod
    def state(cls, number: int) -> Endpoint:
        return cls(False, number, of_state=True)
