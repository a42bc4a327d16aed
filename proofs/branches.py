"""Proofs that a fork and a join do not stop each other: small networks as hwflow plans them, with queues of the depths
that its rule gives (docs/decisions/15-queues-cannot-deadlock.md), for all stalls of what is around them.

That something happens at last is no claim about a cycle.  But what is where follows from the state before and from who
offers and takes.  So a network that stands still for one cycle, in which the source offers and the reader takes, stands
still for as long as they do; and one that never stands still moves its beats, each of which has an end.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from amaranth.hdl import Cat, Mux, Signal, Value
from hwflow_rtl.core import Core
from hwflow_rtl.vendor import Generic

from hwflow import hls
from hwflow.layers import Add, Frame, IntFormat, LayerGraph, MaxPool, Tensor
from hwflow.stages.kinds import stage_of
from hwflow.synth import load_board

from .contract import drive, one_hot_prefix, take
from .methods import Induction
from .proof import Proof
from .scene import Inside, Scene

BITS = IntFormat(2, True)


def joined(width: int) -> LayerGraph:
    """x + the maximum of x: the way of a whole frame beside none."""
    frames = {"x": width, "far": 1, "y": width}
    tensors = {name: Tensor(name, Frame(1, size, 1), BITS, 1.0, 0) for name, size in frames.items()}
    pool = MaxPool(name="pool", inputs=("x",), output="far", input_format=BITS, kernel=(1, width))
    add = Add(name="add", inputs=("x", "far"), output="y", shift=1, zero_point=0, low=-2, high=1, multipliers=(1, 1))
    return LayerGraph("joined", tensors, (pool, add), ("x",), ("y",))


def planned(graph: LayerGraph) -> hls.Plan:
    """As hwflow plans it, with the smallest foldings."""
    foldings = [min(stage_of(graph, layer).foldings(), key=lambda each: each.rows * each.cols)
                for layer in graph.layers]
    return hls.make_plan(graph, foldings, load_board("ulx3s_85f").technology())


#: The link from the fork to the join.
SHORT = 1


def with_depth(plan: hls.Plan, depth: int) -> hls.Plan:
    """The same with another queue in the short branch."""
    return replace(plan, links=tuple(replace(link, depth=depth) if e == SHORT else link
                                     for e, link in enumerate(plan.links)))


def core_of(graph: LayerGraph, plan: hls.Plan) -> Core:
    return hls.lower(graph, plan, Generic(timing=plan.timing, like=plan.device))


def registers(inside: Inside) -> list[Signal]:
    """The registers of a core that say where its beats are: those of its queues, counters and pipelines."""
    known = ("used", "stored", "stored_came", "stored_left", "full", "room", "given_0", "valid_0", "came_0", "made_0")
    found = [signal for statement in inside.fragment.statements.get("sync", [])
             for signal in statement._lhs_signals() if isinstance(signal, Signal) and signal.name in known]
    return found + [each for _, name, _ in inside.fragment.subfragments if name for each in registers(inside[name])]


def never_stops(width: int, depth: int | None = None) -> Scene:
    """`depth`: of the queue in the short branch; None: as the rule has it.  `width` is a power of two."""
    s, graph = Scene(), joined(width)
    m, plan = s.m, planned(graph)
    core = core_of(graph, plan if depth is None else with_depth(plan, depth))
    inside = s.put("core", core)
    drive(s, core.i, "i")
    take(s, core.o, "o")
    push, pop = core.i.valid & core.i.ready, core.o.valid & core.o.ready
    into, owed = Signal(range(width), name="into"), Signal(range(16 * width), name="owed")
    whole = push & (into == width - 1)
    with m.If(push):
        m.d.sync += into.eq(Mux(whole, 0, into + 1))
    m.d.sync += owed.eq(owed + Mux(whole, width, 0) - pop)
    here = Cat(registers(inside))
    waited, was = Signal(name="waited"), Signal(len(here), name="was")
    m.d.sync += [waited.eq(core.o.ready & (core.i.valid | (owed != 0)) & ~push & ~pop), was.eq(here)]
    s.claim("something_moves", ~waited | (was != here))
    beats_are_kept(s, core, inside, width, into, owed)
    s.reach("two_frames", owed > width)
    return s


def level_of(s: Scene, inside: Inside, name: str, depth: int) -> Value:
    """Words in a queue, and what is true of its registers."""
    if "used" in {signal.name for signal in registers(inside)}:
        used = inside.signal("used")
        s.claim(f"{name}_fills_from_one_end", one_hot_prefix(used))
        return Value.cast(sum(used))
    some, full, space = (inside.signal(each) for each in ("some", "full", "space"))
    stored = inside.signal("stored") + inside.signal("stored_step")
    s.claim(f"{name}_some", some == (stored != 0))
    s.claim(f"{name}_space", space == (stored != depth))
    s.claim(f"{name}_stored", (stored >= 0) & (stored <= depth))
    return stored + full


def beats_are_kept(s: Scene, core: Core, inside: Inside, width: int, into: Signal, owed: Signal) -> None:
    """What helps: every beat that is in is somewhere, and every place that was given away has its word."""
    m, pool, add, fork = s.m, inside["stage0_pool"], inside["stage1_add"], inside["fork_i"]
    far, near, first, second, out, results = (level_of(s, part[queue], name, depth) for part, queue, name, depth in (
        (fork, "queue0", "far", 0), (fork, "queue1", "near", core.links[SHORT].depth), (add, "feed0", "first", 0),
        (add["feed1"], "queue", "second", 0), (add, "queue", "out", 0),
        (pool, "queue", "results", len(pool["credit"].signal("room")))))
    at_pool, at_join, ahead = (Signal(range(most), name=name) for most, name in (
        (width, "at_pool"), (width, "at_join"), (32, "frames_ahead")))
    pooled, made = pool.signal("take"), add.signal("taken")
    last, over = pooled & (at_pool == width - 1), made & (at_join == width - 1)
    for beat, end, place in ((pooled, last, at_pool), (made, over, at_join)):
        with m.If(beat):
            m.d.sync += place.eq(Mux(end, 0, place + 1))
    m.d.sync += ahead.eq(ahead + last - over)
    coming = Signal(2, name="coming")  # results on their way to their queue
    m.d.sync += coming.eq(Cat(last, coming[0]))
    folds = pool["folds"]
    fold = folds["fold0"]
    s.claim("completes", folds.signal("completes") == (at_pool == width - 1))
    s.claim("came", (folds.signal("came_0") & (fold.signal("left1") < 0)) == coming[0])
    s.claim("made", fold.signal("made_0") == coming[1])
    s.claim("at_pool", folds.signal("left1").as_signed() == Mux(
        at_pool == width - 1, width - 2, width - 3 - at_pool).as_signed())
    fold_at = (at_pool - folds.signal("came_0"))[:len(at_pool)]
    s.claim("at_fold", fold.signal("left1").as_signed() == width - 2 - fold_at)
    s.claim("at_join", add["feed1"].signal("repeats0").as_signed() == width - 2 - at_join)
    s.claim("every_beat", width * ahead + at_pool + far == at_join + first + near)
    s.claim("every_frame", (at_join + first + near - into)[:len(into)] == 0)
    s.claim("holds", (at_join == 0) | (second != 0))
    s.claim("every_result", ahead == coming[0] + coming[1] + results + second)
    s.claim("every_sum", owed + into == first + near + add.signal("valid_0") + out)
    for stage, busy, name in ((pool, coming[0] + coming[1] + results, "pool"),
                              (add, add.signal("valid_0") + out, "add")):
        room = stage["credit"].signal("room")
        s.claim(f"{name}_room", one_hot_prefix(room))
        s.claim(f"{name}_credit", sum(room) + busy + stage.signal("given_0") == len(room))


#: The least depth of the queue in the short branch with which a frame of 8 passes.
LEAST = 5

BRANCH_PROOFS = tuple(
    Proof("Core", f"a frame of {width} joined with its maximum, {case}",
          "it never stands still while the source offers, or owes beats of frames that are in, and the reader takes",
          partial(never_stops, width, depth), Induction(2), 40)
    for width, case, depth in ((4, "planned depths", None), (8, "planned depths", None), (16, "planned depths", None),
                               (8, f"depth {LEAST}", LEAST)))
