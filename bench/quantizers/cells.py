"""One cell of the comparison: a model, a tool, widths.  A cell that was measured is kept and not measured again.

A worker is a process of its own, in the environment of its tool.  The key of a cell is made of all that its numbers
depend on: both files, the worker, the tool's version (of hwflow: its files), widths and options.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.quantizers.subjects import Subject, file_hash
from hwflow.accuracy.metrics import signal_to_noise
from hwflow.data.dataset import accuracy
from hwflow.onnx.model import Array
from tests.project.tree import ROOT

WORKERS = Path(__file__).parent / "workers"
#: The folders of hwflow that decide what integers it makes.
DECIDES = ("hwflow", "base/hwflow_base")
Widths = tuple[int, int]
#: Seconds and bytes that a cell may take.
SECONDS, BYTES = 900, 12 << 30


@dataclass(frozen=True)
class Tool:
    """A way to quantize: `name` as the page has it, `worker` the program, `python` that of its environment.

    `bits` are the widths that it has, None for any; `only` the widths of weights and activations that are measured,
    None for all.
    """

    name: str
    worker: str
    python: Path
    options: Mapping[str, object] = field(default_factory=dict)
    bits: tuple[int, ...] | None = None
    only: tuple[tuple[int, int], ...] | None = None

    def refusal(self, widths: Widths) -> str:
        """Why a cell is not measured; empty where it is."""
        if self.bits is not None and not set(widths) <= set(self.bits):
            return f"has {', '.join(map(str, self.bits))} bits alone"
        return "" if self.only is None or widths in self.only else "is measured at other widths: it takes minutes"

    @property
    def program(self) -> Path:
        return WORKERS / f"of_{self.worker}.py"


@dataclass(frozen=True)
class Found:
    """What a tool made of a model.  `db` is the mean over the outputs, None where they are equal; `least` the worst.

    `accuracy` (of the labels) and `agreement` (with the float model's classes) are shares; None where there are none.
    `seconds` are of the processor, `peak` the largest memory in bytes.  `left` are operators that stay in float, `said`
    is what a reader has to know.  `why` is what went wrong; nothing else is there then.
    """

    db: float | None = None
    least: float | None = None
    accuracy: float | None = None
    agreement: float | None = None
    seconds: float | None = None
    peak: int | None = None
    version: str = ""
    left: tuple[str, ...] = ()
    said: str = ""
    why: str = ""


def title(widths: Widths) -> str:
    return f"W{widths[0]}A{widths[1]}"


def measured(subject: Subject, tool: Tool, widths: Sequence[Widths], folder: Path) -> dict[Widths, Found]:
    """The numbers of cells, from the folder of a run before or measured now: one process measures all of them."""
    found = {each: Found(why=why) for each in widths if (why := tool.refusal(each))}
    kept = {each: folder / "cells" / f"{key_of(subject, tool, each)}.json" for each in widths if each not in found}
    missing = [each for each, file in kept.items() if not file.is_file()]
    if missing:
        place = folder / "work" / f"{subject.name}-{tool.name.replace(' ', '-')}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        said = run(subject, tool, missing, place)
        (folder / "cells").mkdir(exist_ok=True)
        for each in missing:
            cell = judged(subject, answer_of(place / f"{title(each)}.json", said), place / f"{title(each)}.npz")
            kept[each].write_text(json.dumps(
                {"model": subject.name, "tool": tool.name, "widths": each, "found": asdict(cell)}, indent=1))
        shutil.rmtree(place)
    for each, file in kept.items():
        facts = json.loads(file.read_text())["found"]
        found[each] = Found(**facts | {"left": tuple(facts["left"])})
    return found


def key_of(subject: Subject, tool: Tool, widths: Widths) -> str:
    parts = [subject.sha256, tool.worker, version_of(tool), dict(tool.options), widths,
             *(file_hash(file) for file in (tool.program, WORKERS / "common.py", Path(__file__)))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


@cache
def _files_of_hwflow() -> str:
    names = (file for part in DECIDES for file in sorted((ROOT / part).rglob("*.py")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in names)).hexdigest()[:16]


@cache
def packages(python: Path, names: tuple[str, ...]) -> tuple[str | None, ...]:
    """The versions of packages in the environment of `python`; None for one that is not there."""
    code = ("import importlib.util, importlib.metadata as m, json\n"
            "there = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
            f"print(json.dumps([there.get(name) for name in {list(names)!r}]))")
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return (None,) * len(names)
    return tuple(json.loads(done.stdout))


#: Packages whose versions decide what a worker gives.
PACKAGES = {"hwflow": (), "onnxruntime": ("onnxruntime", "onnx"), "aimet": ("aimet-onnx", "onnxruntime"),
            "brevitas": ("brevitas", "onnx2torch", "torch")}


def version_of(tool: Tool) -> str:
    """Of the packages that decide what it gives."""
    if tool.worker == "hwflow":
        return _files_of_hwflow()
    names = PACKAGES[tool.worker]
    return ", ".join(f"{name} {v}" for name, v in zip(names, packages(tool.python, names), strict=True))


def run(subject: Subject, tool: Tool, widths: Sequence[Widths], place: Path) -> str:
    """Let the worker write its answers; what it said last, where it ended before its time."""
    job = {"model": str(subject.model), "data": str(subject.data), "inputs": subject.inputs,
           "outputs": subject.outputs, "states": subject.states, "widths": widths, "options": dict(tool.options)}
    (place / "job.json").write_text(json.dumps(job))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    if tool.worker == "hwflow":
        environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in ("", "base", "rtl", "sim"))
    limit = SECONDS * len(widths)
    try:
        done = subprocess.run([tool.python, tool.program, place], capture_output=True, text=True, timeout=limit,
                              env=environment, preexec_fn=_limited)
    except subprocess.TimeoutExpired:
        return f"more than {SECONDS} s"
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines()
    return said[-1][:200] if said else f"exit code {done.returncode}"


def answer_of(file: Path, said: str) -> dict[str, Any]:
    """What a worker wrote; where it wrote nothing, what it said last."""
    answer: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {"error": said or "no answer"}
    return answer


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))


def judged(subject: Subject, answer: dict[str, Any], outputs: Path) -> Found:
    """Outputs against those of the float model."""
    if why := answer.get("error") or answer.get("not_there"):
        return Found(why=why)
    floats, made = np.load(subject.folder / "float.npz"), np.load(outputs)
    pairs = dict[str, tuple[Array, Array]]()
    for k, name in enumerate(subject.outputs):
        real = floats[name.replace("/", "_")]
        pairs[name] = real, made[str(k)].reshape(real.shape)
    if not all(np.isfinite(ours).all() for _, ours in pairs.values()):
        return Found(why="outputs that are not finite")
    decibels = [db for pair in pairs.values() if (db := decibels_of(*pair)) is not None]
    labels = np.load(subject.data).get("labels")
    agreements = [np.mean(pairs[n][0].argmax(-1) == pairs[n][1].argmax(-1)) for n in subject.scores]
    return Found(
        db=float(np.mean(decibels)) if decibels else None, least=min(decibels, default=None),
        accuracy=None if labels is None else accuracy({"": pairs[subject.scores[0]][1]}, labels),
        agreement=float(np.mean(agreements)) if agreements else None,
        seconds=answer["seconds"], peak=answer["peak"], version=answer["version"], left=tuple(answer["left"]),
        said=answer["said"])


def decibels_of(real: Array, made: Array) -> float | None:
    """Signal to noise; None where nothing differs."""
    return signal_to_noise({"": real}, {"": made})
