"""The eight bytes by which a host knows which design a board holds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError
from hwflow_rtl.multiply.style import MultiplierStyle

import hwflow
from hwflow import hls
from hwflow.hls.plan.plan import Plan
from hwflow.host.identity import IDENTITY_BYTES, BoardFacts, DesignFacts, TransportFacts, identity
from hwflow.layers.base import LayerGraph
from hwflow.layers.store import load_graph, save_graph
from hwflow.quantize import Quantized
from hwflow.stages.kinds import stage_of
from hwflow.stages.partition import Partition, SharedLayers
from hwflow.synth.boards import load_board
from tests.project.tree import ROOT

BOARD = "ulx3s_85f"

AGAIN = """
import sys
from tests.host.test_identity import made
from hwflow.host.identity import identity
graph, plan = made()
print(identity(graph, plan).hex())
"""


def made() -> tuple[LayerGraph, Plan]:
    """The example's integer graph and the smallest foldings, as a plan."""
    quantized: Quantized = hwflow.quantize_model(hwflow.load(ROOT / "models" / "digits_mlp.onnx"))
    graph = quantized.graph
    foldings = [next(iter(stage_of(graph, layer).foldings())) for layer in graph.layers]
    return graph, hls.make_plan(graph, foldings, load_board(BOARD).technology())


@pytest.fixture(scope="module")
def design() -> tuple[LayerGraph, Plan]:
    return made()


def test_eight_bytes_that_stay_when_the_graph_is_written_and_read(design, tmp_path):
    graph, plan = design
    save_graph(graph, tmp_path)
    read = load_graph(tmp_path)
    assert len(identity(graph, plan)) == IDENTITY_BYTES == 8
    assert identity(read, plan) == identity(graph, plan)
    backwards = replace(graph, tensors=dict(reversed(graph.tensors.items())))
    assert identity(backwards, plan) == identity(graph, plan)


def test_the_same_in_another_process(design):
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "77", "PATH": "/usr/bin:/bin"}
    told = subprocess.run([sys.executable, "-c", AGAIN], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert told.stdout.strip() == identity(*design).hex(), told.stderr


@pytest.mark.parametrize("place", [(0, 0), (-1, -1)])
@pytest.mark.parametrize("layer", [0, -1])
def test_one_weight_makes_another_design(design, layer, place):
    graph, plan = design
    layers = list(graph.layers)
    weight = layers[layer].weights.copy()
    weight[place] += 1 if weight[place] < 0 else -1
    layers[layer] = replace(layers[layer], weights=weight)
    assert identity(replace(graph, layers=tuple(layers)), plan) != identity(graph, plan)


@pytest.mark.parametrize("field, change", [
    ("scale", lambda scale: float(np.nextafter(scale, 1e9))), ("zero_point", lambda zero: zero + 1)])
def test_scales_and_zero_points_count(design, field, change):
    graph, plan = design
    for name, tensor in graph.tensors.items():
        tensors = {**graph.tensors, name: replace(tensor, **{field: change(getattr(tensor, field))})}
        assert identity(replace(graph, tensors=tensors), plan) != identity(graph, plan), name


def test_foldings_count_and_estimates_do_not(design):
    graph, plan = design
    stage = plan.stages[0]
    folded = replace(stage, folding=replace(stage.folding, rows=stage.folding.rows + 1))
    assert identity(graph, replace(plan, stages=(folded, *plan.stages[1:]))) != identity(graph, plan)
    estimated = replace(stage, resources=replace(stage.resources, lut=stage.resources.lut + 1))
    assert identity(graph, replace(plan, stages=(estimated, *plan.stages[1:]))) == identity(graph, plan)


def test_values_that_are_no_plain_data_are_refused(design):
    graph, plan = design
    with pytest.raises(TypeError, match="a value of an identity must be plain data, not object"):
        identity(replace(graph, name=object()), plan)


@pytest.mark.parametrize("change", [
    {}, {"rescale": MultiplierStyle.LOGIC}, {"weight_rows": 4}, {"weight_rows": 2, "weight_interval": Fraction(7, 3)}])
def test_foldings_are_read_as_they_were_written(design, change, tmp_path):
    graph, plan = design
    facts = DesignFacts.of(graph, plan, BoardFacts(BOARD, TransportFacts.of_serial_line(9600), 25.0))
    facts = replace(facts, foldings=tuple(replace(folding, **change) for folding in facts.foldings))
    facts.write(tmp_path)
    assert DesignFacts.read(tmp_path) == facts


def test_shared_stages_are_read_as_they_were_written(design, tmp_path):
    graph, plan = design
    facts = DesignFacts.of(graph, plan, BoardFacts(BOARD, TransportFacts.of_serial_line(9600), 25.0))
    stage = SharedLayers("shared0", (0, 2), single_port=True, buffer=256, interval=2, rom_rows=1, banks=2, sliding=True,
                         ahead=1024)
    facts = replace(facts, partition=Partition((stage,)))
    facts.write(tmp_path)
    assert DesignFacts.read(tmp_path) == facts


def swap(old: str, new: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(path.read_text().replace(old, new))


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def silent(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(("damage", "message"), [
    (Path.unlink, "must describe the design on the board: No such file"),
    (silent, "must describe the design on the board: it is a pipe or a device"),
    (endless, "must describe the design on the board: it is a pipe or a device"),
    (swap("{", ""), "must be JSON, which it is not"),
    (swap("25.0", "NaN"), "must be JSON, which it is not \\(NaN is no number\\)"),
    (swap("25.0", "-1"), "clock_mhz: -1 is less than or equal to the minimum of 0"),
    (swap("25.0", "1e999"), "clock_mhz: inf is greater than the maximum of 1000"),
    (swap("115200", "1" + 400 * "0"), "baud: "),
    (swap("../../quantized", "a\\u0000b"), "quantized: "),
    (swap('"style"', f'"weight_interval": "{5000 * "1"}", "style"'), r"foldings/\d/weight_interval: "),
    (swap("115200", "1e999"), "transport/baud: inf is not of type 'integer'"),
    (swap('"interval"', '"rest"'), "the top level: "),
])
def test_a_damaged_file_is_refused(design, tmp_path, damage: Callable[[Path], None], message: str) -> None:
    graph, plan = design
    facts = DesignFacts.of(graph, plan, BoardFacts(BOARD, TransportFacts.of_serial_line(115200), 25.0))
    path = facts.write(tmp_path)
    assert DesignFacts.read(tmp_path) == facts
    damage(path)
    with pytest.raises(HwflowError, match=f"{message}.*; make it with `hwflow synth`"):
        DesignFacts.read(tmp_path)


@pytest.mark.parametrize("change", [
    lambda facts: {"foldings": facts.foldings * 2},
    lambda facts: {"foldings": facts.foldings[:1]},
    lambda facts: {"sums": (*facts.sums, 20)},
    lambda facts: {"sums": ()},
    lambda facts: {"partition": Partition((shared_layers(99),))},
    lambda facts: {"partition": Partition((shared_layers(0, 1),))},
    lambda facts: {"partition": Partition((shared_layers(0), replace(shared_layers(0), name="shared1")))},
])
def test_edited_stages_are_those_of_no_graph(design, tmp_path, change) -> None:
    """With weights in a memory, for which the stages of layers are looked up."""
    graph, plan = design
    outside = replace(plan, stages=tuple(
        replace(stage, folding=replace(stage.folding, weight_rows=1)) for stage in plan.stages))
    facts = DesignFacts.of(graph, outside, BoardFacts(BOARD, TransportFacts.of_serial_line(9600), 25.0))
    facts.write(tmp_path)
    assert DesignFacts.read(tmp_path).is_of(graph)
    replace(facts, **change(facts)).write(tmp_path)
    assert not DesignFacts.read(tmp_path).is_of(graph)


def shared_layers(*layers: int) -> SharedLayers:
    return SharedLayers("shared0", layers, single_port=False, buffer=256, interval=1, rom_rows=1)
