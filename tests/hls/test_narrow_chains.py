"""Chains of layers of few bits, bipolar and not, with thresholds: solved, simulated, equal at every stage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hwflow_rtl.vendor import Resources
from hwflow_sim import StallPattern

from hwflow import hls
from hwflow.hls import Budget
from hwflow.layers import Conv, Dense, Frame, IntFormat, LayerGraph, Lookup, MaxPool, Requantize, Tensor
from hwflow.layers.base import Layer
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.rescale import Rescale, Rounding, Thresholds
from hwflow.pipeline.simulation import compile_plan, run_plan
from hwflow.stages.kinds import stage_of
from hwflow.synth import list_boards, load_board
from tests.random_cases import seeds

WEIGHTS = [BIPOLAR, *(IntFormat(bits, signed=True) for bits in (2, 3, 4, 8))]
ELEMENTS = [BIPOLAR, *(IntFormat(bits, signed) for bits in (1, 2, 3, 4, 8) for signed in (False, True))]


class Chain:
    """Adds layers one behind the other, with random constants."""

    def __init__(self, seed: int, frame: Frame, format: IntFormat):
        self.rng = np.random.default_rng(seed)
        self.x = Tensor("x", frame, format, 1.0, 0)
        self.tensors = {"x": self.x}
        self.layers: list[Layer] = []

    def add(self, layer: Layer, format: IntFormat) -> Chain:
        self.x = Tensor(layer.output, layer.output_frame(self.x.frame), format, 1.0, 0)
        self.tensors[layer.output] = self.x
        self.layers.append(layer)
        return self

    def names(self) -> tuple[str, tuple[str], str]:
        return f"layer{len(self.layers)}", (self.x.name,), f"y{len(self.layers)}"

    def any_of(self, format: IntFormat, shape: tuple[int, ...]) -> np.ndarray:
        return self.rng.choice(np.arange(format.low, format.high + 1, format.step), shape)

    def rescale(self, weights: np.ndarray, y: IntFormat, multiply: bool) -> Rescale:
        """Thresholds, or a ratio, over the sums that random inputs have."""
        rng, channels = self.rng, len(weights)
        reach = int(np.sqrt(weights[0].size) * np.abs(weights).max() * max(-self.x.format.low, self.x.format.high)) + 1
        if y.bipolar:
            return Thresholds(np.repeat(rng.integers(-reach, reach, (channels, 1)), 2, axis=1), -1)
        if not multiply:
            values = rng.integers(-reach, reach, (channels, y.high - y.low))
            return Thresholds(np.sort(values, axis=1), y.low)
        fraction = int(rng.integers(0, 5))
        return Requantize(
            rng.integers(-reach, reach, channels) << fraction, rng.integers(1 << 16, 1 << 18, channels),
            np.full(channels, 17 + fraction + max(0, reach.bit_length() - y.bits)), 0, y.low, y.high, fraction,
            list(Rounding)[rng.integers(5)])

    def conv(self, channels: int, w: IntFormat, y: IntFormat, *, pad: int = 0, multiply: bool = False) -> Chain:
        weights = self.any_of(w, (channels, 3, 3, self.x.frame.channels))
        rescale = self.rescale(weights, y, multiply)
        return self.add(Conv(*self.names(), weights, w, self.x.format, rescale, pads=(pad,) * 4), y)

    def pool(self) -> Chain:
        return self.add(MaxPool(*self.names(), self.x.format, (2, 2), (2, 2)), self.x.format)

    def lookup(self, y: IntFormat) -> Chain:
        table = self.any_of(y, (1 << self.x.format.bits,)).astype(np.int64)
        return self.add(Lookup(*self.names(), self.x.format, table), y)

    def dense(self, channels: int, w: IntFormat, y: IntFormat, *, multiply: bool = False) -> Chain:
        weights = self.any_of(w, (channels, self.x.frame.elements))
        return self.add(Dense(*self.names(), weights, w, self.x.format, self.rescale(weights, y, multiply)), y)

    def graph(self) -> LayerGraph:
        graph = LayerGraph("chain", self.tensors, tuple(self.layers), ("x",), (self.x.name,))
        graph.check()
        return graph


def binary_inside() -> Chain:
    """uint8 in, bipolar weights and bits, then four bits, int8 out."""
    chain = Chain(0, Frame(6, 6, 2), IntFormat(8, signed=False)).conv(4, BIPOLAR, BIPOLAR)
    chain.conv(6, BIPOLAR, IntFormat(4, signed=False))
    return chain.dense(4, IntFormat(4, True), IntFormat(8, True), multiply=True)


def every_kind() -> Chain:
    """The same with a maximum of bipolar bits, inputs of two bits, and a table."""
    unsigned = {bits: IntFormat(bits, signed=False) for bits in (2, 4, 8)}
    chain = Chain(0, Frame(8, 8, 2), unsigned[8])
    chain.conv(4, BIPOLAR, BIPOLAR, pad=1).pool().conv(6, BIPOLAR, unsigned[2]).dense(5, BIPOLAR, unsigned[4])
    return chain.lookup(IntFormat(4, signed=True)).dense(4, IntFormat(4, True), IntFormat(8, True), multiply=True)


def random_chain(seed: int) -> Chain:
    rng = np.random.default_rng([seed, 1])

    def one_of(formats: list[IntFormat]) -> IntFormat:
        return formats[rng.integers(len(formats))]

    chain = Chain(seed, Frame(*(int(n) for n in rng.integers(4, 8, 2)), int(rng.integers(1, 5))), one_of(ELEMENTS))
    pad = 0 if chain.x.format.bipolar else int(rng.integers(0, 2))
    chain.conv(int(rng.integers(1, 7)), one_of(WEIGHTS), one_of(ELEMENTS), pad=pad, multiply=bool(rng.integers(2)))
    if rng.random() < 0.4:
        chain.pool()
    if rng.random() < 0.3:
        chain.lookup(one_of(ELEMENTS))
    chain.dense(int(rng.integers(1, 7)), one_of(WEIGHTS), one_of(ELEMENTS), multiply=bool(rng.integers(2)))
    return chain.dense(int(rng.integers(1, 4)), one_of(WEIGHTS), IntFormat(8, True), multiply=True)


def prove(chain: Chain, plan: hls.Plan, folder: Path) -> None:
    """Five frames, the lowest and the highest inputs among them: equal, and at full speed as fast as predicted."""
    graph, x = chain.graph(), chain.tensors["x"]
    simulation = compile_plan(graph, plan, folder / "run", folder / "cache", say=lambda line: None)
    shape = (x.frame.height, x.frame.width, x.frame.channels)
    frames = np.concatenate([
        chain.any_of(x.format, (3, *shape)), np.full((1, *shape), x.format.low), np.full((1, *shape), x.format.high)])
    for stalls in (None, StallPattern(0.5, 0.5, 1), StallPattern(0.0, 0.95, 2)):
        result = run_plan(simulation, graph, frames, stalls=stalls)
        assert result.equal, (stalls, result.failures())
        if stalls is None:
            assert result.interval == plan.interval, [(s.name, s.schedule) for s in plan.stages]


def solved(graph: LayerGraph, board: str) -> hls.Plan:
    b = load_board(board)
    return hls.solve(graph, b.technology(), Budget(b.name, b.resources, Resources(lut=250, ff=200), usable_logic=0.7))


@pytest.mark.slow
def test_a_binary_network_is_solved_and_equal(tmp_path: Path) -> None:
    chain = binary_inside()
    plan = solved(chain.graph(), "ulx3s_85f")
    assert plan.stages[0].resources.dsp == plan.stages[1].resources.dsp == 0, "one bit needs no multiplier"
    prove(chain, plan, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("board", list_boards())
def test_a_chain_of_every_kind_is_solved_and_equal(board: str, tmp_path: Path) -> None:
    prove(every_kind(), solved(every_kind().graph(), board), tmp_path)


@seeds(slow=range(5))
def test_random_chains_are_equal(seed: int, tmp_path: Path) -> None:
    chain, boards = random_chain(seed), list_boards()
    plan = solved(chain.graph(), boards[seed % len(boards)])
    prove(chain, plan, tmp_path)


@seeds(slow=range(12, 17))
def test_any_folding_is_equal(seed: int, tmp_path: Path) -> None:
    chain, rng = random_chain(seed), np.random.default_rng(seed)
    boards, graph = list_boards(), chain.graph()
    technology = load_board(boards[seed % len(boards)]).technology()
    options = [list(stage_of(graph, layer).foldings_on(technology))
               for layer in chain.layers]
    foldings = [found[rng.integers(len(found))] for found in options]
    prove(chain, hls.make_plan(graph, foldings, technology), tmp_path)


@pytest.mark.parametrize(("rescale", "y", "message"), [
    (Thresholds(np.zeros((2, 256), np.int64), 0), IntFormat(9, False), "must have 1 to 255 levels, not 256"),
    (Thresholds(np.zeros((2, 0), np.int64), 0), IntFormat(1, False), "must have 1 to 255 levels, not 0"),
    (Requantize(*np.ones((3, 2), np.int64), 0, -1, 1), BIPOLAR, "a bipolar output must come from thresholds"),
    (Thresholds(np.array([[0, 1], [0, 0]]), -1), BIPOLAR, "must be pairs of equal values that step from -1 to +1"),
])
def test_output_stages_without_hardware(rescale: Rescale, y: IntFormat, message: str) -> None:
    int2 = IntFormat(2, signed=True)
    layer = Dense("fc", ("x",), "y", np.ones((2, 3), np.int64), int2, int2, rescale)
    tensors = {"x": Tensor("x", Frame(1, 1, 3), int2, 1.0, 0), "y": Tensor("y", Frame(1, 1, 2), y, 1.0, 0)}
    problem = stage_of(LayerGraph("g", tensors, (layer,), ("x",), ("y",)), layer).hardware_problem()
    assert problem is not None
    assert message in problem
