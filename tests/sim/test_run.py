"""What a run reports: equality, the place of a difference, lost and repeated beats, deadlocks, cycles."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError, ToolFailed
from hwflow_sim import Difference, StallPattern, run

from tests.sim.toy import BEATS, BIAS, ELEMENTS, FAULT_BEAT, Fault, boundaries, golden, noise_frames, roms

STALLS = [StallPattern(0.5, 0.5, 1), StallPattern(0.5, 0.5, 2), StallPattern(0.0, 0.9, 3), StallPattern(0.9, 0.0, 4),
          StallPattern(0.98, 0.98, 5)]


def play(simulation, frames, **options):
    return run(simulation, frames=frames, expected=golden(frames, roms()[BIAS]), **options)


def test_equal_frames_back_to_back(toy):
    frames = noise_frames(5)
    result = play(toy(), frames)
    assert result.equal
    assert result.failures() == ()
    assert np.array_equal(result.output, golden(frames, roms()[BIAS])[-1])
    assert [stage.beats for stage in result.boundaries.values()] == [5 * BEATS] * 2
    assert result.first_different is None
    assert result.deadlock is None


def test_cycles_are_exact(toy):
    result = play(toy(), noise_frames(4))
    # Cycle 0 takes the first beat, 1 to 3 work on it, the queues after both stages take one cycle each.
    assert result.boundaries["bias_out"].first_cycles[0] == 4
    assert result.first_output_cycle == 5
    assert result.intervals == (4 * BEATS,) * 3
    assert result.interval == 4 * BEATS
    assert result.frame_done_cycles[-1] == 4 * 4 * BEATS + 1
    assert result.cycles == result.frame_done_cycles[-1] + 1
    assert [stage.busy_cycles for stage in result.boundaries.values()] == [3 * 4 * BEATS, 2 * 4 * BEATS]
    assert [stage.stall_cycles for stage in result.boundaries.values()] == [0, 0]
    # The source has a beat in each of the cycles that the first stage needs, and gives it in one of four.
    assert result.input_stall_cycles == (3 * (4 * BEATS - 1),)


@pytest.mark.quick(3)
@pytest.mark.parametrize("stalls", STALLS, ids=str)
def test_random_stalls_change_the_cycles_only(toy, stalls):
    frames = noise_frames(6, seed=stalls.seed)
    simulation = toy()
    free, stalled = play(simulation, frames), play(simulation, frames, stalls=stalls)
    assert stalled.equal
    assert np.array_equal(free.output, stalled.output)
    assert stalled.cycles > free.cycles


def test_a_seed_repeats_the_run_and_another_does_not(toy):
    frames, simulation = noise_frames(6), toy()
    first, again, other = (play(simulation, frames, stalls=StallPattern(0.5, 0.5, seed)) for seed in (7, 7, 8))
    assert first.frame_done_cycles == again.frame_done_cycles
    assert first.frame_done_cycles != other.frame_done_cycles


def test_the_probability_of_stalls_is_kept(toy):
    # The sink takes one of 20 cycles, so 40 * 8 beats need about 20 cycles each.
    result = play(toy(), noise_frames(40), stalls=StallPattern(0.0, 0.95, 11))
    assert 0.8 < result.cycles / (40 * BEATS * 20) < 1.25
    # Both stages would be done after four cycles a beat; a source with stalls has one only every 10 cycles.
    result = play(toy(), noise_frames(40), stalls=StallPattern(0.9, 0.0, 12))
    assert 0.8 < result.cycles / (40 * BEATS * (3 + 10)) < 1.25


@pytest.mark.parametrize(("stage", "frame", "index"), [(0, 0, 0), (0, 2, 13), (1, 1, BEATS - 1)])
def test_a_wrong_expectation_is_found_where_it_is(toy, stage, frame, index):
    frames = noise_frames(3)
    expected = golden(frames, roms()[BIAS])
    right = int(expected[stage][frame, index])
    expected[stage][frame, index] += 1
    result = run(toy(), frames=frames, expected=expected)
    assert not result.equal
    found = result.boundaries[boundaries()[stage].tensor]
    assert result.first_different is found
    assert [s.equal for s in result.boundaries.values()].count(False) == 1
    difference = found.first_difference
    assert (difference.frame, difference.index, difference.expected, difference.got) == (frame, index, right + 1, right)
    assert result.failures() == (
        f"stage '{found.name}': frame {frame}, element {index}: expected {right + 1}, got {right}",)


def test_position_of_a_difference():
    assert Difference(0, 37, 1, 2).position((3, 4, 5)) == (1, 3, 2)


def test_a_dropped_beat_is_reported_as_missing(toy):
    result = play(toy(Fault.DROP), noise_frames(2), timeout_cycles=500)
    assert not result.equal
    first = result.boundaries["bias_out"]
    assert (first.beats, first.expected_beats) == (2 * BEATS - 1, 2 * BEATS)
    assert (first.first_difference.frame, first.first_difference.index) == (0, 2 * FAULT_BEAT)
    assert "stage 'bias': 1 beats missing: 15 instead of 16" in result.failures()
    assert result.deadlock.blocked_by is None
    assert [s.name for s in result.deadlock.streams] == ["input", "bias", "sum", "output"]
    assert "no stage blocks: each waits for a beat that did not come" in str(result.deadlock)
    assert len(result.output) == 1  # the second frame is not complete


def test_a_repeated_beat_is_reported_as_too_many(toy):
    result = play(toy(Fault.REPEAT), noise_frames(2))
    assert not result.equal
    assert result.deadlock is None
    assert result.boundaries["bias_out"].beats == 2 * BEATS + 1
    assert "stage 'bias': 1 beats too many: 17 instead of 16" in result.failures()
    assert result.boundaries["bias_out"].first_difference.index == 2 * (FAULT_BEAT + 1)


def test_a_deadlock_ends_and_names_the_stage(toy):
    result = play(toy(Fault.HANG), noise_frames(2), timeout_cycles=300)
    dead = result.deadlock
    assert dead.blocked_by == "bias"
    assert dead.last_moved.name == "sum"
    assert dead.cycle == dead.last_moved.last_cycle + 301
    text = str(dead)
    assert text.startswith("'bias' blocks: it is offered a beat, takes none and gives none")
    assert f"  no beat moved in the 300 cycles up to cycle {dead.cycle}; the last one moved at 'sum' in cycle" in text
    assert f"  input: {FAULT_BEAT} of 16 beats, last in cycle 16: valid without ready" in text
    assert f"  bias: {FAULT_BEAT} of 16 beats" in text
    # The source of the bench offers its sixth beat at once; the first stage gave the fifth after four cycles of work.
    assert text.splitlines()[-3:] == [
        "  input -> bias: full since cycle 17", "  bias -> sum: empty since cycle 21",
        "  sum -> output: empty since cycle 22"]
    assert result.boundaries["bias_out"].first_difference.got is None


def test_an_output_that_does_not_hold_is_reported(toy):
    result = play(toy(Fault.UNSTEADY), noise_frames(3), stalls=StallPattern(0.0, 0.7, 1))
    assert not result.equal
    assert result.violations > 0
    assert any("valid and payload must hold until ready" in line for line in result.failures())


def test_beats_of_the_last_probe_and_of_the_output_are_both_compared(toy):
    # Without stalls the flipped bit never shows at a transfer; with them the sink sees what the probe does not.
    result = play(toy(Fault.UNSTEADY), noise_frames(3), stalls=StallPattern(0.0, 0.7, 1))
    assert [stage.equal for stage in result.boundaries.values()] == [True, True]
    assert not result.outputs[0].equal
    assert result.outputs[0].first_difference is not None


def test_frames_must_fit_the_core(toy):
    simulation, frames = toy(), noise_frames(2)
    expected = golden(frames, roms()[BIAS])
    with pytest.raises(ValueError, match=r"frames must be \[n, elements\] with a whole number of beats of 2 lanes"):
        run(simulation, frames=frames[:, : ELEMENTS - 1], expected=expected)
    with pytest.raises(ValueError, match="frames must lie in 0 to 255, not -1 to"):
        run(simulation, frames=np.where(frames == frames.max(), -1, frames), expected=expected)
    with pytest.raises(ValueError, match="expected must have the shapes"):
        run(simulation, frames=frames, expected=expected[:1])
    with pytest.raises(ValueError, match="waves need a simulation that was compiled with waves=True"):
        run(simulation, frames=frames, expected=expected, waves=simulation.folder / "waves.fst")


def test_stall_probabilities_have_a_bound():
    with pytest.raises(HwflowError, match=r"stall probability of the sink must be 0 to 0\.98, not 0\.99"):
        StallPattern(0.0, 0.99, 1)


def test_a_simulation_that_breaks_down_names_its_log(toy):
    simulation = toy()
    (simulation.folder / "toy_bias.hex").unlink()
    with pytest.raises(ToolFailed, match=r"the simulation .*simulation\.log"):
        play(simulation, noise_frames(1))


def test_folders_of_killed_runs_are_removed(toy):
    simulation = toy()
    left = simulation.folder / "run-999999999-x"
    left.mkdir()
    play(simulation, noise_frames(1))
    assert not list(simulation.folder.glob("run-*"))
