"""Which layers of a graph compute together: the data that says which stages a design has."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hwflow_base.errors import HwflowError

from hwflow.layers.base import Layer, LayerGraph, State
from hwflow.stages.kept_rows import KeptRows, kept_rows

#: Names of shared stages begin so; a number follows.
SHARED = "shared"


class Execution(enum.Enum):
    """How a design computes its layers: each in a stage of its own, one after another in a shared stage, or as it fits.
    """

    AUTO = "auto"
    DATAFLOW = "dataflow"
    SHARED = "shared"


@dataclass(frozen=True)
class Group:
    """The layers of a stage by their positions in the graph, ascending.

    `name` is that of a shared stage, None for a layer that has a stage of its own, alone or with those that only move
    the state that its window keeps (`kept_rows`).  Such a stage is called as the layer.
    """

    name: str | None
    layers: tuple[int, ...]

    def layer(self, graph: LayerGraph) -> int:
        """The position of the layer that has the stage for its own."""
        made = self.outputs(graph)
        return next((k for k in self.layers if graph.layers[k].output in made), self.layers[0])

    def inputs(self, graph: LayerGraph) -> tuple[str, ...]:
        """The tensors that enter the stage: for a layer of its own its inputs, else each once, as they are read."""
        if len(self.layers) == 1 and self.name is None:
            return graph.layers[self.layers[0]].inputs
        return entering_of(graph, [graph.layers[k] for k in self.layers])

    def outputs(self, graph: LayerGraph) -> tuple[str, ...]:
        """The tensors that leave it."""
        kept = kept_inside(graph, self)
        handed = {state.write for state in graph.states if state not in kept}
        read = {*graph.outputs, *handed, *(name for k, layer in enumerate(graph.layers) if k not in self.layers
                                           for name in layer.inputs)}
        return tuple(name for name in (graph.layers[k].output for k in self.layers) if name in read)


def kept_inside(graph: LayerGraph, group: Group) -> tuple[State, ...]:
    """The states that the stage of `group` keeps, and no link hands on."""
    alone = group.name is None and len(group.layers) == 1
    return () if alone else kept_states(graph, [graph.layers[k] for k in group.layers])


def kept_states(graph: LayerGraph, layers: Iterable[Layer]) -> tuple[State, ...]:
    """The states that a shared stage of `layers` keeps in its frame memory: those that no other layer reads, and whose
    next values are in it at the end of a frame."""
    if not graph.states:
        return ()
    layers = list(layers)
    inside = {id(layer) for layer in layers}
    there = {name for layer in layers for name in (layer.output, *layer.inputs)}
    outside = {*graph.outputs, *(name for layer in graph.layers if id(layer) not in inside for name in layer.inputs)}
    kept = [state for state in graph.states if state.read not in outside]
    while True:  # what hands on to a state that is not kept is not kept either
        read = there | {state.write for state in kept}
        held = there | {*graph.inputs, *(state.read for state in kept)}
        left = [state for state in kept if state.read in read and state.write in held]
        if len(left) == len(kept):
            return tuple(kept)
        kept = left


def entering_of(graph: LayerGraph, layers: Sequence[Layer]) -> tuple[str, ...]:
    """The tensors that enter a shared stage of `layers`, in the order in which they are read; then those that it only
    hands on."""
    kept = kept_states(graph, layers)
    there = {*(layer.output for layer in layers), *(state.read for state in kept)}
    read = [*(name for layer in layers for name in layer.inputs), *(state.write for state in kept)]
    return tuple(dict.fromkeys(name for name in read if name not in there))


@dataclass(frozen=True)
class SharedLayers:
    """A shared stage: its name, the positions of its layers in the graph, ascending, and the sizes that a folding does
    not have.

    single_port
        Its frame memory cannot be written while it is read.
    banks
        Banks of a frame memory with a single port, 1 or 2: one is written while the other is read.
    buffer
        Words of weights that it has room for.
    interval
        Cycles from sum to sum at its rescaler.
    rom_rows
        Rows of a word of weights that arrive at once, where they come from a ROM.
    sliding
        Its array keeps words for depthwise windows that slide along a row.
    ahead
        Beats of weights from outside of the FPGA that may wait in a memory with a single port; 0 for none.
    bands
        Tensors take the words of one that is read for the last time; a product that would not let them is computed in
        so many bands of rows where most words are needed.  0: no tensor does.
    words_ahead
        Words that the frame memory may have more, so that frames from other stages come in earlier while others are
        computed.
    """

    name: str
    layers: tuple[int, ...]
    single_port: bool
    buffer: int
    interval: int
    rom_rows: int
    banks: int = 1
    sliding: bool = False
    ahead: int = 0
    bands: int = 0
    words_ahead: int = 0


@dataclass(frozen=True)
class Partition:
    """The shared stages; every layer that is in none of them has a stage of its own."""

    shared: tuple[SharedLayers, ...] = ()

    def states_outside(self, graph: LayerGraph) -> tuple[State, ...]:
        """The states of `graph` that no stage keeps, neither a shared one nor a window."""
        kept = [state.read for each in self.shared
                for state in kept_states(graph, [graph.layers[k] for k in each.layers])]
        kept += [window.state.read for window in self.windows(graph)]
        return tuple(state for state in graph.states if state.read not in kept)

    def windows(self, graph: LayerGraph) -> tuple[KeptRows, ...]:
        """The windows of stages of their own that keep states: all of whose layers no shared stage has."""
        shared = {k for each in self.shared for k in each.layers}
        return tuple(window for window in kept_rows(graph) if shared.isdisjoint(window.layers))

    def groups(self, graph: LayerGraph, names: Sequence[str] | None = None) -> tuple[Group, ...]:
        """The stages, each after those that it reads.  `names` are what messages call the layers, if not their names.

        HwflowError where a layer is in two stages, or stages would wait for each other.
        """
        names = names or [layer.name for layer in graph.layers]
        stage_of: dict[int, str] = {}
        for each in self.shared:
            for k in each.layers:
                if stage_of.setdefault(k, each.name) != each.name:
                    raise HwflowError(f"layer '{names[k]}' must be in one stage, not in {stage_of[k]} and {each.name}")
        groups = [Group(each.name, each.layers) for each in self.shared]
        windows = self.windows(graph)
        groups += [Group(None, window.layers) for window in windows]
        together = {*stage_of, *(k for window in windows for k in window.layers)}
        groups += [Group(None, (k,)) for k in range(len(graph.layers)) if k not in together]
        return in_order(groups, graph, names)


#: Every layer has a stage of its own.
DATAFLOW = Partition()


def in_order(groups: Sequence[Group], graph: LayerGraph, names: Sequence[str]) -> tuple[Group, ...]:
    """Each after those that it reads, else in the order of their first layers.

    HwflowError where there is no such order: what leaves a shared stage would enter it again through other stages.
    """
    made, left, found = set(graph.sources), sorted(groups, key=lambda group: group.layers), []
    while left:
        ready = next((group for group in left if made.issuperset(group.inputs(graph))), None)
        if ready is None:
            circle = [group.name or names[group.layer(graph)] for group in circle_of(left, graph)]
            raise HwflowError(f"stages must not wait for each other in a circle, as {', '.join(circle)} would",
                              "put all of their layers into one shared stage, or fewer layers into it")
        left.remove(ready)
        found.append(ready)
        made.update(ready.outputs(graph))
    return tuple(found)


def circle_of(groups: Sequence[Group], graph: LayerGraph) -> list[Group]:
    """Groups each of which reads what the next one makes, and the last what the first makes.

    Each of `groups` reads what another of them makes.
    """
    seen: list[Group] = []
    group = groups[0]
    while group not in seen:
        seen.append(group)
        read = set(group.inputs(graph))
        group = next(other for other in groups if other != group and read.intersection(other.outputs(graph)))
    return seen[seen.index(group):]
