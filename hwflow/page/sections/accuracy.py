"""The section "Accuracy" of a report: the integer model against the float model, as commands measured them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from ...accuracy import Accuracy, LayerNoise
from ...outcome import OutcomeWarning
from ...report.accuracy import apart_text, lost_text, value_text, whole_text
from ...report.numbers import number, percent
from ...steps.recording import ACCURACY
from ...steps.records import Record
from ..anchors import stage_anchor
from ..confusion import confusion
from ..noise import histograms, layer_bars, layer_table
from ..reading import found, when
from ..section import Section
from ..subject import Subject
from ..svg import element
from ..table import Cell, table
from ..worst import worst_rows

__all__ = ["accuracy_body", "section"]

ANCHOR, TITLE = "accuracy", "Accuracy"


def section(subject: Subject) -> Section:
    """The integers against the float model: what `quantize`, `golden` or `sim` found on the data."""
    command = subject.command("golden") if subject.dataset else subject.command("golden", "--data", "FILE")
    record = found(subject.folder, ACCURACY, subject.integers)
    if record.other:
        return Section(ANCHOR, TITLE, note("The accuracy in the build folder was measured of other integers: of "
                                           "another model, other data for calibration, or other settings."), command)
    if record.usable is None:
        return Section(ANCHOR, TITLE, note("The accuracy of the integer model was not measured."), command)
    with record.read():
        data = record.usable.facts["data"]
        if subject.rows and data["digest"] != subject.rows:
            return Section(ANCHOR, TITLE, note("The accuracy in the build folder was measured on other rows."), command)
        body = body_of(subject, record.usable)
        layers = record.usable.facts["layers"]
    return Section(ANCHOR, TITLE, body, None if layers else subject.command("golden", "--layer-rows", "16"))


def note(text: str) -> Markup:
    return element("p", text, class_="note")


def body_of(subject: Subject, record: Record) -> Markup:
    """The whole section of a record of this model."""
    facts = record.facts
    accuracy = Accuracy.from_facts(facts["accuracy"])
    noises = tuple(map(LayerNoise.from_facts, facts["layers"]))
    links = {layer: f"#{stage_anchor(stage.name)}" for stage in subject.plan.stages for layer in stage.layers}
    source = f"{number(accuracy.rows)} rows of {facts['data']['file']}, measured on {when(record)}"
    parts = [note(source), accuracy_body(accuracy), warnings_of(facts), confusion(accuracy)]
    if noises:
        rows = int(facts["layer_rows"])
        parts += [element("h3", "Noise of the layers"), layer_bars(noises, links), layer_table(noises, rows),
                  histograms(noises, rows)]
    return Markup("").join([*parts, worst_rows(accuracy, facts["pictures"])])


def accuracy_body(accuracy: Accuracy) -> Markup:
    """The verdict, the measures of both models and the noise of the outputs; notebooks show the same."""
    parts = [tiles(accuracy)]
    if accuracy.metrics:
        parts.append(table(("measure", "output", "float", "integer", "difference"), [
            (metric.name, metric.output, Cell(value_text(metric, metric.real), metric.real),
             Cell(value_text(metric, metric.integer), metric.integer), Cell(lost_text(metric), metric.lost))
            for metric in accuracy.metrics], caption=f"{accuracy.task.value} on {number(accuracy.rows)} rows"))
    if accuracy.outputs:
        parts.append(table(("output", "against the float model", "largest error"), [
            (noise.output, Cell(apart_text(noise), noise.snr_db),
             Cell("not finite" if noise.largest_error is None else f"{noise.largest_error:.4g}", noise.largest_error))
            for noise in accuracy.outputs], caption="Outputs of the integer model against those of the float model"))
    return Markup("").join(parts)


def tiles(accuracy: Accuracy) -> Markup:
    """The numbers that matter most."""
    headline, found = accuracy.headline, [("rows", number(accuracy.rows))]
    if headline is not None:
        found += [(f"{headline.name}, float", value_text(headline, headline.real)),
                  (f"{headline.name}, integer", value_text(headline, headline.integer)),
                  ("difference", lost_text(headline) or "not defined")]
    if accuracy.agreement is not None:
        found.append(("same class from both models", percent(accuracy.agreement, 2)))
    found.append(("outputs against the float model", whole_text(accuracy)))
    return element("dl", *(element("div", element("dt", name), element("dd", text)) for name, text in found),
                   class_="tiles")


def warnings_of(facts: Mapping[str, Any]) -> Markup:
    """What somebody should know of these numbers."""
    warnings = [OutcomeWarning.from_facts(each) for each in facts["warnings"]]
    if not warnings:
        return Markup("")
    return element("p", f"{len(warnings)} warning{'s' if len(warnings) > 1 else ''}:", class_="verdict warn") + element(
        "ul", *(element("li", str(warning)) for warning in warnings))
