"""Fits the constants of `hwflow_rtl/vendor/fitted.json` to what synthesis makes of the shapes that it lists.

    python -m bench.fit_costs [--board NAME ...] [--only UNIT ...] [--folder build/fit_costs] [--shapes] [--write]

In: the shapes of each unit.  Out: a table of each factor as it is in the file and as it fits best, and of how many
cells the file and the best fit are off, on average over all shapes and boards.  `--shapes` shows besides what each
shape takes, and what its unit says.  `--write` puts the best factors,
rounded to quarters, into the file.  The shapes of a unit are synthesized side by side; netlists stay in the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.vendor.fitted import CONSTANT, FILE, Fit, fits

from bench.sections import table
from hwflow.synth import load_board
from tests.synth.sample import Sample
from tests.synth.side_by_side import used_by
from tests.synth.unit_samples import key_of, sample_of

#: One of each family.
BOARDS = ("ulx3s_85f", "icebreaker", "tangnano9k")
KINDS = ("lut", "ff")
#: Factors are written as multiples of one part of so many.
PARTS = 4


@dataclass(frozen=True)
class Seen:
    """A shape on a board: what it takes, what its cost says, and the quantities that each fit was asked with."""

    key: str
    technology: Technology
    used: Resources
    planned: Resources
    asked: Mapping[str, Mapping[str, int]]

    def misses(self, fit: Fit, kind: str) -> float:
        """What is left for `fit` to say: what the unit takes, less what the rest of its cost says."""
        cost = replace(self.planned, **{kind: getattr(self.planned, kind) - self.own(fit, kind)})
        return getattr(self.used, kind) - getattr(self.technology.placed(cost), kind)

    def own(self, fit: Fit, kind: str) -> int:
        """What `fit` says now."""
        return sum(int(factor * self.asked[fit.name][name]) for name, factor in getattr(fit, kind).items())


def quantities_asked(sample: Sample) -> tuple[Resources, dict[str, dict[str, int]]]:
    """The cost of a unit, and the sums of the quantities that it and its parts asked each fit with."""
    asked: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    look_up = Fit.resources

    def listen(fit: Fit, **quantities: int) -> Resources:
        for name, value in {**quantities, CONSTANT: 1}.items():
            asked[fit.name][name] += value
        return look_up(fit, **quantities)

    with mock.patch.object(Fit, "resources", listen):
        return sample.cost(), asked


def synthesized(shapes: Sequence[Mapping[str, Any]], name: str, folder: Path) -> list[Seen]:
    """The units of all shapes that the board's family can have."""
    board = load_board(name)
    technology = board.technology()
    units, costs = [], []
    for shape in shapes:
        sample = sample_of(shape, technology)
        with contextlib.suppress(ValueError):  # the family has no such unit
            costs.append((key_of(shape), *quantities_asked(sample)))
            units.append(sample.unit())
    used = used_by(units, board, folder / name) if units else []
    return [Seen(key, technology, taken, cost, asked) for taken, (key, cost, asked) in zip(used, costs, strict=True)]


def fitting(fit: Fit, kind: str, seen: Iterable[Seen]) -> tuple[list[list[str]], dict[str, Fraction]]:
    """A row for each factor, and the factors that fit best."""
    asked = [each for each in seen if fit.name in each.asked]
    names = list(getattr(fit, kind))
    if not asked or not names:
        return [], {}
    quantities = np.array([[each.asked[fit.name][name] for name in names] for each in asked], float)
    misses = np.array([each.misses(fit, kind) for each in asked])
    now = np.array([float(getattr(fit, kind)[name]) for name in names])
    # What the shapes do not tell apart stays as near as can be to what it is.
    best = now + np.linalg.lstsq(quantities, misses - quantities @ now, rcond=1e-6)[0]
    rounded = {name: Fraction(round(PARTS * factor), PARTS) for name, factor in zip(names, best, strict=True)}
    errors = [float(np.abs(misses - quantities @ factors).mean()) for factors in (now, best)]
    rows = [[fit.name, kind.upper(), name, str(getattr(fit, kind)[name]), f"{factor:.2f}",
             *([str(len(asked)), *(f"{error:.1f}" for error in errors)] if n == 0 else ["", "", ""])]
            for n, (name, factor) in enumerate(zip(names, best, strict=True))]
    return rows, rounded


def shapes_seen(shapes: Mapping[str, Sequence[Seen]]) -> list[list[str]]:
    """Of what was seen on each board a row for each shape: what its unit says, and what it takes."""
    rows = []
    for board, seen in shapes.items():
        for each in seen:
            planned = each.technology.placed(each.planned)
            pairs = ((getattr(planned, kind), getattr(each.used, kind)) for kind in ("lut", "ff", "dsp", "ram"))
            rows.append([board, each.key, *(str(number) for pair in pairs for number in pair)])
    return rows


def text_of(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The file, a line for each fact and each shape."""
    parts = []
    for name, entry in entries.items():
        lines = [f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in entry.items() if key != "shapes"]
        shapes = ",\n".join(f"      {json.dumps(shape)}" for shape in entry["shapes"])
        lines.append(f'    "shapes": [\n{shapes}\n    ]' if shapes else '    "shapes": []')
        parts.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", action="append", choices=BOARDS, help="only on this board; more than once for more")
    parser.add_argument("--only", action="append", choices=sorted(fits()), metavar="UNIT", help="only these fits")
    parser.add_argument("--folder", type=Path, default=Path("build/fit_costs"), help="keeps the netlists")
    parser.add_argument("--shapes", action="store_true", help="show what each shape takes")
    parser.add_argument("--write", action="store_true", help="write the best factors into the file")
    options = parser.parse_args()
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    rows, shapes = [], []
    for name, fit in fits().items():
        if not fit.shapes or name not in (options.only or fits()):
            continue
        folder = options.folder.resolve() / hashlib.sha256("".join(map(key_of, fit.shapes)).encode()).hexdigest()[:16]
        by_board = {board: synthesized(fit.shapes, board, folder) for board in options.board or BOARDS}
        shapes += shapes_seen(by_board)
        seen = [each for found in by_board.values() for each in found]
        for kind in KINDS:
            found, factors = fitting(fit, kind, seen)
            rows += found
            entries[name] |= {kind: {quantity: int(factor) if factor.denominator == 1 else str(factor)
                                     for quantity, factor in factors.items()}} if factors else {}
    print(table(("unit", "cells", "factor of", "in the file", "best", "shapes", "file is off", "best is off"), rows))
    if options.shapes:
        print(table(("board", "shape", *(f"{kind} {what}" for kind in ("LUT", "FF", "DSP", "RAM")
                                         for what in ("said", "taken"))), shapes))
    if options.write:
        FILE.write_text(text_of(entries), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
