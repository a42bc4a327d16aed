"""What a user is told when no plan fits: what is short, which stages need most of it, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hwflow_base.errors import AnswerIsNo

from .budget import RESOURCE_NAMES
from .choices import Choice

if TYPE_CHECKING:
    from .solver import Solver

#: Stages that are named because they need the most.
MOST = 3
#: What would help, whatever is short.
HELP = "Fewer channels or layers, fewer bits, or a larger board would help (`hwflow boards` lists them)"
#: Of the clock for which a bandwidth is said.
EXAMPLE_MHZ = 100


class DoesNotFit(AnswerIsNo):
    """No plan fits.  `outside_helps`: it would with so many bytes of weights in a memory outside of the FPGA, which the
    board lacks or which is too small; else 0.
    `lacking`: the resources that are short, and how many are needed.  `facts`: the message without what would help.
    """

    outside_helps = 0
    lacking = ""
    facts = ""

    @classmethod
    def of(cls, facts: str, *, lacking: str, outside_helps: int) -> DoesNotFit:
        """The error for `facts`, sentences that end with a space."""
        error = cls(f"{facts}{HELP}")
        error.facts, error.lacking, error.outside_helps = facts, lacking, outside_helps
        return error

    def beside(self, facts: str) -> DoesNotFit:
        """The same error, where something else does not fit either."""
        return DoesNotFit.of(f"{self.facts}{facts}. ", lacking=self.lacking, outside_helps=self.outside_helps)


def does_not_fit(solver: Solver, picked: Sequence[Choice], *, even: str = "") -> DoesNotFit:
    """The error for the design `picked`: which resources are exceeded, by how much, and the remedy."""
    total, budget, names = solver.total(picked), solver.budget, [stage.name for stage in solver.stages]
    costs = [solver.cost(k, choice.folding) for k, choice in enumerate(picked)]
    parts, short = [], []
    for field, name in RESOURCE_NAMES.items():
        need, have = getattr(total, field), budget.limit(field)
        if need > have:
            order = sorted(range(len(costs)), key=lambda k: -getattr(costs[k], field))[:MOST]
            most = ", ".join(f"{names[k]} {getattr(costs[k], field):,}" for k in order)
            parts.append(f"{need:,} {name} needed, {have:,} usable (most in {most})")
            short.append(f"{need:,} {name} of {have:,}")
    outside, helps = weights_outside(solver, picked, total.ram - budget.limit("ram"))
    lacking = f"'{solver.graph.name}' does not fit {budget.name}, {even}{'; '.join(parts)}"
    said = " and ".join(filter(None, (", ".join(short[:-1]), short[-1])))
    return DoesNotFit.of(f"{lacking}. {outside}", lacking=said,
                         outside_helps=0 if solver.outside and solver.outside.bytes >= helps else helps)


def weights_outside(solver: Solver, picked: Sequence[Choice], excess: int) -> tuple[str, int]:
    """Which weights would have to leave the RAM blocks, and the bandwidth for it; their bytes if that would be enough
    blocks, else 0.

    "" where RAM blocks are not short, or no weights can leave.
    """
    if excess <= 0:
        return "", 0
    pace = max(choice.schedule.interval for choice in picked)
    weights = dict.fromkeys(RESOURCE_NAMES, 1.0)
    moved = sorted(solver.moved_outside(pace, picked, frozenset(), excess, weights))
    rest = solver.pick(pace, weights, frozenset(moved)) if moved else None
    if rest is None:
        return "", 0
    streams = [solver.stages[k].weight_stream(rest[k].folding) for k in moved]
    size = sum(-(-stream.bits // 8) for stream in streams if stream is not None)
    names = ", ".join(solver.stages[k].name for k in moved[:MOST])
    more = f" and {len(moved) - MOST} more stages" if len(moved) > MOST else ""
    left = solver.total(solver.styled(rest)).ram
    enough = left <= solver.budget.limit("ram")
    verdict = "the RAM blocks suffice" if enough else f"{left:,} block RAMs are still needed"
    rate, memory = size / pace * EXAMPLE_MHZ, solver.outside
    few = "" if memory is None or size <= memory.bytes else (
        f", and {memory.part.name} has {memory.bytes:,}, {size - memory.bytes:,} fewer")
    return (f"With the weights of {names}{more} in a memory outside of the FPGA {verdict}: {size:,} bytes a frame, "
            f"{rate:.3g} MB/s at {EXAMPLE_MHZ} MHz{few}. "), size if enough else 0
