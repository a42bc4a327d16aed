"""What keeps the best design of a search from its goal: the layer that adds most noise, its range, and its widths."""

from __future__ import annotations

from hwflow_base.errors import AnswerIsNo

from hwflow.accuracy import LAYER_ROWS, decibels, layer_noise, most_harmful
from hwflow.search.widths.choose import Outcome
from hwflow.search.widths.knobs import KnobKind, bits_text

#: A share of elements outside of the range that is worth a word.
_SATURATED = 1e-3
#: So many knobs that are held are named.
_NAMED = 3


def unreached(outcome: Outcome, where: str = "") -> AnswerIsNo:
    """That no design of `outcome` reaches its goal: the best one, what limits it, and what to do; `where` ends it."""
    best, goal = outcome.most_accurate, outcome.goal
    bits = bits_text(outcome.knobs, best.bits)
    if goal.noise is None:
        return AnswerIsNo(
            f"no design loses at most {outcome.limit:g} {outcome.metric.unit} of {outcome.metric.name}; the best found "
            f"loses {best.drop:.2f} (bits {bits})",
            "allow a larger --accuracy-drop, give more rows to calibrate with (calib_ arrays), or more "
            f"--search-evaluations{where and f'; {where}'}",
        )
    return AnswerIsNo(
        f"no design has {goal.noise:g} dB at every output; the best found has {best.accuracy:.1f} dB (bits {bits}): "
        f"{limits_of(outcome)}",
        f"ask for {best.accuracy - 0.05:.1f} dB or less{where and f'; {where}'}",
    )


def limits_of(outcome: Outcome) -> str:
    """One sentence about the most accurate design of `outcome`."""
    inputs = {name: rows[:LAYER_ROWS] for name, rows in outcome.metric.dataset.inputs.items()}
    worst = most_harmful(layer_noise(outcome.quantized, inputs))
    said = []
    if worst is not None:
        before = "" if worst.inputs_db is None else f", from {worst.inputs_db:.1f} dB before it"
        said.append(f"layer '{worst.layer}' adds most noise, {decibels(worst.ratio) or 0.0:.1f} dB are left{before}")
        if worst.saturated is not None and worst.saturated > _SATURATED:
            said.append(f"{100 * worst.saturated:.2g} % of its values are outside of its range")
        tied = next((knob for knob in outcome.knobs
                     if knob.also and (KnobKind.OUTPUT, worst.layer) in knob.places), None)  # fmt: skip
        if tied is not None:
            others = ", ".join(f"'{name}'" for _, name in tied.places if name != worst.layer)
            said.append(f"its result has the format of {others}")
    said += [str(held) for held in outcome.held[:_NAMED]]
    if len(outcome.held) > _NAMED:
        said.append(f"{len(outcome.held) - _NAMED} more are held")
    return "; ".join(said) or "its widths are the most that there are"
