"""The foldings that a stage can have, in arrays, because the solver often asks which of them are fast enough."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hwflow_rtl.memory import WeightImage
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Technology

from hwflow.stages.folding import Folding, Schedule
from hwflow.stages.stage import Stage

#: The cheapest folding never has more multipliers than this factor times the fewest that are fast enough.
SPARE_MULTIPLIERS = 1.25
#: The solver prices so many foldings, those with the fewest multipliers; their other costs differ little.
MOST = 16


@dataclass(frozen=True)
class Choice:
    """One folding of one stage."""

    folding: Folding
    schedule: Schedule


def choices_of(stages: Sequence[Stage], technology: Technology, *, word: int | None = None,
               known: dict[tuple[Hashable, int | None], Choices] | None = None) -> list[Choices]:
    """The choices of each stage; those that are alike have theirs in common, also with `known`, to which new ones are
    added."""
    choices = {} if known is None else known
    for stage in stages:
        if (stage.likeness, word) not in choices:
            choices[stage.likeness, word] = Choices(stage, technology, word=word)
    return [choices[stage.likeness, word] for stage in stages]


def arrives_in_words(stage: Stage, folding: Folding, word: int) -> bool:
    """The stream of weights that the stage has with `folding` can be cut from words of `word` bits."""
    stream = stage.weight_stream(folding)
    return stream is not None and WeightImage.possible(stream, word)


class Choices:
    """All foldings of a stage, the fewest multipliers first, then the fewest lanes.

    Foldings that differ only in style are one choice; `styles` gives the styles of a choice.  Those that `technology`
    offers need the same cycles.
    With `word`, those whose weights come from a memory outside that has words of so many bits, as fast as the stage
    takes them; there may be none.  With `only`, this one alone, with its own schedule.
    """

    def __init__(self, stage: Stage, technology: Technology, *, word: int | None = None, only: Choice | None = None):
        self.same: dict[Folding, list[MultiplierStyle]] = {}
        for folding in stage.foldings() if only is None else ():
            plain = replace(folding, style=MultiplierStyle.BLOCKS)
            if word is not None:
                streamed = (replace(plain, weight_rows=rows) for rows in stage.weight_rows(folding))
                first = next((streaming for streaming in streamed if arrives_in_words(stage, streaming, word)), None)
                if first is None:
                    continue
                plain = first
            self.same.setdefault(plain, []).append(folding.style)
        if only is not None:
            self.same[only.folding] = [only.folding.style]
        foldings = sorted(self.same, key=lambda f: (f.rows * f.cols, f.rows, f.lanes))
        offered = stage.styles(technology)
        self.choices = [Choice(folding, stage.schedule(self.as_offered(folding, offered), technology))
                        if only is None else only for folding in foldings]
        self.shapes = np.array([(f.rows, f.cols) for f in foldings], dtype=np.int64).reshape(-1, 2)
        self.sizes = self.shapes.prod(axis=1)
        tensors = stage.graph.tensors
        produced = np.array([tensors[name].frame.elements for name in stage.outputs], np.int64)
        leaving = np.array([stage.lanes_out(folding) for folding in foldings], np.int64).reshape(-1, len(produced))
        self.stage_intervals = np.array([choice.schedule.interval for choice in self.choices], dtype=np.int64)
        self.intervals = np.maximum(self.stage_intervals, (produced // leaving).max(axis=1))
        self.entering = np.array([choice.schedule.lanes_in for choice in self.choices], dtype=np.int64)
        self.entering = self.entering.reshape(len(foldings), len(stage.inputs))
        self.elements = [tensors[name].frame.elements for name in stage.inputs]

    def as_offered(self, folding: Folding, offered: Sequence[MultiplierStyle]) -> Folding:
        """In a style that the technology offers, if there is one: recurrent layers have the cycles of a style."""
        return replace(folding, style=next((style for style in self.same[folding] if style in offered), folding.style))

    def styles(self, choice: Choice) -> list[MultiplierStyle]:
        return self.same[choice.folding]

    def fast_enough(self, target: int, coming: Sequence[int | None]) -> list[Choice]:
        """The smallest foldings with an interval of at most `target` cycles.

        Of foldings that differ only in lanes, it gives the one with the fewest.  `coming` has for each input the lanes
        of its source; None means that the source gives as many lanes as the stage takes.
        """
        fast = self.intervals <= target
        for port, (elements, lanes) in enumerate(zip(self.elements, coming, strict=True)):
            taken = self.entering[:, port]
            fast &= elements // (taken if lanes is None else np.minimum(taken, lanes)) <= target
        places = np.flatnonzero(fast)
        if not len(places):
            return []
        places = places[self.sizes[places] <= SPARE_MULTIPLIERS * self.sizes[places[0]]]
        others = (self.shapes[places[1:]] != self.shapes[places[:-1]]).any(axis=1)  # those of a shape follow each other
        return [self.choices[k] for k in places[np.append(True, others)][:MOST]]
