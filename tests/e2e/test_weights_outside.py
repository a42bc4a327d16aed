"""Designs with weights in a memory of the board, from the plan to the netlist, and new weights for a routed one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import hls, onnx
from hwflow.host.identity import DesignFacts, hardware_identity_of, identity_of
from hwflow.host.weight_image import IMAGE_FILE
from hwflow.layers.base import LayerGraph
from hwflow.quantize import Quantized, quantize
from hwflow.reweight.patching import reweight
from hwflow.steps.proof import prove_netlist
from hwflow.synth import load_board
from hwflow.synth.design import Design, SynthesisOptions, synthesize_design
from hwflow.synth.netlist import make_netlist_of
from hwflow.synth.outside import outside_of
from hwflow.synth.toolchain import locate
from tests.e2e.networks import rows_for, small_network

BOARD = "ulx3s_12f"


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    model = small_network()
    return quantize(onnx.simplify(model), rows_for(model, 20))


def design_of(graph: LayerGraph, name: str = BOARD) -> Design:
    """With all weights beside the FPGA."""
    board = load_board(name)
    foldings = [next(iter(layer.foldings(graph))) for layer in graph.layers]
    foldings = [replace(folding, weight_rows=next(iter(layer.weight_rows(graph, folding)), 0))
                for layer, folding in zip(graph.layers, foldings, strict=True)]
    return Design(graph, hls.make_plan(graph, foldings, board.technology(), outside=outside_of(board)), board)


def with_weights(graph: LayerGraph, number: int) -> LayerGraph:
    """Other weights for a layer, and nothing else."""
    layers = list(graph.layers)
    layers[number] = replace(layers[number], weights=-layers[number].weights)
    return replace(graph, layers=tuple(layers))


def test_a_bitstream_and_its_weights_have_names_of_their_own(quantized: Quantized) -> None:
    graph = quantized.graph
    design, other = design_of(graph), design_of(with_weights(graph, 0))
    assert all(stage.folding.weight_rows for stage in design.plan.stages if stage.kind != "max_pool")
    assert design.identity() == other.identity()
    assert design.image() != other.image()
    assert len(design.image()) == design.weights().gateware(design.board).words * 2
    inside = [replace(folding, weight_rows=0) for folding in design.foldings]
    assert hardware_identity_of(graph, inside) == identity_of(graph, inside) != design.identity()
    half = (inside[0], *design.foldings[1:])
    assert hardware_identity_of(graph, half) != hardware_identity_of(other.graph, half)


def test_weights_in_a_flash_are_refused(quantized: Quantized) -> None:
    with pytest.raises(HwflowError, match="can be planned and simulated, but hwflow makes no bitstream with a flash"):
        design_of(quantized.graph, "icebreaker").weights()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ulx3s_12f", "tangnano20k"])
def test_the_netlist_gives_the_golden_models_results(name: str, quantized: Quantized, tmp_path: Path) -> None:
    """The host's driver fills the chip over the serial line, and sends frames."""
    if locate("yosys") is None:
        pytest.skip("yosys must be installed for a netlist")
    graph, design = quantized.graph, design_of(quantized.graph, name)
    netlist = make_netlist_of(design.core(), design.board, tmp_path, ends=design.ends(), identity=design.identity(),
                              weights=design.weights())
    shapes = {name: graph.tensors[name].frame for name in graph.inputs}
    frames = {name: np.random.default_rng(1).integers(-128, 128, (4, frame.height, frame.width, frame.channels))
              for name, frame in shapes.items()}
    for image, equal in ((design.image(), True), (design_of(with_weights(graph, 2)).image(), False)):
        proof = prove_netlist(netlist, design.board, graph, frames, identity=design.identity(),
                              interval=design.plan.interval, folder=tmp_path / "sim", cache=tmp_path / "cache",
                              weights=design.weights(), image=image)
        assert proof.equal is equal, proof.difference


@pytest.mark.slow
def test_other_weights_leave_the_bitstream_as_it_is(quantized: Quantized, tmp_path: Path) -> None:
    if locate("yosys") is None or locate("nextpnr-ecp5") is None:
        pytest.skip("yosys and nextpnr-ecp5 must be installed for a bitstream")
    base, folder = tmp_path / "base", tmp_path / "new"
    first, second = design_of(quantized.graph), design_of(with_weights(quantized.graph, 0))
    report = synthesize_design(first, base, SynthesisOptions(), quantized="quantized", keep=lambda: None)
    assert report.meets_clock
    changed = reweight(second, base, folder, quantized="quantized", keep=lambda: None)
    assert changed.changed == 0
    assert changed.bitstream.read_bytes() == report.bitstream.read_bytes()
    old, new = DesignFacts.read(base), DesignFacts.read(folder)
    assert old.identity == new.identity
    assert old.weights.digest != new.weights.digest
    assert (base / IMAGE_FILE).read_bytes() == first.image()
    assert (folder / IMAGE_FILE).read_bytes() == second.image()
    assert json.loads((base / "report.json").read_text())["memory_mhz"] == 50.0
