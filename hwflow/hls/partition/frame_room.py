"""Whether a device can hold the frames of a graph at all: a bound that needs no program, so it is there at once."""

from __future__ import annotations

from collections.abc import Iterator

from hwflow_rtl.shared.frame_memory import FrameMemoryShape
from hwflow_rtl.shared.steps import ELEMENT_BITS
from hwflow_rtl.vendor import Technology

from hwflow.hls.foldings.budget import Budget
from hwflow.layers.base import LayerGraph

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
    for layer in graph.layers:
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
