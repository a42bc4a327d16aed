"""Several seeds side by side: what is kept, what failures and interrupts leave, what nextpnr's log says of progress."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError, ToolFailed
from hwflow_base.work import Audience

from hwflow.synth import load_board, synthesize
from hwflow.synth.bitstream import best_of
from hwflow.synth.options import SynthesisOptions
from hwflow.synth.seeds import (
    NEXTPNR_MEMORY,
    PLACED,
    Attempt,
    Listener,
    default_jobs,
    from_seeds,
    placement_mhz,
    promising,
)
from hwflow.synth.toolchain import Job
from hwflow.synth.top import TextOnBoard
from tests.synth.blinky import blinky_text
from tests.synth.conftest import need

ICEBREAKER = load_board("icebreaker")


def made(mhz: dict[int, float], failing: set[int] = frozenset(), meanwhile: Callable[[int], None] = lambda seed: None):
    """A stand-in for nextpnr: writes the clock of each seed, fails for some, and notes which ones ran."""
    ran: list[int] = []

    def make(folder: Path, seed: int, listener: Listener) -> None:
        ran.append(seed)
        (folder / "half").write_text("x")
        meanwhile(seed)
        if seed in failing:
            raise ToolFailed(f"place and route, seed {seed} failed: no way\nmore words")
        (folder / "report.json").write_text(json.dumps({"fmax": {"clk": {"achieved": mhz[seed]}}, "utilization": {}}))
        (folder / "seconds.json").write_text("1.5")

    return make, ran


def job(folder: Path, said: list[str] | None = None) -> Job:
    return Job(ICEBREAKER, folder, {}, (said if said is not None else []).append)


def test_each_seed_once_and_the_fastest_is_taken(tmp_path: Path) -> None:
    make, ran = made({3: 50.0, 4: 60.5, 5: 60.5})
    found = from_seeds(job(tmp_path), tmp_path / "seeds", [3, 4, 5], 2, "key", make)
    assert found == (Attempt(3, 50.0, 1.5), Attempt(4, 60.5, 1.5), Attempt(5, 60.5, 1.5))
    assert best_of(found).seed == 4
    assert from_seeds(job(tmp_path), tmp_path / "seeds", [5, 4], 2, "key", make) == (found[2], found[1])
    assert sorted(ran) == [3, 4, 5]
    from_seeds(job(tmp_path), tmp_path / "seeds", [4], 1, "another design", make)
    assert sorted(ran) == [3, 4, 4, 5]


def test_a_seed_that_fails_does_not_lose_the_others(tmp_path: Path) -> None:
    said: list[str] = []
    make, ran = made({1: 10.0, 3: 30.0}, failing={2})
    found = from_seeds(job(tmp_path, said), tmp_path / "seeds", [1, 2, 3], 3, "key", make)
    assert [attempt.routed_mhz for attempt in found] == [10.0, None, 30.0]
    assert found[1].failed == "place and route, seed 2 failed: no way\nmore words"
    assert said == ["seed 2: place and route, seed 2 failed: no way"]
    assert best_of(found).seed == 3
    assert sorted(path.name for path in (tmp_path / "seeds").iterdir()) == ["seed1", "seed3"]
    from_seeds(job(tmp_path), tmp_path / "seeds", [1, 2, 3], 3, "key", make)
    assert sorted(ran) == [1, 2, 2, 3]


def test_all_seeds_fail(tmp_path: Path) -> None:
    make, _ = made({}, failing={1, 2})
    with pytest.raises(ToolFailed, match=r"^place and route, seed 1 failed: no way"):
        from_seeds(job(tmp_path), tmp_path / "seeds", [1, 2], 2, "key", make)


def test_an_interrupt_ends_all_seeds_and_keeps_those_that_are_done(tmp_path: Path) -> None:
    """The progress of one seed stands for a signal that comes while the others run."""
    run = job(tmp_path)
    started, ended = threading.Event(), threading.Event()

    def meanwhile(seed: int) -> None:
        if seed == 2:
            started.set()
            assert ended.wait(20), "nobody ended this seed"
            raise ToolFailed("killed")

    def end() -> None:
        ended.set()
        run.running.ended = True

    run.running.end = end  # type: ignore[method-assign]
    make, ran = made({1: 10.0, 2: 20.0, 3: 30.0}, meanwhile=meanwhile)

    def interrupted(folder: Path, seed: int, listener: Listener) -> None:
        if seed == 3:
            assert started.wait(20)
            raise KeyboardInterrupt
        make(folder, seed, listener)

    with pytest.raises(KeyboardInterrupt):
        from_seeds(run, tmp_path / "seeds", [1, 3, 2], 3, "key", interrupted)
    assert sorted(path.name for path in (tmp_path / "seeds").iterdir()) == ["seed1"]
    again, ran_again = made({2: 20.0, 3: 30.0})
    assert len(from_seeds(job(tmp_path), tmp_path / "seeds", [1, 2, 3], 2, "key", again)) == 3
    assert (sorted(ran), sorted(ran_again)) == ([1, 2], [2, 3])


def test_the_most_promising_placements(tmp_path: Path) -> None:
    """Each seed is placed once; those that look fastest are taken in their order, and one that fails is not."""
    said: list[str] = []
    looks, ran = {1: 50.0, 2: 70.0, 4: 60.0}, []

    def make(folder: Path, seed: int, listener: Listener) -> None:
        ran.append(seed)
        if seed not in looks:
            raise ToolFailed("placement failed: no way")
        (folder / PLACED).write_text(f"Info: Max frequency for clock 'core': {looks[seed]} MHz (FAIL at 100.00 MHz)\n"
                                     "Info: Max frequency for clock  'a:b': 20.00 MHz (PASS at 12.00 MHz)\n")

    run = job(tmp_path, said)
    assert promising(run, tmp_path / "seeds", [1, 2, 3, 4], 2, "key", make, 2) == [2, 4]
    assert said[-1] == ("what the placements promise: 1: 50 MHz, 2: 70 MHz, 3: failed, 4: 60 MHz; routed: 2, 4")
    assert promising(run, tmp_path / "seeds", [4, 1], 2, "key", make, 1) == [4]
    assert sorted(ran) == [1, 2, 3, 4]
    with pytest.raises(ToolFailed, match=r"^placement failed: no way"):
        promising(run, tmp_path / "seeds", [5, 6], 2, "key", make, 1)


def test_a_design_without_paths_promises_any_clock() -> None:
    assert placement_mhz("Info: Max delay <async> -> posedge clk: 3.24 ns\n") == math.inf


def test_jobs_by_cores_and_memory() -> None:
    assert default_jobs(4, cores=8, memory=100 << 30) == 4
    assert default_jobs(8, cores=4, memory=100 << 30) == 4
    assert default_jobs(8, cores=8, memory=3 * NEXTPNR_MEMORY) == 3
    assert default_jobs(8, cores=8, memory=0) == 1
    assert 1 <= default_jobs(2) <= 2


@pytest.mark.parametrize(("line", "told"), [
    ("Info:     at iteration #7, type ALL: wirelen solved = 3153, spread = 1, legal = 2; time = 0.44s",
     "placing, pass 7"),
    ("Info:   at iteration #20: temp = 0.000000, timing cost = 171, wirelen = 14900", "improving the places, pass 20"),
    ("Info: Routing 10062 arcs.", "routing 10062 arcs"),
    ("Info:       4000 |      285       3331 |   90   802 |      6397|       0.24       1.48|", ""),
    ("Info:     iter=3 wires=193403 overused=6578 overuse=7250 archfail=NA",
     "routing, pass 3, 6578 of 193403 wires taken twice"),
    ("Info: HeAP Placer Time: 5.46s", ""),
])
def test_progress_of_nextpnr(line: str, told: str) -> None:
    assert Listener("seed 1", print).told(line) == told


def test_progress_now_and_then() -> None:
    said: list[str] = []
    listener = Listener("seed 2", said.append, period=0.0)
    for line in ("Info: Routing 10062 arcs.\n", "Info: other\n",
                 "Info:       4000 |      285       3331 |   90   802 |      6397|       0.24       1.48|\n"):
        listener(line)
    assert said == ["seed 2: routing 10062 arcs", "seed 2: routing, 3665 of 10062 arcs"]
    seldom = Listener("seed 2", said.append, period=1000.0)
    seldom("Info: Routing 10062 arcs.\n")
    assert len(said) == 2


def test_no_seeds(tmp_path: Path) -> None:
    with pytest.raises(HwflowError, match=r"^seeds, route and jobs must be at least 1, not 0, None and None$"):
        synthesize(TextOnBoard("", ICEBREAKER), tmp_path, SynthesisOptions(seeds=0))


@pytest.mark.slow
@pytest.mark.parametrize("board", ["icebreaker", "ulx3s_25f", "tangnano9k"])
def test_the_placement_that_looks_fastest_is_routed(board: str, tmp_path: Path) -> None:
    """Its bitstream is that of its seed alone."""
    target, said = load_board(board), list[str]()
    need(target.family)
    text = TextOnBoard(blinky_text(target, None), target)
    best = synthesize(text, tmp_path / "best", SynthesisOptions(seeds=3, route=1, jobs=2),
                      audience=Audience(said.append))
    (attempt,) = best.seeds
    (line,) = [line for line in said if line.startswith("what the placements promise: 1: ")]
    looks = {int(seed): float(mhz) for seed, mhz in re.findall(r"(\d+): (\d+) MHz", line)}
    assert sorted(looks) == [1, 2, 3]
    assert looks[attempt.seed] == max(looks.values())
    alone = synthesize(text, tmp_path / "alone", SynthesisOptions(seed=attempt.seed))
    assert alone.bitstream.read_bytes() == best.bitstream.read_bytes()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bitstream_alone_or_among_others(tmp_path: Path) -> None:
    need("ice40")
    text = TextOnBoard(blinky_text(ICEBREAKER, None), ICEBREAKER)
    both = synthesize(text, tmp_path / "both", SynthesisOptions(seed=7, seeds=2, jobs=2))
    assert [attempt.seed for attempt in both.seeds] == [7, 8]
    assert both.routed_mhz == max(attempt.routed_mhz or 0.0 for attempt in both.seeds)
    assert {"yosys", "nextpnr-ice40", "icepack", "amaranth", "hwflow"} == set(both.tools)
    assert f"--seed {both.seed}" in both.options["nextpnr-ice40"]
    alone = synthesize(text, tmp_path / "alone", SynthesisOptions(seed=both.seed))
    assert alone.bitstream.read_bytes() == both.bitstream.read_bytes()
    assert (alone.routed_mhz, alone.part_delays) == (both.routed_mhz, both.part_delays)
