"""Fits the estimate of clocks in `hwflow/synth/clocks.json` to the designs that were routed.

    python -m bench.fit_clocks [--models DIR] [--folder build/fit_clocks] [--only NAME] [--write]

In: the designs of the file, each with the clocks of its seeds as docs/measurements has them.  With `--models`, the
features of all designs follow from plans that are made again; without, they are those of the file.  Out: a table of
routed and estimated clocks, in which each design is estimated from all others.  `--write` puts factors, errors and
features into the file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.clock_plans import features_again
from bench.sections import Bench, table
from hwflow.synth import load_board
from hwflow.synth.expected_clock import FILE, ClockFit

#: In the order of the file.
FEATURES = ("filled", "outside", "arithmetic", "alone")


@dataclass(frozen=True)
class Design:
    """A routed design: `mhz` is the mean over its seeds."""

    name: str
    board: str
    family: str
    mhz: float
    features: Mapping[str, float]

    @property
    def alone(self) -> bool:
        """Whether it is between registers, not on a board with its host link."""
        return bool(self.features.get("alone"))


def designs_of(content: Mapping[str, Any]) -> list[Design]:
    """Those of `clocks.json`."""
    return [Design(entry["name"], entry["board"], load_board(entry["board"]).family,
                   sum(entry["mhz"]) / len(entry["mhz"]), entry["features"]) for entry in content["designs"]]


def fitted_to(designs: Sequence[Design]) -> ClockFit:
    """The least squares of the logarithms of the periods: relative errors count alike in all families."""
    families = list(dict.fromkeys(each.family for each in designs))
    rows = [[float(each.family == family) for family in families] + [each.features.get(name, 0.0) for name in FEATURES]
            for each in designs]
    logs = np.log([1e3 / each.mhz for each in designs])
    found = np.linalg.lstsq(np.array(rows), logs, rcond=1e-9)[0]
    bases, weights = found[:len(families)], found[len(families):]
    return ClockFit({family: round(float(np.exp(base)), 3) for family, base in zip(families, bases, strict=True)},
                    {name: round(float(weight), 3) for name, weight in zip(FEATURES, weights, strict=True)}, 0.0, 0.0)


def left_out(designs: Sequence[Design]) -> list[float]:
    """The clock of each design in MHz, estimated by a fit to all others."""
    return [1e3 / fitted_to([other for other in designs if other is not each]).period(each.family, each.features)
            for each in designs]


def text_of(content: Mapping[str, Any]) -> str:
    """The file, a line for each fact and each design."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items() if key != "designs"]
    designs = ",\n".join(f"    {json.dumps(each)}" for each in content["designs"])
    lines.append(f'  "designs": [\n{designs}\n  ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def mean(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / len(errors)


def clocks_table(designs: Sequence[Design]) -> str:
    """Routed and estimated clock of each design, and the errors of groups of designs."""
    guesses = left_out(designs)
    errors = [guess / each.mhz - 1 for guess, each in zip(guesses, designs, strict=True)]
    groups: dict[str, list[tuple[float, str]]] = {}
    for each, error in zip(designs, errors, strict=True):
        alone = "between registers" if each.alone else f"designs on boards, {each.family}"
        for group in ("all", *(() if each.alone else ("designs on boards",)), alone):
            groups.setdefault(group, []).append((error, each.name))
    summary = []
    for group, members in groups.items():
        worst = max(members, key=lambda member: abs(member[0]))
        summary.append([group, str(len(members)), f"{mean([error for error, _ in members]):.1%}",
                        f"{worst[0]:+.0%}, {worst[1]}"])
    rows = [[each.name, each.board, f"{each.mhz:.1f}", f"{guess:.1f}", f"{error:+.1%}",
             f"{each.features['filled']:.1%}", *("yes" if each.features[name] else "" for name in FEATURES[1:3])]
            for each, guess, error in zip(designs, guesses, errors, strict=True)]
    head = ("design", "board", "routed MHz", "estimated", "error", "device filled", "outside", "arithmetic")
    return "\n\n".join([table(("designs", "number", "mean error", "worst"), summary), table(head, rows)])


def clocks(bench: Bench) -> str:
    """Routed and estimated clocks, each design estimated from all others."""
    return clocks_table(designs_of(json.loads(FILE.read_text(encoding="utf-8"))))


CLOCK_SECTIONS = {"clocks": clocks}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="folder of third-party models: make the plans again")
    parser.add_argument("--folder", type=Path, default=Path("build/fit_clocks"), help="for models that are made")
    parser.add_argument("--only", metavar="NAME", help="make only the plan of this design again")
    parser.add_argument("--write", action="store_true", help="write factors, errors and features into the file")
    options = parser.parse_args()
    content = json.loads(FILE.read_text(encoding="utf-8"))
    if options.models:
        options.folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(options.models, options.folder)
        for entry in content["designs"]:
            features = features_again(entry, bench, options.folder) if options.only in (None, entry["name"]) else None
            if features is not None:
                rounded = {name: round(value, 3) for name, value in features.items()}
                print(entry["name"], rounded, file=sys.stderr, flush=True)
                entry["features"] = rounded
    designs = designs_of(content)
    errors = [guess / each.mhz - 1 for guess, each in zip(left_out(designs), designs, strict=True) if not each.alone]
    fit = fitted_to(designs)
    content |= {"family_ns": dict(fit.family_ns), "weights": dict(fit.weights), "error": round(mean(errors), 3),
                "worst": round(max(map(abs, errors)), 3)}
    print(clocks_table(designs))
    if options.write:
        FILE.write_text(text_of(content), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
