"""Measurements of whole commands: each runs a command as a user would and makes a table of what it says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.project.tree import ROOT, project_files

EXAMPLES = ("digits_cnn", "digits_mlp")
#: Third-party models that are simulated: plain chains of layers.
CHAINS = ("digits_mlp", "digits_cnn", "digits_cnn_legacy", "digits_cnn_int8_qdq", "mnist_cntk", "motions_conv1d",
          "tiny_ad_autoencoder_float", "tiny_ad_autoencoder_int8")  # fmt: skip
GENERATE = """
import sys, time
from pathlib import Path
from hwflow.cli.build import build
from hwflow.views.console.terminal import Console
from hwflow.options import Project
from hwflow.cli.build import BuildRequest
began = time.perf_counter()
project = Project(Path(sys.argv[1]), data=Path(sys.argv[2]), build=Path(sys.argv[3]))
build(Console(quiet=True), BuildRequest(project))
print(time.perf_counter() - began)
"""


@dataclass(frozen=True)
class Subject:
    """A model and its data; `name` says where it is from."""

    name: str
    model: Path
    data: Path


@dataclass
class Bench:
    """Where the models are and where results may go; `failures` collects what did not succeed.

    `kept` says that the folder outlives the run.  `only` names the one row to measure where a section can do that, and
    `seeds` how many seeds place and route tries there (0: as many as the section takes).
    """

    models: Path | None
    folder: Path
    kept: bool = False
    only: str | None = None
    seeds: int = 0
    failures: list[str] = field(default_factory=list)

    def subjects(self, names: Iterable[str]) -> list[Subject]:
        """The example models, then those of `names` that the folder of third-party models has."""
        shipped = [Subject(f"{name} (shipped)", ROOT / "models" / f"{name}.onnx", ROOT / "models" / f"{name}.npz")
                   for name in EXAMPLES]
        if self.models is None:
            return shipped
        manifest = yaml.safe_load((self.models / "manifest.yaml").read_text())["models"]
        files = {entry["id"]: self.models / entry["file"] for entry in manifest}
        return shipped + [Subject(n, files[n], self.models / "data" / f"{n}.npz") for n in names if n in files]

    def hwflow(self, command: str, subject: Subject, *options: str) -> dict[str, Any]:
        """What `hwflow COMMAND MODEL --json` says; a failure is noted and has an "error"."""
        words = [sys.executable, "-m", "hwflow.cli", command, str(subject.model), "--data", str(subject.data),
                 "--build", str(self.folder / subject.name.replace(" ", "-")), "--json", *options]  # fmt: skip
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            answer = {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no answer"}
        if done.returncode:
            self.failures.append(f"{command} {subject.name}")
            answer.setdefault("error", f"exit code {done.returncode}")
        return answer


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = list(header)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f} %"


def simulation(bench: Bench) -> str:
    """Every stage against the golden model, predicted against simulated cycles, accuracy."""
    rows = []
    for subject in bench.subjects(CHAINS):
        answer = bench.hwflow("sim", subject)
        if "error" in answer:
            rows.append([subject.name, f"failed: {answer['error']}"])
            continue
        runs = [run for run in answer.values() if isinstance(run, dict) and "first_output_cycle" in run]
        accuracy = answer["accuracy"] or {}
        rows.append([
            subject.name, len(answer["stages"]), *("equal" if run["equal"] else "DIFFERENT" for run in runs),
            answer["multipliers"], answer["interval"], runs[0]["interval"], percent(answer["multiplier_use"]),
            percent(accuracy.get("float_top1")), percent(accuracy.get("integer_top1"))])  # fmt: skip
    header = ("model", "stages", "full speed", "random stalls", "multipliers", "interval predicted", "simulated",
              "multiplier use", "float", "integer")  # fmt: skip
    return table(header, rows)


def speed(bench: Bench) -> str:
    """Simulated cycles a second, driven from cocotb, against a bare C++ loop."""
    return f"```\n{program(bench, 'bench.simulation_speed').strip()}\n```"


def program(bench: Bench, module: str, *arguments: str) -> str:
    """What another measurement prints."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        bench.failures.append(module)
        sys.stderr.write(done.stderr)
    return done.stdout or f"failed: {done.stderr.strip().splitlines()[-1]}"


def generate(bench: Bench) -> str:
    """Seconds from the ONNX file to Verilog, after start-up, with nothing cached."""
    rows = []
    for subject in bench.subjects(["mnist_cntk"]):
        folder = bench.folder / "generate" / subject.name
        words = [sys.executable, "-c", GENERATE, str(subject.model), str(subject.data), str(folder)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            bench.failures.append(f"generate {subject.name}")
            sys.stderr.write(done.stderr)
        rows.append([subject.name, "failed" if done.returncode else f"{float(done.stdout):.2f} s"])
    return table(("model", "time"), rows)


def fresh(bench: Bench) -> str:
    """`make sim` on a copy of the files that has nothing installed, then again with nothing changed."""
    copy = bench.folder / "fresh"
    for file in project_files():
        target = copy / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    home = bench.folder / "home"  # no caches of pip, ccache or the tools
    home.mkdir()
    hidden = ("VIRTUAL_ENV", "PYTHONPATH", "XDG_CACHE_HOME", "CCACHE_DIR", "PIP_CACHE_DIR", "MAKEFLAGS", "MAKELEVEL")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    rows = []
    for title in ("first, installation included", "again, nothing changed"):
        began = time.monotonic()
        done = subprocess.run(["make", "sim"], cwd=copy, env=kept | {"HOME": str(home)}, capture_output=True, text=True)
        seconds = time.monotonic() - began
        if done.returncode:
            bench.failures.append(f"make sim, {title}")
            sys.stderr.write(done.stderr)
        rows.append([title, f"{seconds:.0f} s" if done.returncode == 0 else f"failed after {seconds:.0f} s"])
    return table(("make sim", "time"), rows)


SECTIONS: dict[str, Callable[[Bench], str]] = {
    section.__name__: section for section in (simulation, generate, speed, fresh)
}
