"""The tables of a search: an explored design space, its routed designs, and the frontier of widths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from hwflow_base.printable import number, percent, rate_text

from ...search.exploration.exploration import Answer, Exploration, Verdict
from ...search.exploration.point import Objective, Point
from ...search.exploration.routing import Routed
from ...search.exploration.tasks import LONGEST
from ...search.widths import Outcome, bits_text
from ...search.widths import Point as Candidate
from ...search.widths.knobs import KnobKind
from .terminal import Console

#: Rows of the table; of a longer frontier some in equal steps.
MAX_ROWS = 24
#: Characters of a reason in the table of boards.
MAX_TEXT = 90


def show_exploration(console: Console, exploration: Exploration) -> None:
    """Say what was found, from the whole to the answer."""
    show_counts(console, exploration)
    if exploration.answer is None or ladders(exploration):
        show_frontier(console, exploration)
    if exploration.answer is not None:
        show_answer(console, exploration, exploration.answer)


def ladders(exploration: Exploration) -> bool:
    """Whether there is more to compare than the designs for a rate."""
    return any(point.asked == LONGEST for point in exploration.points)


def show_counts(console: Console, exploration: Exploration) -> None:
    """How many points there are, and the boards on which nothing fits."""
    points = exploration.points
    fitting = [point for point in points if point.fits]
    designs = len({(point.board, point.design) for point in fitting})
    console.say(f"{number(len(points))} points: {number(designs)} different designs on "
                f"{len({point.board for point in fitting})} of {len(exploration.boards)} boards")
    for board in exploration.boards:
        own = [point for point in points if point.board == board]
        if own and not any(point.fits for point in own):
            console.say(f"  nothing fits {board}: {short(own[0].lacks or own[0].refused or '')}")
    if fitting:
        console.say(f"  clocks are estimated; such estimates are off by {percent(fitting[0].mhz_error, 0)} on average")


def show_frontier(console: Console, exploration: Exploration) -> None:
    """The designs that no other one of their boards beats, the fastest first."""
    points = exploration.frontier
    shown = thinned(points)
    metric = next((point.metric for point in points if point.metric), "")
    timed = Objective.LATENCY in exploration.objectives
    several = len({point.widths for point in points}) > 1
    head = ("board", *(["bits"] if several else []), "execution", "frames/s", "limit", "FPGA alone",
            *([metric] if metric else []), "filled", *(["latency ms"] if timed else []), "LUT", "DSP", "RAM")
    console.table("frontiers: no other design of the board is better in all objectives", head,
                  [row(point, bool(metric), timed, several) for point in shown], second=6)
    console.say("  frames/s: that arrive at the host; limit: what sets their pace, the core of the FPGA, the memory "
                "beside it, or the line to the host")
    for objective in exploration.objectives:
        console.say(f"  {objective.value}: {objective.title}")
    if len(shown) < len(points):
        console.say(f"  {len(shown)} of {len(points)} designs are shown")


def thinned(points: Sequence[Point]) -> list[Point]:
    """Thin the rows out to as many as a table takes."""
    if len(points) <= MAX_ROWS:
        return list(points)
    return [points[round(k * (len(points) - 1) / (MAX_ROWS - 1))] for k in range(MAX_ROWS)]


def row(point: Point, measured: bool, timed: bool, several: bool) -> tuple[str, ...]:
    """The cells of a design: with its accuracy, its latency and its bits where they are wanted."""
    latency = [f"{1000 * point.latency_seconds:.3g}"] if timed else []
    return (point.board, *([point.widths or "default"] if several else []), point.made_as,
            rate_text(point.arriving_per_second), point.rate.limit.value, rate_text(point.frames_per_second),
            *([accuracy(point)] if measured else []), percent(point.filled, 0), *latency, number(point.lut),
            number(point.dsp), number(point.ram))


def accuracy(point: Point) -> str:
    return "" if point.accuracy is None else f"{point.accuracy:.2f}"


def show_answer(console: Console, exploration: Exploration, answer: Answer) -> None:
    """Which board does it, and what smaller ones lack."""
    order = list(answer.verdicts)
    last = order.index(answer.smallest) if answer.smallest is not None else len(order) - 1
    console.table(
        f"boards for {rate_text(answer.rate)} frames/s, the smallest first",
        ("board", "logic cells", "does it", "fits", "frames/s", "what it lacks"),
        [verdict_row(exploration, verdict) for verdict in order[:last + 1]], second=2)
    smallest, before = answer.smallest, answer.next_smaller
    if smallest is None or smallest.design is None:
        console.fail(f"none of the {len(order)} boards does {rate_text(answer.rate)} frames/s; fewer --bits, "
                     "--logic-multipliers or a smaller model may")
        return
    design = smallest.design
    console.say(f"{smallest.board} is the smallest board that does {rate_text(answer.rate)} frames/s: "
                f"{rate_text(design.arriving_per_second)} at an estimated {design.mhz:.0f} MHz, with "
                f"{percent(design.filled, 0)} of its scarcest resource taken"
                f"{f', over {design.transport}' if design.transport else ''}")
    others = [verdict.board for verdict in order[last + 1:]
              if verdict.enough and same_size(exploration, verdict, smallest)]
    if others:
        console.say(f"  as large, and also enough: {', '.join(others)}")
    if before is not None:
        console.say(f"  the next smaller one, {before.board}, does not: {before.lacks}")
    if answer.is_close:
        console.say(f"  within the error of the estimated clock ({percent(design.mhz_error, 0)}) it may do less: "
                    "`hwflow synth` says what it does")


def same_size(exploration: Exploration, one: Verdict, other: Verdict) -> bool:
    return exploration.boards[one.board].resources == exploration.boards[other.board].resources


def verdict_row(exploration: Exploration, verdict: Verdict) -> tuple[str, ...]:
    """The cells of a board."""
    design = verdict.design
    return (verdict.board, number(exploration.boards[verdict.board].resources.lut), "yes" if verdict.enough else "no",
            "no" if design is None else f"yes, {percent(design.filled, 0)} taken",
            "" if design is None else rate_text(design.arriving_per_second), short(verdict.lacks))


def short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT - 3]}..."


def point_facts(point: Point, best: bool, command: str) -> dict[str, object]:
    """A point for CSV and JSON."""
    return {**point.facts(), "on_frontier": best, "command": command}


def exploration_facts(exploration: Exploration) -> dict[str, object]:
    """Everything but the points, for JSON."""
    answer = exploration.answer
    return {
        "model": exploration.model, "objectives": [item.value for item in exploration.objectives],
        "boards": {name: board.resources.counts() for name, board in exploration.boards.items()},
        "answer": None if answer is None else {
            "frames": answer.rate, "smallest": answer.smallest and answer.smallest.board, "close": answer.is_close,
            "next_smaller": answer.next_smaller and answer.next_smaller.board,
            "boards": [{"board": item.board, "enough": item.enough, "lacks": item.lacks,
                        "design": None if item.design is None else item.design.facts()} for item in answer.verdicts]},
    }


# Designs of an exploration that were placed and routed: a table of their runs.


def show_routed(console: Console, routed: Sequence[Routed]) -> None:
    """Every run, and how far off the estimated clocks were."""
    console.table("routed", ("board", "cycles", "seed", "knobs of the placer", "MHz", "FPGA alone", "estimated", "LUT"),
                  [row for design in routed for row in rows(design)], key=2, second=4)
    console.say("  FPGA alone: frames a second without the line to the host; estimated: the clock, in MHz")
    for design in routed:
        for run in design.runs:
            if run.failed:
                console.say(f"  {design.point.board}, seed {run.seed}: {run.failed}")
    errors = [abs(design.error) for design in routed if design.error is not None]
    if errors:
        console.say(f"  the estimates are off by {100 * sum(errors) / len(errors):.0f} % on average, by "
                    f"{100 * max(errors):.0f} % at most, against the runs with nextpnr's own knobs")


def rows(routed: Routed) -> Iterator[tuple[str, ...]]:
    """The cells of each run; a star marks the best."""
    point = routed.point
    for run in routed.runs:
        start = (point.board, number(point.interval), str(run.seed), run.placer or "nextpnr's own")
        rate = routed.rate(run)
        if run.mhz is None or rate is None:
            yield (*start, "failed", "", f"{point.mhz:.0f}", "")
        else:
            best = " *" if run is routed.best else ""
            yield (*start, f"{run.mhz:.1f}{best}", rate_text(rate.core), f"{point.mhz:.0f}",
                   number(run.lut))


# The frontier of the search for widths: a table, a picture, and plain data.


#: Rows of the table; a longer frontier shows the winner, the widest and points between in its place.
MAX_CANDIDATES = 24
#: Characters of a column of the table that lists layers.
MAX_BITS_TEXT = 60


def show_widths(console: Console, outcome: Outcome) -> None:
    """The designs that no other beats, from the most expensive to the cheapest, and what the columns mean."""
    console.table(
        f"frontier for {outcome.pace.budget.name}: no other design is cheaper and as accurate",
        ("", "bits", "LUT", "FF", "DSP", "RAM", "price", outcome.metric.name, f"drop ({outcome.metric.unit})"),
        [_candidate_row(outcome, point) for point in shown_candidates(outcome)],
    )
    inputs = sum(knob.kind is KnobKind.INPUT for knob in outcome.knobs)
    layers = list(dict.fromkeys(knob.name for knob in outcome.knobs if knob.kind is not KnobKind.INPUT))
    entry = f"{'input' if inputs == 1 else f'{inputs} inputs'}, then " if inputs else ""
    console.say(f"  bits: {entry}weights/result of {', '.join(layers)}")
    console.say(
        f"  price: shares of {outcome.pace.budget.name} for LUT, FF, DSP and RAM, added up, at "
        f"{number(outcome.pace.interval)} cycles a frame; * the choice, t fully tuned"
    )
    console.say(f"  {outcome.metric.name}: {outcome.metric.description}, on {number(outcome.metric.rows)} rows")


def shown_candidates(outcome: Outcome) -> list[Candidate]:
    """The widest design, the frontier (thinned where it is long), and the winner, by price."""
    points = list(outcome.frontier)
    if len(points) > MAX_CANDIDATES:
        points = [points[round(k * (len(points) - 1) / (MAX_CANDIDATES - 1))] for k in range(MAX_CANDIDATES)]
    must = [outcome.widest, *([outcome.winner] if outcome.winner else [])]
    points += [point for point in must if point not in points]
    return sorted(points, key=lambda p: (-p.price, p.drop, p.tuned))


def _candidate_row(outcome: Outcome, point: Candidate) -> tuple[str, ...]:
    r = point.resources
    mark = ("*" if point == outcome.winner else "") + ("t" if point.tuned else "")
    text = bits_text(outcome.knobs, point.bits)
    return (
        mark,
        text if len(text) <= MAX_BITS_TEXT else f"{text[: MAX_BITS_TEXT - 3]}...",
        number(r.lut),
        number(r.ff),
        number(r.dsp),
        number(r.ram),
        f"{100 * point.price:.1f} %",
        f"{point.accuracy:.2f}",
        f"{point.drop:.2f}",
    )


def widths_facts(outcome: Outcome) -> dict[str, object]:
    """Everything that was measured, for JSON."""
    return {
        "metric": {"name": outcome.metric.name, "unit": outcome.metric.unit, "rows": outcome.metric.rows,
                   "description": outcome.metric.description},
        "board": outcome.pace.budget.name, "interval": outcome.pace.interval, "limit": outcome.limit,
        "knobs": [{"kind": knob.kind.value, "name": knob.name, "widths": list(knob.widths)} for knob in outcome.knobs],
        "without_hardware": list(outcome.pace.without), "fits": outcome.pace.fits,
        "evaluations": outcome.evaluations, "notes": list(outcome.notes),
        "widest": candidate_facts(outcome.widest),
        "winner": None if outcome.winner is None else candidate_facts(outcome.winner),
        "frontier": [candidate_facts(point) for point in outcome.frontier],
        "points": [candidate_facts(point) for point in outcome.points],
    }  # fmt: skip


def candidate_facts(point: Candidate) -> dict[str, object]:
    return asdict(point) | {"resources": point.resources.counts()}
