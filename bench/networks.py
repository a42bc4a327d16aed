"""Whole networks as hardware for a ULX3S 85F: equality at every stage boundary, cycles, multipliers, memory, time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.sections import Bench, Subject, percent, table
from bench.synthetic import SYNTHETIC, write
from tests.project.tree import ROOT

BOARD = "ulx3s_85f"
#: Third-party models.
NETWORKS = (
    "tiny_resnet8_float", "tiny_resnet8_int8", "tiny_kws_dscnn_float", "tiny_kws_dscnn_int8",
    "tiny_ad_autoencoder_float", "tiny_ad_autoencoder_int8", "mnist_resdw", "mnist_resdw_int8_qdq", "pypi_mtcnn_pnet",
    "digits_brevitas_w4a4_qcdq", "digits_brevitas_w4a4_qonnx", "qonnx_tfc_2w2a", "qonnx_tfc_1w2a", "digits_mlp",
    "digits_cnn", "digits_cnn_int8_qdq", "mnist_cntk", "motions_conv1d")
SHAPES = {"pypi_mtcnn_pnet": ("input_1=1,32,32,3",)}
FRAMES = 5
#: That `hwflow sim` plays: an interval needs two.
FEWEST = 2

Facts = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """A process that came to its end: what it said as JSON, its seconds, and its largest memory in bytes."""

    answer: Facts
    seconds: float
    peak: int


def run(words: Sequence[str | Path], environment: dict[str, str]) -> Ran:
    """The largest memory is that of the process and of those that it waited for."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(
            [str(word) for word in words], cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True,
            env=os.environ | environment) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read().strip().splitlines()
    seconds = time.monotonic() - began
    try:
        answer: Facts = json.loads(out)
    except ValueError:
        answer = {"error": said[-1] if said else "no answer"}
    if process.returncode:
        answer.setdefault("error", f"exit code {process.returncode}")
    return Ran(answer, seconds, usage.ru_maxrss * 1024)


def measured(bench: Bench, subject: Subject, folder: Path) -> Facts:
    """Everything about one network; a run that was interrupted goes on behind the networks that are done."""
    done = folder / f"{subject.name}.json"
    if done.exists():
        found: Facts = json.loads(done.read_text())
        return found
    place = folder / subject.name
    found = steps(subject, place, {"CCACHE_DIR": str(place / "ccache")})
    if "error" in found:
        bench.failures.append(f"networks {subject.name}: {found['error']}")
    else:
        done.write_text(json.dumps(found))
    return found


def steps(subject: Subject, place: Path, environment: dict[str, str]) -> Facts:
    """ONNX to Verilog; two frames with the compiler and without; several frames."""
    shapes = SHAPES.get(subject.name, ())
    hwflow = [sys.executable, "-m", "hwflow.cli"]
    options = [subject.model, "--data", subject.data, "--build", place, "--board", BOARD, "--json",
               *(word for shape in shapes for word in ("--input-shape", shape))]
    built = run([*hwflow, "build", *options], environment)
    if "error" in built.answer:
        return built.answer
    plan = run([sys.executable, "-m", "bench.plan_facts", subject.model, subject.data, place, *shapes],
               environment)
    runs = [run([*hwflow, "sim", *options, "--frames", str(frames)], environment)
            for frames in (FEWEST, FEWEST, FRAMES)]
    for each in (plan, *runs):
        if "error" in each.answer:
            return each.answer
    return {"plan": plan.answer, "sim": runs[-1].answer, "generate_seconds": built.seconds, "peak": built.peak,
            "compile_seconds": runs[0].seconds, "cached_seconds": runs[1].seconds}


def subjects(bench: Bench, folder: Path) -> list[Subject]:
    found = [subject for subject in bench.subjects(NETWORKS) if subject.name in NETWORKS]
    return [*found, *(Subject(name, *write(name, folder / "models")) for name in SYNTHETIC)]


def networks(bench: Bench) -> str:
    """Whole networks: every stage boundary, cycles against the plan, multipliers, resources, memory, time."""
    folder = bench.folder / "networks"
    proof, costs = [], []
    for subject in subjects(bench, folder):
        print(f"   {subject.name}", file=sys.stderr, flush=True)
        found = measured(bench, subject, folder)
        if "error" in found:
            proof.append([subject.name, f"failed: {found['error']}"])
            continue
        proof.append([subject.name, *proof_cells(found)])
        costs.append([subject.name, *cost_cells(found)])
    head = ("model", "stages", "full speed", "random stalls", "interval planned", "simulated", "first output planned",
            "simulated", "bottleneck", "its cycles of work", "multiplier use of the bottleneck", "of the design")
    cost_head = ("model", "multiplications", "multipliers", "LUT", "FF", "DSP", "RAM", "queues", "line buffers",
                 "ONNX to Verilog", "peak memory", "two frames, compiler included", "again")
    return f"{table(head, proof)}\n\n{table(cost_head, costs)}"


def proof_cells(found: Facts) -> list[object]:
    plan, sim = found["plan"], found["sim"]
    full, stalled = sim["full speed"], sim["random stalls"]
    slowest = max(range(len(plan["stage_facts"])), key=lambda k: plan["stage_facts"][k]["work"])
    stage = plan["stage_facts"][slowest]
    busy = full["stages"][slowest]["busy_cycles_per_frame"] / (full["interval"] or plan["interval"])
    return [plan["stages"], *("equal" if each["equal"] else "DIFFERENT" for each in (full, stalled)),
            plan["interval"], full["interval"], ", ".join(map(str, plan["latency"])), first_outputs(full),
            stage["stage"], percent(busy), percent(stage["use"]), percent(plan["multiplier_use"])]


def first_outputs(full: Facts) -> str:
    """Of every output, or of the only one."""
    cycles = full.get("first_output_cycles", full["first_output_cycle"])
    return ", ".join(map(str, cycles)) if isinstance(cycles, list) else str(cycles)


def cost_cells(found: Facts) -> list[object]:
    plan = found["plan"]
    uses = [plan["resources"][kind] for kind in ("lut", "ff", "dsp", "ram")]
    return [f"{plan['multiplications']:,}", plan["multipliers"], *uses, f"{plan['queue_bytes']:,} bytes",
            f"{plan['line_buffer_bytes']:,} bytes", f"{found['generate_seconds']:.1f} s",
            f"{found['peak'] / 2**20:.0f} MB", f"{found['compile_seconds']:.0f} s", f"{found['cached_seconds']:.1f} s"]


NETWORK_SECTIONS = {networks.__name__: networks}
