"""The section `quantizers` of the bench: all cells, and the tables of docs/quantizers.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.quantizers.cells import Found, Tool, Widths, measured, title
from bench.quantizers.subjects import Subject, float_models, prepared
from bench.quantizers.tools import DEFAULT, ONNXRUNTIME, OWN, elsewhere
from bench.sections import Bench, table

#: Bits of weights and of activations.
WIDTHS = ((8, 8), (4, 8), (3, 8), (2, 8), (4, 4), (8, 16))
#: Decibels that count as a difference.
DIFFERENCE = 0.5
NO_MODELS = "Not measured: no folder of third-party models was given."
#: What is shown where nothing differs, and where there is no number.
EQUAL, NONE = "equal", "–"

Cells = dict[Widths, dict[str, dict[str, Found]]]


def quantizers(bench: Bench) -> str:
    """Quantization after training by hwflow, onnxruntime, AIMET and Brevitas: signal, accuracy, time, memory."""
    if bench.models is None:
        return NO_MODELS
    others = elsewhere()
    if others.why:
        print(f"   {others.why}", file=sys.stderr, flush=True)
    tools = (*OWN, *ONNXRUNTIME, *others.tools)
    folder = bench.folder / "quantizers"
    models = [name for name in float_models(bench.models) if bench.only in (None, name)]
    subjects = [prepared(bench.models, name, folder / "models") for name in models]
    cells: Cells = {widths: {name: {} for name in models} for widths in WIDTHS}
    for subject in subjects:
        for tool in tools:
            for widths, found in reported(subject, tool, folder):
                cells[widths][subject.name][tool.name] = found
    for widths, rows in cells.items():
        for name, found in rows.items():
            if why := found[DEFAULT].why:
                bench.failures.append(f"quantizers {title(widths)} {name}: {why}")
    return page(cells, [tool.name for tool in tools], others.why)


def reported(subject: Subject, tool: Tool, folder: Path) -> Iterator[tuple[Widths, Found]]:
    for widths, found in measured(subject, tool, WIDTHS, folder).items():
        said = found.why or f"{decibels(found)} dB, {found.seconds:.1f} s"
        print(f"   {subject.name}, {tool.name}, {title(widths)}: {said}", file=sys.stderr, flush=True)
        yield widths, found


def page(cells: Cells, tools: Sequence[str], missing: str) -> str:
    """All tables as Markdown; tests pin that no number is made here."""
    parts = [missing] if missing else []
    parts += ["### All models together", summary(cells, tools), "### Where another tool is better",
              better(cells, tools)]
    for widths, rows in cells.items():
        there = [tool for tool in tools if any(found[tool].why == "" for found in rows.values())]
        parts += [f"### {title(widths)}", signal(rows, there), shares(rows, there)]
    widths = next(iter(cells))
    parts += [f"### Time and memory, {title(widths)}", costs(cells[widths], tools)]
    parts += ["### What was not measured, and why", refusals(cells, tools)]
    return "\n\n".join(parts)


def decibels(found: Found) -> str:
    """Of a cell; marked with a star where layers with weights stay in float."""
    if found.why:
        return NONE
    return (EQUAL if found.db is None else f"{found.db:.1f}") + "*" * bool(found.left)


def comparable(found: Found) -> bool:
    """Whether a tool has quantized all of the model."""
    return not found.why and found.db is not None and not found.left


def signal(rows: dict[str, dict[str, Found]], tools: Sequence[str]) -> str:
    """dB of each model; the best ones of a row are bold."""
    lines = []
    for name, found in rows.items():
        best = max((round(found[tool].db or 0, 1) for tool in tools if comparable(found[tool])), default=None)
        texts = (decibels(found[tool]) for tool in tools)
        lines.append([name, *(f"**{text}**" if text == str(best) else text for text in texts)])
    return table(("dB of the outputs", *tools), lines)


def shares(rows: dict[str, dict[str, Found]], tools: Sequence[str]) -> str:
    """Accuracy of the labels and agreement with the float model's classes, in percent."""
    lines = []
    for name, found in rows.items():
        if any(found[tool].agreement is not None for tool in tools):
            lines.append([name, *(share_of(found[tool]) for tool in tools)])
    return table(("labels / as float, %", *tools), lines)


def share_of(found: Found) -> str:
    if found.agreement is None:
        return NONE
    own = NONE if found.accuracy is None else f"{100 * found.accuracy:.1f}"
    return f"{own} / {100 * found.agreement:.1f}"


def summary(cells: Cells, tools: Sequence[str]) -> str:
    """A tool beside hwflow's default, on the models that both quantize as a whole."""
    lines = []
    for widths, rows in cells.items():
        for tool in tools:
            both = [found for found in rows.values() if comparable(found[tool]) and comparable(found[DEFAULT])]
            if tool != DEFAULT and both:
                apart = [(found[DEFAULT].db or 0) - (found[tool].db or 0) for found in both]
                lines.append([title(widths), tool, len(both), f"{np.mean(apart):+.1f}", f"{min(apart):+.1f}",
                              f"{max(apart):+.1f}", sum(a > DIFFERENCE for a in apart),
                              sum(a < -DIFFERENCE for a in apart)])
    return table(("widths", "hwflow against", "models", "dB more, mean", "least", "most",
                  f"models with {DIFFERENCE} dB more", f"with {DIFFERENCE} dB less"), lines)


def better(cells: Cells, tools: Sequence[str]) -> str:
    """Every cell in which a tool has more signal than hwflow has in any of its ways."""
    own = [tool for tool in tools if tool.startswith(DEFAULT)]
    lines = []
    for widths, rows in cells.items():
        for name, found in rows.items():
            ours = max((found[tool].db or 0 for tool in own if comparable(found[tool])), default=None)
            theirs = {tool: found[tool].db or 0 for tool in tools if tool not in own and comparable(found[tool])}
            ahead = {tool: db for tool, db in theirs.items() if ours is not None and db > ours + DIFFERENCE}
            if ahead and ours is not None:
                best = sorted(ahead, key=lambda tool: -ahead[tool])
                lines.append([title(widths), name, f"{ours:.1f}", ", ".join(f"{t} {ahead[t]:.1f}" for t in best)])
    return table(("widths", "model", "hwflow, dB", "better, dB"), lines) if lines else "Nowhere."


def costs(rows: dict[str, dict[str, Found]], tools: Sequence[str]) -> str:
    """Seconds of one core and the largest memory of the process, libraries included."""
    def cell(found: Found) -> str:
        return NONE if found.seconds is None or found.peak is None else f"{found.seconds:.1f} / {found.peak >> 20}"

    return table(("seconds / MB", *tools), [[name, *(cell(found[tool]) for tool in tools)]
                                            for name, found in rows.items()])


def refusals(cells: Cells, tools: Sequence[str]) -> str:
    """Why a number is missing or marked: what was refused, what stays in float, what had to be left out."""
    reasons: dict[tuple[str, str], dict[str, list[str]]] = {}
    for widths, rows in cells.items():
        for name, found in rows.items():
            for tool in tools:
                cell = found[tool]
                notes = [cell.why, cell.said, f"in float: {', '.join(cell.left)}" if cell.left else ""]
                for note in filter(None, notes):
                    reasons.setdefault((tool, note), {}).setdefault(name, []).append(title(widths))
    lines = []
    for (tool, note), where in reasons.items():
        widths = sorted({text for texts in where.values() for text in texts})
        lines.append([tool, note, shortened(list(where), len(next(iter(cells.values())))),
                      shortened(widths, len(cells))])
    return table(("tool", "what", "models", "widths"), lines)


def shortened(texts: Sequence[str], every: int) -> str:
    return "all" if len(texts) == every > 1 else ", ".join(texts)


QUANTIZER_SECTIONS = {quantizers.__name__: quantizers}
