"""States that stay in a shared stage: sequences of random networks, and how their words move."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError
from hwflow_rtl.shared.steps import Compute, Fill, Load

from hwflow import golden
from hwflow.hls.shared.compile import SharedProgram, shared_problems
from hwflow.layers import Add, Frame, IntFormat, LayerGraph, Tensor
from hwflow.layers.base import State
from hwflow.options import HardwareOptions
from hwflow.pipeline.planning import plan_for
from hwflow.stages.partition import Execution
from hwflow.synth import load_board
from tests.hls.shared.machine import program_for
from tests.hls.shared.streaming import streaming_network
from tests.networks.playing import Stalls, play_plan
from tests.random_cases import seeds
from tests.strategies.described import describe
from tests.strategies.layer_graphs import TINY, USUAL, frames_for
from tests.strategies.layers import Taste

BLOCK, FRAMES = 40, 5


def require_sequence(graph: LayerGraph, made: SharedProgram, seed: int) -> None:
    """The program's model makes every tensor of a sequence that the golden model makes."""
    frames = frames_for(graph, FRAMES, seed)
    values = golden.run(graph, frames)
    memory, _ = made.program.filled()
    for row in range(FRAMES):
        outputs, written = made.program.model(
            [values[name][row].reshape(-1, values[name].shape[-1]) for name in made.inputs], memory)
        found = {writing.step: writing for writing in written}
        for making, expected in made.writings({name: each[row] for name, each in values.items()}):
            np.testing.assert_array_equal(found[making.step].elements, expected.elements, err_msg=f"{making} {row}")
        for name, output in zip(made.outputs, outputs, strict=True):
            np.testing.assert_array_equal(output, values[name][row].reshape(output.shape), err_msg=f"{name} {row}")


def check(seed: int, taste: Taste) -> Counter[str]:
    graph = streaming_network(seed, taste)
    graph.check()
    if not graph.states or shared_problems(graph, graph.layers):
        return Counter({"states" if graph.states else "none": 1})
    made = program_for(graph, columns=(2, 4, 8)[seed % 3], sliding=seed % 4 > 0, bands=seed % 5 and 3 * (seed % 2),
                       single_port=not seed % 2)
    if seed % 4 == 0:
        made = program_for(graph, columns=made.program.shape.columns, words=4 << made.frames.words.bit_length(),
                           banks=2)
    try:
        require_sequence(graph, made, seed)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}\n{describe(graph)}") from error
    begin = next(step for step in made.program.steps if not isinstance(step, Fill))
    assert isinstance(begin, Load), f"seed {seed}: {begin} works on a frame that is not there yet"
    moves = [made.program.steps[step] for step in made.handing]
    return Counter({
        "states": 1, "equal": 1, "image": made.program.image is not None,
        "filled": any(isinstance(step, Fill) and step.value is not None for step in made.program.steps),
        "up": any(isinstance(step, Compute) and step.read.column < 0 for step in moves),
        "down": any(isinstance(step, Compute) and step.read.base > step.write.base for step in moves),
        "waits": any(name.endswith("/waits") for name in made.tensors),
        "in place": len(set(made.handing.values())) < len(graph.states)})


@seeds(quick=[0], slow=range(1, 10), name="block")
@pytest.mark.parametrize("taste", [TINY, USUAL], ids=["tiny", "usual"])
def test_sequences(taste: Taste, block: int) -> None:
    found = sum((check(seed, taste) for seed in range(block * BLOCK, (block + 1) * BLOCK)), Counter())
    assert found["states"] >= BLOCK // 2
    assert found["equal"] >= found["states"] * 0.7


def test_states_that_are_exchanged() -> None:
    """In a circle: one waits elsewhere, while the others move."""
    int8 = IntFormat(8, signed=True)
    names = ("x", "a", "b", "c", "y")
    graph = LayerGraph(
        "circle", {name: Tensor(name, Frame(2, 1, 6), int8, 0.5, 0) for name in names},
        (Add("add", ("x", "a"), "y", (1, 1), 0, 0, -128, 127),), ("x",), ("y",),
        tuple(State(read, write, np.full((2, 1, 6), first))
              for read, write, first in (("a", "b", 1), ("b", "c", 20), ("c", "a", -30))))
    graph.check()
    made = program_for(graph)
    assert [name for name in made.tensors if name.endswith("/waits")] == ["a/waits"]
    assert len(made.handing) == 4
    require_sequence(graph, made, 0)


def test_states_that_nothing_else_reads() -> None:
    """A shared stage of such layers alone would have no output; in a whole network they are computed."""
    graph = next(graph for graph in (streaming_network(seed, TINY) for seed in range(50))
                 if graph.states and not shared_problems(graph, graph.layers))
    with pytest.raises(HwflowError, match="must make something that others read"):
        program_for(replace(graph, outputs=()))


def test_a_sum_is_written_over_its_state() -> None:
    int8 = IntFormat(8, signed=True)
    graph = LayerGraph(
        "leaky", {name: Tensor(name, Frame(1, 1, 6), int8, 0.5, 3) for name in ("x", "s", "y")},
        (Add("add", ("x", "s"), "y", (3, 1), 2, 3, -128, 127),), ("x",), ("y",),
        (State("s", "y", np.arange(6).reshape(1, 1, 6)),))
    graph.check()
    made = program_for(graph)
    assert made.frames["s"].base == made.frames["y"].base
    assert not made.handing
    require_sequence(graph, made, 0)


def test_a_plan_keeps_states_in_one_stage() -> None:
    """The whole core, to the cycle, with stalls; the first frame begins when the states are filled."""
    graph = streaming_network(8)
    assert graph.states
    board = load_board("icebreaker")
    plan = plan_for(graph, graph, board, HardwareOptions(execution=Execution.SHARED))
    assert [stage.kind for stage in plan.stages] == ["shared"]
    assert {link.tensor for link in plan.links} == {*graph.inputs, *graph.outputs}
    frames = frames_for(graph, FRAMES, 0)
    played = play_plan(graph, plan, frames, patience=20000)
    assert not played.wrong
    assert tuple(played.offered) == plan.latency
    beats = len(played.cycles[0]) // FRAMES
    assert played.cycles[0][-1] - played.cycles[0][-1 - beats] == plan.interval
    assert not play_plan(graph, plan, frames, Stalls(0.4, 0.4, 1), patience=20000).wrong
