"""What workers share: the job of a folder, and the answer.  They run in environments of other people: numpy is there.

    python WORKER.py FOLDER

FOLDER/job.json has `model`, `data`, `inputs`, `outputs`, `states`, `widths` (pairs of bits: weights, activations) and
`options`.  For each of the widths a worker writes FOLDER/WxAy.npz, the outputs [n, *shape] of the test rows by their
place in `outputs`, and FOLDER/WxAy.json, what it has to say of them.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Rows = dict[str, Any]


class NotThere(Exception):
    """The tool does not have what a job asks for; the text says what."""


@dataclass(frozen=True)
class Job:
    folder: Path
    model: Path
    calibration: Rows
    test: Rows
    outputs: list[str]
    states: Mapping[str, str]
    weights: int
    activations: int
    options: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """`infer` gives all outputs of one row by name.  `left` names operators with weights that stay in float; `said` is
    what a reader has to know."""

    infer: Callable[[Rows], Rows]
    version: str
    left: tuple[str, ...] = ()
    said: str = ""


def read_jobs(folder: Path) -> Iterator[Job]:
    facts = json.loads((folder / "job.json").read_text())
    arrays = np.load(facts.pop("data"), allow_pickle=False)
    rows: dict[str, Rows] = {"calib_": {}, "in_": {}}
    for key in arrays.files:
        for prefix in rows:
            if key.startswith(prefix):
                rows[prefix][key.removeprefix(prefix)] = arrays[key]
    names = {name.replace("/", "_"): name for name in facts.pop("inputs")}
    calibration, test = ({names[key]: array for key, array in part.items() if key in names} for part in rows.values())
    model = Path(facts.pop("model"))
    for weights, activations in facts.pop("widths"):
        yield Job(folder, model, calibration, test, weights=weights, activations=activations, **facts)


def each(rows: Rows) -> Iterator[Rows]:
    """Row by row, as a model of batch 1 takes them."""
    for k in range(min(map(len, rows.values()))):
        yield {name: array[k] for name, array in rows.items()}


def evaluate(job: Job, infer: Callable[[Rows], Rows]) -> dict[str, Any]:
    """The outputs of all test rows; states go from row to row and begin with zeros."""
    states = {name: np.zeros_like(job.test[name][0]) for name in job.states}
    made: dict[str, list[Any]] = {name: [] for name in job.outputs}
    for row in each(job.test):
        outputs = infer(row | states)
        states = {name: outputs[output] for name, output in job.states.items()}
        for name in job.outputs:
            made[name].append(np.asarray(outputs[name]))
    return {str(k): np.stack(made[name]) for k, name in enumerate(job.outputs)}


def work(quantize: Callable[[Job], Answer]) -> None:
    """Quantize, take the time and the largest memory so far, evaluate; what goes wrong is the answer, too."""
    for job in read_jobs(Path(sys.argv[1])):
        name = f"W{job.weights}A{job.activations}"
        try:
            began = time.process_time()
            answer = quantize(job)
            seconds = time.process_time() - began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            np.savez(job.folder / f"{name}.npz", **evaluate(job, answer.infer))
            facts: dict[str, Any] = {"seconds": seconds, "peak": peak, "version": answer.version, "left": answer.left,
                                     "said": answer.said}
        except NotThere as why:
            facts = {"not_there": str(why)}
        except Exception as error:
            traceback.print_exc()
            lines = (str(error).strip() or "no message").replace(f"{job.model}: ", "").splitlines()
            said = " ".join(line.strip() for line in lines[:2])
            facts = {"error": f"{type(error).__name__}: {said[:200]}"}
        (job.folder / f"{name}.json").write_text(json.dumps(facts))
