"""When each stage works: its bars over the time of a frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from hwflow_base.printable import decimal, number, percent
from markupsafe import Markup

from hwflow.hls.plan.frame_schedule import Activity, FrameSchedule, ScheduleRow
from hwflow.hls.plan.plan import Plan, StagePlan

from .bars import axes
from .chart import Axis, Rule, figure, legend, path, picture
from .markup import Cell, Given, attributes, class_of, element, href, label, linked, table, text_width

#: Sizes in pixels.
WIDTH, BAR, GAP, TOP, BOTTOM, RIGHT, FONT = 680.0, 14.0, 5.0, 20.0, 40.0, 14.0, 12.0
#: Heights that are told apart in a row.
LEVELS = 28
#: Characters of a name.
LONGEST = 28


@dataclass(frozen=True)
class Span:
    """From `start` to `end`, in units of the axis; `tone` is a class of chart.css."""

    start: float
    end: float
    tone: str
    hint: str


@dataclass(frozen=True)
class Profile:
    """From `start` to `end`, in equal parts: of each part the share of the row's height that is filled, 0 to 1."""

    start: float
    end: float
    shares: Sequence[float]
    tone: str
    hint: str


@dataclass(frozen=True)
class Lane:
    """A row; that of `marked` ones is set off.  `link` is where the name leads, `data` has attributes for scripts."""

    name: str
    spans: Sequence[Span | Profile]
    link: str | None = None
    marked: bool = False
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Timeline:
    """Lanes over an axis.  `rules` have an `x`; `through` joins points, each the number of a lane and a place on the
    axis."""

    lanes: Sequence[Lane]
    axis: Axis
    rules: Sequence[Rule] = ()
    through: Sequence[tuple[int, float]] = ()


def gantt(title: str, text: str, time: Timeline, *, names: Mapping[str, str], note: str | None = None) -> Markup:
    """A figure.  `text` says in words what it shows; `names` are those of tones for the legend."""
    lanes, axis = time.lanes, time.axis
    left = 14 + max((text_width(lane.name[:LONGEST], FONT) for lane in lanes), default=0.0)
    scale = WIDTH - left - RIGHT
    bottom = TOP + len(lanes) * (BAR + GAP)
    rows = [drawn(lane, TOP + k * (BAR + GAP), left, scale, axis) for k, lane in enumerate(lanes)]
    across = [rule(mark, left + axis.share(mark.x or 0.0) * scale, bottom, left + 0.6 * scale) for mark in time.rules]
    if time.through:
        points = [(left + axis.share(x) * scale, TOP + k * (BAR + GAP) + BAR / 2) for k, x in time.through]
        across.append(element("path", d=path(points), class_="line through"))
    inside = picture(text, WIDTH, bottom + BOTTOM, axes(axis, left, scale, bottom), *rows, *across,
                     links=any(lane.link for lane in lanes))
    return figure(title, inside, legend([(name, tone, "square") for tone, name in names.items()]), note)


def drawn(lane: Lane, y: float, left: float, scale: float, axis: Axis) -> Markup:
    name = label(lane.name, LONGEST, x=left - 6, y=y + 11, text_anchor="end", class_="name")
    parts = [element("a", name, href=lane.link) if lane.link else name]
    if lane.marked:
        parts.insert(0, element("rect", x=0.0, y=y - 2, width=left + scale, height=BAR + 4, class_="marked"))
    for span in lane.spans:
        start, end = (left + axis.share(end_of_span) * scale for end_of_span in (span.start, span.end))
        if isinstance(span, Profile):
            parts.append(element("path", element("title", span.hint), d=outline(span.shares, start, end, y),
                                 class_=span.tone))
            continue
        parts.append(element("rect", element("title", span.hint), x=start, y=y, width=max(end - start, 0.7),
                             height=BAR, class_=span.tone))
    return element("g", *parts, class_="lane", **attributes(lane.data))


def outline(shares: Sequence[float], start: float, end: float, y: float) -> str:
    """A filled outline above the lower edge of a row; neighbours of about the same height are one step."""
    part, words, now = (end - start) / len(shares), [f"M{start:.1f},{y + BAR:.1f}"], -1.0
    for k, share in enumerate(shares):
        level = round(min(1.0, max(0.0, share)) * LEVELS) / LEVELS
        if level != now:
            words.append(f"H{start + k * part:.1f}V{y + BAR * (1 - level):.1f}")
            now = level
    return f"{''.join(words)}H{end:.1f}V{y + BAR:.1f}Z"


def rule(mark: Rule, x: float, bottom: float, turn: float) -> Markup:
    """A line from top to bottom, whose name is on the side with more room."""
    before = x > turn
    text = label(mark.name, LONGEST, x=x - 4 if before else x + 4, y=TOP - 8, text_anchor="end" if before else None)
    return element("g", element("path", d=path([(x, TOP - 14), (x, bottom)])), text, class_=class_of("rule", mark.tone))


# Pictures of a schedule: when each stage fills, works and waits, for one frame and for frames back to back.


#: Parts of a frame whose shares of work are drawn.
PARTS = 120
#: No schedule with more cycles a frame is drawn: it would be played beat by beat, which takes minutes.
MOST_CYCLES = 3_000_000
#: Frames that are drawn back to back, at least and at most.
FEWEST, MOST = 3, 6
NAMES = {"fills": "fills: collects what the first result needs", "works": "works: the height is the share of cycles",
         "waits": "waits: for beats, for weights, or for room"}


def is_drawn(plan: Plan) -> bool:
    """Whether the schedule of the plan is short enough to be played for a picture."""
    return plan.interval <= MOST_CYCLES


def not_drawn(plan: Plan) -> Markup:
    """Why there is no picture of the schedule."""
    return element("p", f"The schedule is not drawn: a frame has {number(plan.interval)} cycles, and pictures have at "
                        f"most {number(MOST_CYCLES)}.")


def frames_shown(plan: Plan) -> int:
    """So many that one begins after the first is done, where that is not too many."""
    return min(MOST, max(FEWEST, 2 + max(plan.latency) // plan.interval))


def limit_of(plan: Plan) -> tuple[str, StagePlan | None]:
    """The reason of the interval between frames, as a sentence, and the stage if it is one: the one with the most
    multipliers of several."""
    stages = [stage for stage in plan.stages if stage.schedule.interval == plan.interval]
    if stages:
        slowest = max(stages, key=lambda stage: stage.schedule.multipliers)
        others = len(stages) - 1
        more = f" ({others} more {'stage needs' if others == 1 else 'stages need'} as many cycles)" if others else ""
        cycles = number(plan.interval)
        return f"Stage {slowest.name} sets the pace: it needs {cycles} cycles for a frame{more}.", slowest
    links = [link for link in plan.links if link.cycles == plan.interval]
    if links:
        beats = f"{number(plan.interval)} beats a frame"
        return f"The stream {plan.name_of(links[0])} sets the pace: it carries {beats}, at most one a cycle.", None
    return ("Frames wait for a shared stage, which takes them in only at times: they follow each other every "
            f"{number(plan.interval)} cycles."), None


def one_frame(plan: Plan, schedule: FrameSchedule, *, links: bool = True) -> Markup:
    """The first frame into the idle design; a line leads along the way to its first result.

    With `links` the names of stages lead to their cards.
    """
    end = max(frames[0][1] for _, frames in schedule.outputs)
    slowest = limit_of(plan)[1]
    lanes = [*ends_lanes("input", schedule.inputs, 1), *stage_lanes(schedule.rows, 1, slowest, links=links),
             *ends_lanes("output", schedule.outputs, 1)]
    rules = [Rule(f"first result: cycle {number(frames[0][0])}", x=frames[0][0])
             for _, frames in schedule.outputs[:1]]
    return gantt("One frame into the idle design", (
        f"A row for each of {len(plan.stages)} stages, from the first beat of the frame to its last result after "
        f"{number(end)} cycles. The table has the numbers."),
        Timeline(lanes, Axis("cycles", 0, max(end, 1)), rules, latency_path(schedule, len(schedule.inputs))),
        names=NAMES, note="The thin line joins the first results that the first output waits for: the longest way to "
        "the first result.")


def back_to_back(plan: Plan, schedule: FrameSchedule) -> Markup:
    """All frames of the schedule, as fast as the design takes them."""
    frames = len(schedule.outputs[0][1])
    slowest = limit_of(plan)[1]
    lanes = [*ends_lanes("input", schedule.inputs, frames), *stage_lanes(
        [row for row in schedule.rows if not row.step], frames, slowest),
        *ends_lanes("output", schedule.outputs, frames)]
    done = [max(ends[k][1] for _, ends in schedule.outputs) for k in range(frames)]
    rules = [Rule(f"frame {k + 1} done" if k in (0, frames - 1) else "", x=cycle) for k, cycle in enumerate(done)]
    most = " or fewer" if plan.is_bound else ""
    note = (f"Frames alternate between two tones. The last two results are {number(done[-1] - done[-2])} cycles apart; "
            f"the plan has {number(plan.interval)}{most}.")
    return gantt("Frames back to back", (
        f"{frames} frames follow each other as fast as the design takes them; a row for each stage. The last one is "
        f"done after {number(done[-1])} cycles."), Timeline(lanes, Axis("cycles", 0, max(schedule.end, 1)), rules),
        names=NAMES, note=note)


def stage_lanes(rows: Iterable[ScheduleRow], frames: int, slowest: StagePlan | None, *, links: bool = True
                ) -> list[Lane]:
    """A lane for each row with its first frames."""
    lanes = []
    for row in rows:
        spans: list[Span | Profile] = []
        free = 0.0
        for k, activity in enumerate(row.frames[:frames]):
            spans += spans_of(row, activity, k, frames, free)
            free = float(activity.ends[-1])
        marked = slowest is not None and row.stage == slowest.name and not row.step
        leads = href(row.stage) if links and not row.step else None
        lanes.append(Lane(f"· {row.step}" if row.step else row.stage, spans, leads, marked, {"stage": row.stage}))
    return lanes


def spans_of(row: ScheduleRow, activity: Activity, k: int, frames: int, free: float) -> list[Span | Profile]:
    """The spans of frame k in a row, from the cycle on in which the frame before it is done."""
    title = f"{row.step or row.stage}, frame {k + 1}" if frames > 1 else row.step or row.stage
    tone = " second" if k % 2 else ""
    start, end = float(activity.starts[0]), float(max(activity.end, activity.ends[-1]))
    shares = activity.shares(np.linspace(start, end, 1 + max(1, PARTS // frames)))
    begin = max(float(activity.begin), free)
    works = (f"{title}: works in {number(round(activity.works))} of {number(round(end - start))} cycles, from cycle "
             f"{number(round(start))} to {number(round(end))}; first result in cycle {number(activity.first)}")
    spans: list[Span | Profile] = []
    if begin < start:
        fills = number(round(activity.fills))
        spans.append(Span(begin, start, f"fills{tone}", f"{title}: takes its first beat in cycle "
                                                        f"{number(activity.begin)} and fills for {fills} cycles"))
    if activity.waits >= 1:
        spans.append(Span(start, end, f"waits{tone}", f"{title}: waits in {number(round(activity.waits))} cycles"))
    return [*spans, Profile(start, end, [float(share) for share in shares], f"works{tone}", works)]


def ends_lanes(what: str, tensors: Sequence[tuple[str, Sequence[tuple[int, int]]]], frames: int) -> list[Lane]:
    """A lane for each input or output of the design: when its beats pass."""
    return [Lane(f"{what} {name}", [
        Span(first, last + 1, "passes second" if k % 2 else "passes",
             f"{what} {name}, frame {k + 1}: first beat in cycle {number(first)}, last one in {number(last)}")
        for k, (first, last) in enumerate(cycles[:frames])]) for name, cycles in tensors]


def latency_path(schedule: FrameSchedule, inputs: int) -> list[tuple[int, float]]:
    """Lane and cycle of the first results on the way to the first output."""
    lanes = {row.stage: inputs + k for k, row in reversed(list(enumerate(schedule.rows))) if not row.step}
    points = [(lanes.get(step.stage, inputs + len(schedule.rows)), float(step.cycle)) for step in schedule.paths[0]]
    return [(max(0, inputs - 1), 0.0), *points]


def stage_table(plan: Plan, schedule: FrameSchedule) -> Markup:
    """The numbers of the first frame, and how much of the interval each stage works."""
    slowest, rows = limit_of(plan)[1], list[Sequence[Given]]()
    shown = [row for row in schedule.rows if not row.step]
    for stage, row in zip(plan.stages, shown, strict=True):
        one, busy = row.frames[0], stage.schedule.work / plan.interval
        name = linked(stage.name) + (Markup(" (sets the pace)") if stage is slowest else Markup(""))
        rows.append((name, one.begin, one.first, one.end,
                     round(one.fills), round(one.works), round(one.waits), stage.schedule.interval,
                     Cell(percent(busy), busy)))
    return table(("stage", "first beat in", "first result", "last result", "fills", "works", "waits", "needs a frame",
                  "busy"), rows, caption="Cycles of the first frame; what a stage needs for a frame at full pace; and "
                                         "the share of the interval in which it is busy",
                 data=[{"stage": stage.name} for stage in plan.stages])


def path_table(schedule: FrameSchedule, mhz: float) -> Markup:
    """For each output the stages on the way to its first beat; the cycles add up to its latency."""
    tables = []
    for (name, frames), stages in zip(schedule.outputs, schedule.paths, strict=True):
        total = max(frames[0][0], 1)
        rows: list[Sequence[Given]] = [
            (linked(step.stage) if step.stage else f"output {name}", step.cycle, step.after,
             Cell(decimal(step.after / mhz, 2), step.after / mhz),
             Cell(percent(step.after / total), step.after / total)) for step in stages]
        tables.append(table(("first result of", "in cycle", "cycles after the one before", "µs", "share"), rows,
                            caption=f"The way to the first beat of output {name}: {number(total)} cycles"))
    return Markup("").join(tables)
