"""Random layer graphs by seed: chains and nested branches of all kinds of layers, several inputs and outputs."""

from __future__ import annotations

from functools import partial

import numpy as np
from hwflow_rtl.vendor import Technology

from hwflow.hls.plan.graph_stages import stages_of
from hwflow.layers import Frame, LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.stages.folding import Folding
from hwflow.stages.rescalers import REFERENCE
from tests.strategies.layers import Growing, Taste
from tests.strategies.layers_of_rows import matmul, recurrent, trees, write_row
from tests.strategies.numbers import Rng, integers

#: For a simulator in Python: few cycles, few gates.
TINY = Taste(side=5, channels=4, multiplications=800, blocks=2)
USUAL = Taste()
#: The kinds of layers that most networks of images do not have.
ROWS_AND_TREES = ("embedding", "interpolate", "matmul", "normalize", "recurrent", "running_sum", "softmax", "trees",
                  "write_row")


def network(seed: int, taste: Taste = USUAL, kind: type[Blocks] | None = None) -> LayerGraph:
    """The graph of this seed; `kind` says otherwise which layers and blocks it has."""
    return any_network(np.random.default_rng(seed_of(seed)), taste, kind, f"random{seed}")


def seed_of(seed: int) -> list[int]:
    """What numpy makes the generator of a network of."""
    return [seed, 0x4E7]


def any_network(rng: Rng, taste: Taste = USUAL, kind: type[Blocks] | None = None, name: str = "random") -> LayerGraph:
    grown = (kind or Blocks)(rng, taste, name)
    side = taste.side
    height = 1 if rng.random() < 0.2 else int(rng.integers(1, side + 1))
    x = grown.input(Frame(height, int(rng.integers(1, side + 1)), int(rng.integers(1, taste.channels // 2 + 1))))
    x = grown.path(x, int(rng.integers(1, taste.blocks + 1)))
    if x in grown.inputs or rng.random() < 0.25:
        x = grown.dense(x)
    if taste.joins and rng.random() < 0.15:
        grown.path(x, 1, least=1)  # one more output behind the same tensor
        grown.layer(x)
    return grown.finished()


class Blocks(Growing):
    """Layers, and blocks of layers: paths that fork and join again, inside of each other."""

    def path(self, x: str, blocks: int, least: int = 0) -> str:
        """As many blocks as given, one behind the other."""
        for _ in range(max(least, blocks)):
            x = self.block(x, blocks)
        return x

    def block(self, x: str, depth: int) -> str:
        if not self.taste.joins or depth < 1 or self.rng.random() < 0.5 or len(self.layers) > 4 * self.taste.blocks:
            return self.layer(x)
        kinds = [self.residual, self.gate, self.branches, self.with_input]
        return kinds[int(self.rng.choice(4, p=[0.35, 0.2, 0.35, 0.1]))](x, depth)

    def layer(self, x: str) -> str:
        """A convolution every other time."""
        others = {"max_pool": self.max_pool, "average_pool": self.average_pool, "lookup": self.lookup,
                  "dense": self.dense, "rearrange": self.rearrange, "top_k": self.top_k,
                  "interpolate": self.interpolate, "running_sum": self.running_sum, "matmul": partial(matmul, self),
                  "softmax": self.softmax, "normalize": self.normalize,
                  "recurrent": partial(recurrent, self),
                  "trees": partial(trees, self), "write_row": partial(write_row, self)}
        format = self.tensors[x].format
        if not format.bipolar:
            others["segments"] = self.segments
        if not (format.signed or format.bipolar):
            others["embedding"] = self.embedding
        allowed = [make for kind, make in others.items() if kind not in self.taste.without]
        return self.conv(x) if self.rng.random() < 0.5 else allowed[int(self.rng.integers(len(allowed)))](x)

    def shorter(self, x: str, depth: int) -> str:
        """A path inside of a block: none to two blocks."""
        return self.path(x, int(self.rng.integers(0, min(3, depth + 1))))

    def residual(self, x: str, depth: int) -> str:
        """Two paths and their sum or product; one may be `x` itself, both may be."""
        rng = self.rng
        a = self.shorter(x, depth - 1)
        b = self.towards(self.shorter(x, depth - 1) if rng.random() < 0.4 else x, self.frame(a))
        pair = (a, b) if rng.integers(2) else (b, a)
        return self.multiply(*pair) if rng.random() < 0.2 else self.add(*pair)

    def towards(self, x: str, frame: Frame) -> str:
        """`x`, or behind a convolution where its frame is another."""
        return x if self.frame(x) == frame else self.conv(x, frame)

    def gate(self, x: str, depth: int) -> str:
        """Squeeze and excitation (Hu et al., 2018): a mean of all pixels decides on each channel, or on all of them.

        Another join with 1 x 1 pixels is a sum with a bias that depends on the frame.
        """
        rng, whole = self.rng, self.frame(x)
        g = self.average_pool(x, whole=True)
        if rng.random() < 0.7:
            g = self.dense(g)
        if rng.random() < 0.5:
            g = self.lookup(g)
        if rng.random() < 0.2:
            g = self.dense(g, 1)
        elif self.frame(g) != Frame(1, 1, whole.channels):
            g = self.dense(g, whole.channels)
        body = self.towards(self.shorter(x, depth - 1), whole) if rng.random() < 0.3 else x
        pair = (body, g) if rng.random() < 0.7 else (g, body)
        return self.add(*pair) if rng.random() < 0.2 else self.multiply(*pair)

    def branches(self, x: str, depth: int) -> str:
        """Two to four paths behind one another along the channels."""
        rng = self.rng
        paths = [self.shorter(x, depth - 1) for _ in range(int(rng.integers(2, 5)))]
        first = self.frame(paths[0])
        room = max(1, self.taste.channels // len(paths))
        for k, path in enumerate(paths[1:], 1):
            frame = self.frame(path)
            if (frame.height, frame.width) != (first.height, first.width):
                wanted = Frame(first.height, first.width, int(rng.integers(1, room + 1)))
                paths[k] = self.conv(path, wanted)
        order = rng.permutation(len(paths))
        return self.concat(*(paths[k] for k in order))

    def with_input(self, x: str, depth: int) -> str:
        """A join with another input of the graph."""
        y = self.input(self.frame(x))
        if self.rng.random() < 0.5:
            y = self.towards(self.shorter(y, depth - 1), self.frame(x))
        pair = (x, y) if self.rng.integers(2) else (y, x)
        kinds = [self.add, self.multiply, self.concat]
        return kinds[int(self.rng.integers(3))](*pair)


def frames_for(graph: LayerGraph, count: int, seed: int = 0) -> dict[str, IntArray]:
    """Random frames [count, h, w, c] for each input; of three frames or more, one of each end of the format."""
    rng, found = np.random.default_rng([seed, 0xF4A]), {}
    for name in graph.inputs:
        t = graph.tensors[name]
        frames = integers(rng, t.format, (count, t.frame.height, t.frame.width, t.frame.channels))
        if count >= 3:
            frames[-2], frames[-1] = t.format.low, t.format.high
            frames[:] = frames[rng.permutation(count)]
        found[name] = frames
    return found


def any_foldings(graph: LayerGraph, technology: Technology, rng: Rng, *, slowest: int | None = None) -> list[Folding]:
    """For each stage any of its foldings that `technology` has multipliers for; with `slowest` one of at most so many
    cycles a frame, if there is one."""
    picked = []
    for stage in stages_of(graph):
        styles = stage.styles(technology)
        options = [folding for folding in stage.foldings() if folding.style in styles]
        order = rng.permutation(len(options))
        intervals = ((k, stage.schedule(options[k], REFERENCE).interval) for k in order)
        quick = (k for k, interval in intervals if slowest is None or interval <= slowest)
        picked.append(options[next(quick, len(options) - 1)])
    return picked
