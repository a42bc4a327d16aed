"""Every model of the folder of third-party models through `hwflow sim`: what becomes hardware, how accurate it is."""

from __future__ import annotations

import json
import sys
from typing import Any

import yaml

from bench.networks import FEWEST, SHAPES
from bench.sections import Bench, Subject, percent, table

BOARD = "ulx3s_85f"
#: What a model needs beside its data, as a user would say it.
OPTIONS: dict[str, tuple[str, ...]] = {
    name: tuple(word for shape in shapes for word in ("--input-shape", shape)) for name, shapes in SHAPES.items()}

Facts = dict[str, Any]


def every_model(bench: Bench) -> str:
    """Equality at every boundary, cycles against the plan, and accuracy of every model of the folder."""
    if bench.models is None:
        raise SystemExit("the section every_model must have --models DIR")
    entries = yaml.safe_load((bench.models / "manifest.yaml").read_text())["models"]
    rows, equal = [], 0
    for entry in entries:
        subject = Subject(entry["id"], bench.models / entry["file"], bench.models / entry["data"])
        if bench.only not in (None, subject.name):
            continue
        print(f"   {subject.name}", file=sys.stderr, flush=True)
        answer = simulated(bench, subject)
        rows.append([subject.name, *cells(answer)])
        equal += bool(answer.get("equal"))
    head = ("model", "stages", "full speed", "random stalls", "interval planned", "simulated", "rows",
            "float", "integer")  # fmt: skip
    return f"{equal} of {len(rows)} models are equal at every boundary.\n\n{table(head, rows)}"


def simulated(bench: Bench, subject: Subject) -> Facts:
    """What `hwflow sim` says; a run that was interrupted goes on behind the models that are done."""
    folder = bench.folder / "every_model"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / f"{subject.name}.json"
    if done.exists():
        found: Facts = json.loads(done.read_text())
        return found
    options = OPTIONS.get(subject.name, ())
    found = bench.hwflow("sim", subject, "--board", BOARD, "--frames", str(FEWEST), *options)
    if "error" not in found:
        done.write_text(json.dumps(found))
    return found


def cells(answer: Facts) -> list[object]:
    """A row of the table: what failed in the words of hwflow, or the runs with the plan."""
    if "error" in answer:
        first = " ".join(str(answer["error"]).split())
        return [f"failed: {first[:200]}"]
    full, stalled = answer["full speed"], answer["random stalls"]
    accuracy = answer.get("accuracy") or {}
    return [len(answer["stages"]), *("equal" if run["equal"] else "DIFFERENT" for run in (full, stalled)),
            answer["interval"], full["interval"], accuracy.get("rows", ""), percent(accuracy.get("float_top1")),
            percent(accuracy.get("integer_top1"))]


EVERY_MODEL_SECTIONS = {every_model.__name__: every_model}
