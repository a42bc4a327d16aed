"""A retrained model for a design with one shared stage: its program and widths stay, weights and constants are new.

The weights are in ROMs, or in the flash beside the FPGA.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import MissingTool

from hwflow import hls, onnx
from hwflow.cli.reweight import ReweightRequest, reweight
from hwflow.cli.synth import SynthRequest, synth
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.pipeline.routed_design import keep_design
from hwflow.reweight.retrained import Retrained
from hwflow.stages.partition import Execution
from hwflow.synth.structure import Structure, structure_of
from hwflow.synth.toolchain import tools_of_family
from hwflow.views.console.terminal import Console
from tests.e2e.networks import small_network, write_data

SHARED = HardwareOptions("icebreaker", execution=Execution.SHARED, reweightable=True)


def models(folder: Path) -> tuple[Path, Path, Path]:
    """A model, the same with all weights changed by about a tenth, and data for both."""
    first = small_network()
    random = np.random.default_rng(11)
    changed = {name: (array * (1 + random.normal(0, 0.1, array.shape))).astype(array.dtype)
               for name, array in first.graph.initializers.items()}
    paths = folder / "first.onnx", folder / "second.onnx"
    onnx.save(first, paths[0])
    onnx.save(replace(first, graph=replace(first.graph, initializers=changed)), paths[1])
    return *paths, write_data(folder / "first.npz", first, rows=12)


def edited(folder: Path, model: Path, data: Path, weight_rows: int) -> HardwareOptions:
    """A plan file for the first model with its weights in the flash, or (0 rows) in ROMs."""
    pipeline = Pipeline(Console(quiet=True), Project(model, data=data, build=folder / "plan"), hardware=SHARED)
    plan = pipeline.plan.with_folding("shared0", weight_rows=weight_rows)
    path = folder / "edited.yaml"
    path.write_text(hls.plan_to_yaml(plan))
    return HardwareOptions("icebreaker", plan=path, reweightable=True)


def structure(pipeline: Pipeline) -> Structure:
    return structure_of(pipeline.design.on_board())


@pytest.mark.parametrize("weight_rows", [pytest.param(0, marks=pytest.mark.slow, id="in ROMs"),
                                         pytest.param(1, marks=pytest.mark.slow, id="in the flash")])
def test_only_contents_change_and_they_compute_the_new_network(tmp_path: Path, weight_rows: int) -> None:
    """The hardware of the first model, simulated with the contents of the second, gives the second one's tensors."""
    first, second, data = models(tmp_path)
    build = tmp_path / "build"
    pipeline = Pipeline(Console(quiet=True), Project(first, data=data, build=build),
                hardware=edited(tmp_path, first, data, weight_rows))
    keep_design(pipeline.quantized, pipeline.plan, pipeline.synthesis, reweightable=True)
    other = Retrained(Console(quiet=True), Project(second, data=data, build=build), "icebreaker",
                      pipeline.folder).pipeline
    ours, theirs = structure(pipeline), structure(other)
    assert ours.digest == theirs.digest
    assert ours.contents != theirs.contents
    images = pipeline.design.image(), other.design.image()
    if weight_rows:
        assert None not in images
        assert images[0] != images[1]
        assert len(images[0]) == len(images[1]) == sum(each.bytes for each in pipeline.plan.streams)
    else:
        assert images == (None, None)
    runs = other.simulate(3, stalls=0.4, seed=1, waves=False)
    assert all(run.equal for run in runs.values())
    compiled = set(other.compiled.iterdir())
    before = pipeline.simulate(3, stalls=0.4, seed=1, waves=False)
    assert all(run.equal for run in before.values())
    assert set(other.compiled.iterdir()) == compiled, "both are the same hardware, compiled once"


@pytest.mark.slow
@pytest.mark.parametrize("weight_rows", [0, 1], ids=["in ROMs", "in the flash"])
def test_the_whole_way(tmp_path: Path, weight_rows: int) -> None:
    """The routed netlist with the new contents, and with the new image in its flash, gives the second one's bytes."""
    try:
        tools_of_family("ice40")
    except MissingTool as error:
        pytest.skip(str(error))
    first, second, data = models(tmp_path)
    build, quiet = tmp_path / "build", Console(quiet=True)
    synth(quiet, SynthRequest(Project(first, data=data, build=build),
                              hardware=edited(tmp_path, first, data, weight_rows)))
    result = reweight(quiet, ReweightRequest(Project(second, data=data, build=build), first, "icebreaker", netlist=True,
                                             frames=2))
    assert (result["exit_code"], result["proof"]["equal"]) == (0, True)
    folders = [build / "first" / place / "icebreaker" / "synth" for place in (".", "reweighted/second")]
    assert len({(folder / "bitstream" / "top.bin").stat().st_size for folder in folders}) == 1
    if weight_rows:
        assert len({(folder / "weights.bin").read_bytes() for folder in folders}) == 2
