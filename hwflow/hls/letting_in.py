"""The stages before those that let frames in only at times: how fast a frame can come from them."""

from __future__ import annotations

from collections.abc import Sequence, Set

from hwflow_rtl.vendor import Technology

from hwflow.stages.folding import Folding
from hwflow.stages.stage import Stage

from .links import LinkPlan


def cycles_before(stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan],
                  letting_in: Set[int], technology: Technology) -> int:
    """The fewest cycles in which all stages and links before the stages `letting_in` take a frame."""
    sources: dict[int, list[int]] = {position: [] for position in range(len(stages))}
    for link in links:
        if link.sink.of_stage and link.source.of_stage:
            sources[link.sink.number].append(link.source.number)
    before: set[int] = set()
    for position in range(len(stages)):  # a stage comes after those that it reads
        if position not in letting_in and before.issuperset(sources[position]):
            before.add(position)
    cycles = [stages[k].schedule(foldings[k], technology).interval for k in before]
    cycles += [link.cycles for link in links if link.sink.of_stage
               and (not link.source.of_stage or link.source.number in before)]
    return max(cycles)
