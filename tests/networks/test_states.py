"""Random networks with states, as hardware in Amaranth's simulator: a sequence of frames equals the golden model.

Latency, interval and the schedule are those of the plan, to the cycle; stalls change no value; and the queue of a state
is as deep as it must be.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import AnswerIsNo, HwflowError

from hwflow import golden, hls
from hwflow.hls.partition.executions import Executions
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.hls.shared.compile import shared_problems
from hwflow.hls.shared.stage import SharedStage
from hwflow.layers import LayerGraph
from hwflow.layers.base import State
from hwflow.pipeline.planning import budget_of
from hwflow.stages.folding import Folding
from hwflow.stages.kept_rows import kept_rows
from hwflow.stages.kinds import hardware_problems
from hwflow.stages.partition import Execution, Partition, SharedLayers
from hwflow.synth import load_board
from tests.hls.test_kept_rows import network as cached
from tests.networks.playing import Stalls, play_plan
from tests.networks.test_rtl import check_cycles, check_schedule, plan_of, stalls_of
from tests.random_cases import seeds
from tests.strategies.described import describe
from tests.strategies.layer_graphs import frames_for
from tests.strategies.shifting_states import mixed_network, shifting_network
from tests.strategies.streaming_graphs import streaming_network

FRAMES = 4
#: Cycles of a frame above which a simulation of shared stages takes too long.
LONG = 500


def case(seed: int) -> tuple[LayerGraph, hls.Plan, str]:
    graph = streaming_network(seed)
    assert not hardware_problems(graph), (seed, hardware_problems(graph))
    plan = plan_of(graph, seed)
    return graph, plan, f"seed {seed}\n{describe(graph, [stage.folding for stage in plan.stages])}\n{graph.states}"


def check_played(graph: LayerGraph, plan: hls.Plan, seed: int, told: str) -> None:
    """Values with any stalls, and without stalls the cycles, too."""
    count = FRAMES + 1 + 2 * max(plan.latency) // plan.interval  # of an output that no state reaches one runs ahead
    frames = frames_for(graph, count, seed)
    for stalls in stalls_of(seed):
        played = play_plan(graph, plan, frames, stalls)
        assert not played.wrong, f"{stalls}: {played.wrong}; {told}"
        if stalls == Stalls():
            ends = [each[len(each) // count - 1 :: len(each) // count] for each in played.cycles]
            check_cycles(plan, ends, played.offered, told)
            check_schedule(plan, played.cycles, count, told)


@seeds(quick=[0, 1], slow=range(2, 100))
def test_sequences(seed: int) -> None:
    graph, plan, told = case(seed)
    check_played(graph, plan, seed, told)


@pytest.mark.parametrize("network", [shifting_network, mixed_network])
@seeds(quick=range(3), slow=range(3, 120))
def test_windows_keep_states_that_only_shift(seed: int, network: Callable[[int], LayerGraph]) -> None:
    """The line buffer of a convolution has the only copy of its state, and the first frames find the initial rows.

    So does that of several convolutions, which are one.
    """
    graph = network(seed)
    plan, found = plan_of(graph, seed), kept_rows(graph)
    told = f"seed {seed}\n{describe(graph)}\n{[stage.folding for stage in plan.stages]}\n{graph.states} {found}"
    assert len(plan.stages) == len(graph.layers) - sum(len(kept.layers) - 1 for kept in found), told
    assert sum(link.sink.of_state for link in plan.links) == len(graph.states) - len(found), told
    check_played(graph, plan, seed, told)


def test_a_beat_that_waits_at_the_input_holds_back_no_state() -> None:
    """A frame of one beat is read behind all rows of its state, and is there for longer than an interval: the state of
    the next frame begins before it is taken."""
    graph = cached(taps=7, kept=6, initial=np.arange(12).reshape(6, 1, 2))
    layers = (replace(layer, inputs=("old.y", "x")) if layer.name == "join" else layer
              for layer in graph.layers if layer.name != "new")
    graph = replace(graph, layers=tuple(layers))
    assert not kept_rows(graph)
    technology = load_board("ulx3s_85f").technology()
    foldings = []
    for stage in stages_of(graph):
        by_interval = sorted(stage.foldings(), key=lambda each, s=stage: s.schedule(each, technology).interval)
        foldings.append(by_interval[-1 if stage.name == "0_old" else 0])
    plan = hls.make_plan(graph, foldings, technology)
    played = play_plan(graph, plan, frames_for(graph, 8, 0))
    assert not played.wrong
    ends = [each[len(each) // 8 - 1 :: len(each) // 8] for each in played.cycles]
    check_cycles(plan, ends, played.offered, str(plan))


def some_share(graph: LayerGraph, seed: int) -> hls.Plan | None:
    """A plan with any consecutive layers in a shared stage and the others in stages of any folding; None where no run
    of them can be in one."""
    rng, technology = np.random.default_rng([seed, 77]), load_board("ulx3s_85f").technology()
    count = len(graph.layers)
    for _ in range(200):
        first = int(rng.integers(count))
        run = tuple(k for k in range(first, int(rng.integers(first + 1, count + 1))) if rng.random() < 0.85)
        if not run or len(run) == count or shared_problems(graph, [graph.layers[k] for k in run]):
            continue
        partition = Partition((SharedLayers(
            "shared0", run, single_port=False, buffer=256, interval=1, rom_rows=int(rng.integers(1, 3)),
            bands=int(rng.integers(2)), words_ahead=int(rng.choice([0, 0, 50, 999]))),))
        with suppress(HwflowError):  # stages that would wait for each other in a circle
            stages, columns = stages_of(graph, partition), int(rng.choice([2, 4]))
            offered = [[Folding(columns, columns, 1)] if isinstance(stage, SharedStage) else list(stage.foldings())
                       for stage in stages]
            foldings = [each[int(rng.integers(len(each)))] for each in offered]
            return hls.make_plan(graph, foldings, technology, partition=partition)
    return None


def check_beside_a_shared_stage(graph: LayerGraph, plan: hls.Plan, seed: int) -> None:
    """Values with any stalls, and without stalls the latency and the interval."""
    count = FRAMES + 2
    frames = frames_for(graph, count, seed)
    for stalls in stalls_of(seed):
        played = play_plan(graph, plan, frames, stalls)
        assert not played.wrong, f"{stalls}: {played.wrong}; {plan.partition}"
        if stalls == Stalls():
            assert tuple(played.offered) == plan.latency
            ends = [each[len(each) // count - 1 :: len(each) // count] for each in played.cycles]
            slowest = max(ends, key=lambda each: each[-1] - each[0])
            gap = slowest[-1] - slowest[-2]
            assert gap <= plan.interval if plan.is_bound else gap == plan.interval, (ends, plan.interval)


@seeds(quick=[27], slow=range(60))
def test_sequences_beside_a_shared_stage(seed: int) -> None:
    """States between stages, into and out of a shared stage, and inside of it (27)."""
    graph = streaming_network(seed)
    plan = some_share(graph, seed)
    if plan is not None and plan.interval <= LONG:
        check_beside_a_shared_stage(graph, plan, seed)


@pytest.mark.parametrize("network", [shifting_network, mixed_network])
@seeds(quick=[21], slow=range(60))
def test_windows_keep_states_beside_a_shared_stage(seed: int, network: Callable[[int], LayerGraph]) -> None:
    """Those whose layers are all outside of it; the others are in its memory, or queues.

    Weights in a ROM come a few cycles after the reset (0); a stage whose results wait for a shared one has a queue (21
    of the second), and so has a shared stage whose results wait for a gearbox (48 of the first); a gearbox collects
    the next beat when the one before it was taken (22 of the first).
    """
    graph = network(seed)
    plan = some_share(graph, seed)
    if plan is not None and plan.interval <= LONG:
        check_beside_a_shared_stage(graph, plan, seed)


def oracle(graph: LayerGraph, frames: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Each tensor of each frame, layer by layer, with a dictionary in place of everything else."""
    made: dict[str, list[np.ndarray]] = {}
    states = {state.read: state.initial[None] for state in graph.states}
    for k in range(len(frames[graph.inputs[0]])):
        values = {name: frames[name][k : k + 1] for name in graph.inputs} | states
        for layer in graph.layers:
            values[layer.output] = layer.evaluate(graph, *(values[name] for name in layer.inputs))
        states = {s.read: values[s.write].reshape(states[s.read].shape) for s in graph.states}
        for name, value in values.items():
            made.setdefault(name, []).append(value[0])
    return made


@pytest.mark.parametrize("seed", range(8))
def test_the_golden_model_hands_states_on(seed: int) -> None:
    graph = streaming_network(seed)
    frames = frames_for(graph, 7, seed)
    expected, values = oracle(graph, frames), golden.run(graph, frames)
    assert values.keys() == expected.keys()
    for name, each in expected.items():
        np.testing.assert_array_equal(values[name], each, err_msg=name)
    outputs = golden.run(graph, frames, keep=False)
    assert all(np.array_equal(outputs[name], values[name]) for name in graph.outputs)


def test_a_shallow_state_stops_the_sequence() -> None:
    """A state that does not hold a frame keeps results of it back until the next one comes, which is too late for the
    last one."""
    graph, plan, _ = case(1)
    e = next(e for e, link in enumerate(plan.links) if link.sink.of_state and link.depth > 8)
    links = [replace(each, depth=each.depth // 2) if k == e else each for k, each in enumerate(plan.links)]
    assert play_plan(graph, replace(plan, links=tuple(links)), frames_for(graph, 3, 1), patience=500).wrong


@pytest.mark.parametrize(("change", "message"), [
    (lambda s: {"read": "x9"}, "must be made by an earlier layer"),
    (lambda s: {"write": "x0"}, "as what is handed on"),
    (lambda s: {"initial": s.initial[:, :0]}, "its initial value must be"),
])  # fmt: skip
def test_states_that_contradict_their_graph(change, message: str) -> None:
    graph = next(graph for graph in map(streaming_network, range(50))
                 if any(graph.tensors[s.write].frame.elements != graph.tensors["x0"].frame.elements
                        for s in graph.states[:1]))  # fmt: skip
    state = graph.states[0]
    wrong = State(**{"read": state.read, "write": state.write, "initial": state.initial, **change(state)})
    with pytest.raises(ValueError, match=message):
        replace(graph, states=(wrong, *graph.states[1:])).check()


@pytest.mark.slow
def test_a_search_puts_states_beside_a_shared_stage() -> None:
    """Some layers of this network have no form in a shared stage; a plan has others there, with weights in ROMs."""
    board, graph = load_board("ulx3s_85f"), streaming_network(8)
    plan = Executions(graph, hls.Target(board.technology(), budget_of(board))).plan(Execution.SHARED, None)
    assert plan.execution == "mixed"
    assert len(plan.partition.states_outside(graph)) < len(graph.states)
    assert not play_plan(graph, plan, frames_for(graph, FRAMES, 8)).wrong


def test_an_interval_that_states_allow() -> None:
    """The way from a state to its next value is longer than any stage: faster stages shorten it, as far as they go."""
    board = load_board("ulx3s_85f")
    target = hls.Target(board.technology(), budget_of(board))
    graph = next(graph for graph in map(streaming_network, range(40)) if hls.solve(graph, target).loop)
    fastest = hls.solve(graph, target).interval
    assert hls.solve(graph, target, interval=2 * fastest).interval <= 2 * fastest
    assert hls.solve(graph, target, interval=fastest).interval == fastest
    with pytest.raises(AnswerIsNo, match=f"an interval of {fastest - 1} cycles must be at least"):
        hls.solve(graph, target, interval=fastest - 1)
