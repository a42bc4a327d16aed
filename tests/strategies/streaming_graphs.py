"""Random layer graphs with states by seed: frames hand on what they moved, what they computed, or what came in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.layers import Frame, LayerGraph
from hwflow.layers.base import State
from tests.strategies.layer_graphs import TINY, Blocks
from tests.strategies.layers import Elements, Taste
from tests.strategies.numbers import Rng, integers

#: Without what reads a frame more than once, which takes long in a simulator.
STREAMING = replace(TINY, without=("embedding", "matmul", "recurrent", "trees", "write_row", "top_k"))


def streaming_network(seed: int, taste: Taste = STREAMING) -> LayerGraph:
    """One to three states, each joined with what comes of the input at some place."""
    grown = Streaming(np.random.default_rng([seed, 0x57A7E]), taste, f"streaming{seed}")
    rng = grown.rng
    side = int(rng.integers(1, taste.side + 1))
    x = grown.input(Frame(int(rng.integers(1, 3)), side, int(rng.integers(1, 4))))
    for _ in range(int(rng.integers(1, 4))):
        x = grown.path(x, int(rng.integers(0, 2)))
        x = grown.joined(x)
    grown.path(x, 1, least=1)
    return grown.handed_on()


class Streaming(Blocks):
    """A graph some of whose inputs become states."""

    def __init__(self, rng: Rng, taste: Taste, name: str) -> None:
        super().__init__(rng, taste, name)
        #: By the input that is a state the tensor that it hands on, where that is one that is there.
        self.kept: dict[str, str] = {}

    def joined(self, x: str) -> str:
        """`x` with a new state; sometimes the state is a tensor of the frame before as it was."""
        rng, t = self.rng, self.tensors[x]
        if rng.random() < 0.3:
            y = self.input(t.frame, Elements(t.format, t.zero_point))
            self.kept[y] = x
        else:
            y = self.input(t.frame)
            self.kept[y] = ""
        pair = (x, y) if rng.integers(2) else (y, x)
        return [self.add, self.concat, self.multiply][int(rng.choice(3, p=[0.45, 0.45, 0.1]))](*pair)

    def handed_on(self) -> LayerGraph:
        """The graph with a layer for what each state hands on, of any tensor, where it is none that there is."""
        rng, states = self.rng, []
        for read, write in self.kept.items():
            t = self.tensors[read]
            if not write:
                made = [layer.output for layer in self.layers]
                source = made[int(rng.integers(len(made)))]
                write = self.conv(source, t.frame, Elements(t.format, t.zero_point))
            shape = (t.frame.height, t.frame.width, t.frame.channels)
            constant = integers(rng, t.format, (1,))
            initial = integers(rng, t.format, shape) if rng.random() < 0.5 else np.broadcast_to(constant, shape).copy()
            states.append(State(read, write, initial))
        graph = self.finished()
        written = {state.write for state in states}
        outputs = tuple(name for name in graph.outputs if name not in written or rng.random() < 0.2)
        inputs = tuple(name for name in graph.inputs if name not in self.kept)
        whole = replace(graph, inputs=inputs, outputs=outputs or graph.outputs, states=tuple(states))
        whole.check()
        return whole
