"""How far long work is: nothing is claimed without a count or earlier times, and no bar goes back or lies."""

from __future__ import annotations

import io
import json

import pytest
import rich.console
from hwflow_base.files.durations import Durations
from hwflow_base.work import Work, unwatched

from hwflow.synth.seeds import PHASES, Listener
from hwflow.views.console.terminal import Console, Watcher, clock_text, state_of

THREE = ("a", "b", "c")


class Clock:
    """A clock that stands until it is set."""

    now = 100.0

    def __call__(self):
        return self.now


def test_without_earlier_times_and_counts_only_the_time_is_said():
    clock = Clock()
    work = Work("x", THREE, {}, clock)
    clock.now += 65
    work.enter("b")
    work.count(1, 2)  # of one phase among others, whose length nobody knows
    assert (work.share, work.left, work.late, state_of(work)) == (None, None, False, "1:05")
    alone = Work("x", ["all"], {}, clock)
    clock.now += 10
    alone.count(1, 4)
    assert (alone.share, alone.left, state_of(alone)) == (0.25, 30.0, "25 %, 0:10, about 0:30 left")
    assert Work("x", THREE, {"a": 1.0}).expected == {}


def test_phases_by_earlier_times():
    clock = Clock()
    work = Work("x", THREE, {"a": 10.0, "b": 20.0, "c": 70.0}, clock)
    clock.now += 5
    assert work.share == pytest.approx(0.05)
    clock.now += 100 - 20  # longer than expected: the phase is still not over
    assert work.share == pytest.approx(0.099)
    work.enter("c")  # b took no time
    assert work.share == pytest.approx(0.3)
    work.enter("a")
    assert work.phase == "c"
    work.count(1, 2)
    assert work.share == pytest.approx(0.65)
    work.count(1, 4)
    assert work.share == pytest.approx(0.65), "a bar does not go back"
    clock.now += 15
    assert work.end() == {"a": 85.0, "b": 0.0, "c": 15.0}


def test_work_that_takes_longer_has_no_bar():
    clock = Clock()
    work = Work("x", ["all"], {"all": 60.0}, clock)
    clock.now += 59.9
    assert work.share == pytest.approx(0.99)
    clock.now += 1
    assert (work.share, work.left, state_of(work)) == (None, None, "1:01, longer than the 1:00 expected")
    work.start_over()
    assert (work.late, work.usual, state_of(work)) == (False, False, "1:01")
    assert clock_text(3725) == "1:02:05"


def test_times_are_kept_for_later_work(tmp_path):
    kept = Durations(tmp_path / "cache" / "durations.json")
    assert kept.expected("k", 10, THREE) == {}
    for size, seconds in ((1, 9.0), (10, 20.0), (100, 300.0)):  # 9, 2 and 3 seconds a unit
        kept.keep("k", size, dict.fromkeys(THREE, seconds))
    kept.keep("k", 0, {"a": 1.0})
    assert kept.expected("k", 10, THREE) == {"a": 30.0, "b": 30.0, "c": 30.0}
    assert kept.expected("k", 10, ["other"]) == {}
    for _ in range(5):
        kept.keep("k", 1, dict.fromkeys(THREE, 1.0))
    assert kept.expected("k", 1, ["a"]) == {"a": 1.0}
    for damaged in ("", "[]", '{"k": 5}', '{"k": [[0, {"a": 1}]]}', '{"k": [[1, {"a": NaN}]]}'):
        kept.path.write_text(damaged)
        assert kept.expected("k", 1, ["a"]) == {}


def test_a_watcher_keeps_what_came_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("hwflow.views.console.terminal.SHORTEST", 0.0)
    watch = Watcher(rich.console.Console(file=io.StringIO()), shown=False)
    watch.durations = Durations(tmp_path / "durations.json")
    with pytest.raises(KeyboardInterrupt), watch("x", "k", 2):
        raise KeyboardInterrupt
    with watch("x", "k", 2) as work:
        work.unlike_others()
    with watch("x"):
        pass
    assert not watch.durations.path.exists()
    with watch("x", "k", 2) as work:
        assert work.expected == {}
    assert list(json.loads(watch.durations.path.read_text())) == ["k"]
    with watch("x", "k", 4) as work:
        assert set(work.expected) == {"all"}
    with unwatched("x", "k", 4) as work:
        assert (work.share, work.shown) == (None, False)


@pytest.mark.parametrize("width", [40, 80, 100])
def test_a_terminal_has_a_line_for_each_work(width):
    out = io.StringIO()
    console = rich.console.Console(file=out, force_terminal=True, width=width, color_system=None)
    watch = Watcher(console, shown=True)
    with watch("seed 1", phases=PHASES) as first, watch("simulate \x1b[31m" + "x" * 90) as second:
        assert first.shown
        first.say("routing, 3 of 9 arcs")
        second.count(1, 2)
        shown = io.StringIO()
        rich.console.Console(file=shown, width=width, color_system=None).print(watch.lines())
        one, two = shown.getvalue().splitlines()
        assert one.startswith("seed 1: r")
        assert "%" not in one
        assert "50 %" in two
        assert "\x1b" not in two
        assert max(len(one), len(two)) <= width
    assert (watch.live, watch.works) == (None, [])


def test_a_pipe_has_lines_alone(capfd):
    console = Console()
    with console.step("work", "k", 1.0):
        pass
    with console.rows("rows", "frames/s") as show:
        show(1, 2)
    assert [line.partition(":")[0] for line in capfd.readouterr().err.splitlines()] == [
        "work ...", "work", "rows ...", "rows"]


def test_nextpnrs_phases():
    said = []
    listener = Listener("seed 1", said.append, period=0.0)
    listener.work = Work("seed 1", PHASES, dict.fromkeys(PHASES, 10.0), Clock())
    seen = []
    for line in ("Info: Packing constants..", "Info: Creating initial analytic placement for 9 cells",
                 "Info: Running simulated annealing placer for refinement.", "Info: Routing globals...",
                 "Info: Routing..", "Info: Routing 100 arcs.",
                 "Info:       4000 |      285       3331 |   90   802 |        40|       0.24       1.48|",
                 "Info: Router1 time 43.13s"):
        listener(line)
        seen.append(listener.work.phase)
    assert seen == ["packing", "placing", "improving", "improving", *["routing"] * 3, "writing"]
    assert said[-1] == "seed 1: routing, 60 of 100 arcs; 72 % done, about 0 s left"
    listener("Info: Packing constants..")
    assert (listener.work.phase, listener.work.share) == ("packing", None)
