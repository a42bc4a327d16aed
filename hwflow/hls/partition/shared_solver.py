"""A whole graph as one shared stage: the array, rescaler and memories that a board has room for.

Everything that may be chosen is tried: there are few possibilities, and the steps of a program depend only on the size
of the array and of the weights' buffer.  A cost is cheap, playing the program is not, so only what fits and promises
the fewest cycles is played.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.shared.frame_memory import FrameMemoryShape
from hwflow_rtl.shared.steps import ELEMENT_BITS
from hwflow_rtl.vendor import Resources, Technology

from hwflow.hls.foldings.budget import RESOURCE_NAMES, Budget, Target
from hwflow.hls.partition.candidates import Candidate, Candidates
from hwflow.hls.plan.outside_memory import OutsideMemory, outside_cost, streams_of
from hwflow.hls.plan.plan import Plan, make_plan
from hwflow.hls.schedule.links import links_cost, links_of, spram_around
from hwflow.hls.shared.compile import shared_problems
from hwflow.hls.shared.stage import SharedStage
from hwflow.hls.shared.views import views_of
from hwflow.layers.base import LayerGraph
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import each_once, tensor_problems
from hwflow.stages.partition import SHARED, Group, Partition, kept_states

#: Elements of a word: the least array, whose words leave the fewest lanes without a channel.
COLUMNS = 2
#: Layers that are named, those with the largest frames.
MOST = 3


def frames_problem(graph: LayerGraph, technology: Technology, budget: Budget) -> str | None:
    """None where a tensor that a layer reads and the one that it writes fit the memory of the device; else which layers
    have too many bytes, and the largest frame memory that there can be.

    Both are whole in the frame memory while the layer is computed.
    """
    pairs = sorted(together(graph), reverse=True)
    large = [pair for pair in pairs if not fits(pair[0], technology, budget)]
    if not large:
        return None
    room = most_bytes(pairs[0][0], technology, budget)
    named = "; ".join(f"layer '{layer}' reads {read:,} and writes {written:,} bytes"
                      for _, layer, read, written in large[:MOST])
    more = f"; and {len(large) - MOST} more" if len(large) > MOST else ""
    return (f"what a layer reads and writes must be in the frame memory together, for which {budget.name} has "
            f"{room:,} bytes at most: {named}{more}; use a smaller input, fewer channels, or a board with more memory")


def together(graph: LayerGraph) -> Iterator[tuple[int, str, int, int]]:
    """For each layer the bytes of its largest input and of its output: both, its name, each."""
    sizes = {name: tensor.frame.elements for name, tensor in graph.tensors.items()}
    views = views_of(graph, graph.layers, graph.inputs, graph.outputs, kept_states(graph, graph.layers)).views
    for layer in (layer for layer in graph.layers if layer.output not in views):
        read, written = max(sizes[name] for name in layer.inputs), sizes[layer.output]
        yield read + written, layer.name, read, written


def fits(size: int, technology: Technology, budget: Budget) -> bool:
    """Whether the device has a frame memory of so many bytes, where nothing else takes memory."""
    for single_port in (False, True) if technology.single_port_rams else (False,):
        memory = FrameMemoryShape(width=COLUMNS * ELEMENT_BITS, words=-(-size // COLUMNS), single_port=single_port,
                                  banks=1)
        cost = memory.cost(technology)
        if cost.ram <= budget.available.ram and cost.spram <= budget.available.spram:
            return True
    return False


def most_bytes(size: int, technology: Technology, budget: Budget) -> int:
    """The most bytes that fit, of fewer than `size`."""
    low, high = 0, size
    while high - low > COLUMNS:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle, technology, budget) else (low, middle)
    return low


#: Weights are outside of the FPGA, though ROMs fit, where frames are so many times as fast.
WORTH = 1.25
#: Candidates of each size that are played: the most promising ones.
PLAYED = 6


def shared_refusal(graph: LayerGraph) -> str | None:
    """Why no shared stage can compute all of `graph`; None where one can."""
    problems = [*each_once(shared_problems(graph, graph.layers)), *tensor_problems(graph)]
    return "; ".join(problems) or None


def whole(graph: LayerGraph) -> Group:
    """All layers in one shared stage."""
    return Group(f"{SHARED}0", tuple(range(len(graph.layers))))


def solve_shared(graph: LayerGraph, target: Target, *, interval: int | None = None, why: str = "",
                 search: Search | None = None) -> Plan:
    """The fastest plan of one shared stage for `target`; with `interval`, the cheapest that is at least that fast.

    Weights are in ROMs, or in the memory outside where blocks do not suffice or a much larger array fits then.
    Frames are in RAM blocks or, where the device has some, in SPRAM.  `search` is one for the same graph and target, of
    another interval: it keeps what does not depend on the interval.  AnswerIsNo if no plan fits, or a layer is not for
    a shared stage.
    """
    technology, budget, outside = target.technology, target.budget, target.outside
    refused = shared_refusal(graph)
    if refused:
        raise AnswerIsNo(f"'{graph.name}' cannot be one shared stage: {refused}")
    if technology.operand_bits < ELEMENT_BITS:
        raise AnswerIsNo(f"'{graph.name}' cannot be one shared stage on {budget.name}, which has no multipliers")
    too_large = frames_problem(graph, technology, budget)
    if too_large:
        raise AnswerIsNo(f"'{graph.name}' as one shared stage does not fit {budget.name}: {too_large}")
    search = Search(graph, target) if search is None else search
    search.fastest = None
    best = search.best(None, interval)
    if outside is not None and (best is None or interval is None):
        streamed = search.best(outside, interval)
        if best is None or (streamed is not None and streamed.cycles * WORTH < best.cycles):
            best = streamed
    if best is None:
        raise search.refusal(interval)
    partition = Partition((best.stage.sizes,))
    return replace(make_plan(graph, [best.folding], technology, {}, outside, partition), why=why)


@dataclass(frozen=True)
class Found:
    """A stage that fits, and the cycles from frame to frame."""

    stage: SharedStage
    folding: Folding
    cycles: int


class Search:
    """The candidates for one graph and device."""

    def __init__(self, graph: LayerGraph, target: Target):
        self.graph = graph
        self.technology = technology = target.technology
        usable = max(target.budget.usable_logic, technology.usable_logic_shared)
        self.budget = replace(target.budget, usable_logic=usable)
        self.candidates = Candidates(graph, whole(graph), technology)
        self.played: dict[Candidate, int] = {}
        self.priced: dict[OutsideMemory | None, list[tuple[float, Candidate]]] = {}
        #: What was tried, for the refusal: the one that exceeds the budget least, and the fewest cycles of those that
        #: fit.
        self.nearest: tuple[float, Folding, Resources] | None = None
        self.fastest: int | None = None

    def best(self, memory: OutsideMemory | None, interval: int | None) -> Found | None:
        """The fastest candidate with its weights in `memory`, or (None) in ROMs; with `interval` the cheapest one that
        is as fast; None where none fits."""
        if interval is None:
            sizes = [self.fitting(*size, memory) for size in self.candidates.arrays(self.budget)]
            played = [(self.cycles(one), price, one) for size in sizes for price, one in islice(size, PLAYED)]
            best = min(played, key=lambda entry: entry[:2], default=None)
            return None if best is None else Found(best[-1].stage, best[-1].folding, best[0])
        for _, candidate in self.by_price(memory):
            cycles = candidate.least if candidate.least > interval else self.cycles(candidate)
            if cycles <= interval:
                return Found(candidate.stage, candidate.folding, cycles)
            self.fastest = cycles if self.fastest is None else min(self.fastest, cycles)
        return None

    def by_price(self, memory: OutsideMemory | None) -> list[tuple[float, Candidate]]:
        """All candidates that fit, with their prices, the cheapest first; no interval changes them."""
        if memory not in self.priced:
            sizes = [self.fitting(*size, memory) for size in self.candidates.arrays(self.budget)]
            self.priced[memory] = sorted((entry for size in sizes for entry in size), key=lambda entry: entry[0])
        return self.priced[memory]

    def fitting(self, rows: int, columns: int, memory: OutsideMemory | None) -> Iterator[tuple[float, Candidate]]:
        """The candidates with an array of this size that fit, with their price, the most promising first."""
        for one in sorted(self.candidates.of_size(columns, memory, rows), key=lambda one: one.promised):
            cost = self.cost(one, memory)
            if self.fits(one, cost):
                yield self.budget.price(cost), one

    def cycles(self, candidate: Candidate) -> int:
        """From frame to frame."""
        if candidate not in self.played:
            self.played[candidate] = candidate.stage.schedule(candidate.folding, self.technology).interval
        return self.played[candidate]

    def cost(self, candidate: Candidate, memory: OutsideMemory | None) -> Resources:
        """The cost of the whole design; `spram` with that of the queues around the core."""
        stage, folding = candidate.stage, candidate.folding
        links = links_of(self.graph, [stage], [(folding, stage.lanes_in(folding))])
        streams = streams_of([stage], [folding])
        total = (stage.cost(folding, self.technology) + links_cost(links, self.technology)
                 + outside_cost(memory, streams, self.technology))
        around = spram_around(links, self.technology) if self.technology.single_port_rams else 0
        placed = self.technology.placed(total)
        return replace(placed, spram=placed.spram + around)

    def fits(self, candidate: Candidate, cost: Resources) -> bool:
        """Remembers the one that exceeds the budget least."""
        exceeded = self.budget.exceeded(cost)
        if not exceeded:
            return True
        excess = max(getattr(cost, kind) / max(1, self.budget.limit(kind)) for kind in exceeded)
        if self.nearest is None or excess < self.nearest[0]:
            self.nearest = excess, candidate.folding, cost
        return False

    def refusal(self, interval: int | None) -> AnswerIsNo:
        name = f"'{self.graph.name}' as one shared stage"
        if self.fastest is not None:
            return AnswerIsNo(f"{name} takes at least {self.fastest} cycles a frame on {self.budget.name}, more than "
                              f"the interval of {interval}")
        if self.nearest is None:
            problem = self.candidates.problem
            assert problem is not None, "a candidate fits, exceeds the budget, or cannot be made"
            return AnswerIsNo(f"{name} cannot be on {self.budget.name}: {problem}")
        _, folding, cost = self.nearest
        short = [f"{getattr(cost, kind):,} {what} needed, {self.budget.limit(kind):,} usable"
                 for kind, what in RESOURCE_NAMES.items() if getattr(cost, kind) > self.budget.limit(kind)]
        size = f"{folding.rows} x {folding.cols}"
        short += [str(self.candidates.crowded[1])] if self.candidates.crowded else []
        return AnswerIsNo(f"{name} does not fit {self.budget.name}: with an array of {size}, {'; '.join(short)}")
