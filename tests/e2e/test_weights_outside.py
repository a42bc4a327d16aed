"""Designs with weights in a memory of the board, from the plan to the netlist, and new weights for a routed one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError
from hwflow_rtl.io import BoardTop
from hwflow_rtl.memory import WeightMemory

from hwflow import hls, onnx
from hwflow.hls.plan.outside_memory import outside_cost
from hwflow.host.identity import BoardFacts, DesignFacts, TransportFacts, hardware_identity_of, identity_of
from hwflow.host.weight_image import IMAGE_FILE
from hwflow.layers.base import LayerGraph
from hwflow.pipeline.netlist_proof import NetlistBench
from hwflow.quantize import Quantized, quantize
from hwflow.reweight.patching import reweight
from hwflow.stages.kinds import stage_of
from hwflow.stages.other_weights import with_room
from hwflow.synth import load_board
from hwflow.synth.design import Design, synthesize_design
from hwflow.synth.expected_clock import outside_of
from hwflow.synth.netlist import make_netlist_of
from hwflow.synth.options import ON_BOARD, SynthesisOptions
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
    foldings = [next(iter(stage_of(graph, layer).foldings())) for layer in graph.layers]
    foldings = [replace(folding, weight_rows=next(iter(stage_of(graph, layer).weight_rows(folding)), 0))
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


def test_a_bitstream_has_the_widths_of_its_weights_in_its_name(quantized: Quantized, tmp_path: Path) -> None:
    """Weights outside whose sums need wider accumulators are those of another bitstream, unless there is room."""
    graph = quantized.graph
    layer = graph.layers[0]
    smaller = replace(graph, layers=(replace(layer, weights=np.sign(layer.weights)), *graph.layers[1:]))
    design, other = design_of(graph), design_of(smaller)
    widths = [each.graph.layers[0].accumulator.bits for each in (design, other)]
    assert widths[0] > widths[1]
    assert design.identity() != other.identity()
    room = with_room(graph)
    roomy = [replace(each, structure=room) for each in (design, other)]
    assert roomy[0].identity() == roomy[1].identity() != design.identity()
    line = TransportFacts.of_serial_line(9600)
    for each in (design, roomy[0]):
        facts = DesignFacts.of(graph, each.plan, BoardFacts(BOARD, line, 25.0), structure=each.structure)
        facts.write(tmp_path)
        assert DesignFacts.read(tmp_path) == facts
        assert facts.identity == each.identity()
        assert facts.sums[0] == (each.structure or graph).layers[0].accumulator.bits


@pytest.mark.parametrize("clock", [60.0, ON_BOARD])
def test_a_core_beside_a_flash_is_not_faster_than_it(clock: float | str, quantized: Quantized, tmp_path: Path) -> None:
    design = design_of(quantized.graph, "icebreaker")
    fast = replace(design, board=replace(design.board, clock_mhz=50.0, pll_pad=False)) if clock == ON_BOARD else design
    mhz = 50 if clock == ON_BOARD else 60
    with pytest.raises(HwflowError, match="^the clock of a design with weights in W25Q128JV-DTR must be at most 48 MHz,"
                                          f" which that memory has in the board file, not {mhz} MHz; choose another"):
        synthesize_design(fast, tmp_path, SynthesisOptions(clock=clock), quantized="quantized", keep=lambda: None)
    assert not (tmp_path / "netlist").exists()
    pll = design.on_board().pll(None)
    assert pll is not None
    assert 47 < pll.output_mhz <= 48
    assert design.on_board().pll(ON_BOARD) is None


def test_the_plan_counts_what_the_board_has(quantized: Quantized) -> None:
    """The controller with the check of the seal, and what the host link takes more."""
    design = design_of(quantized.graph, "icebreaker")
    technology, memory = design.board.technology(), design.weights().gateware(design.board)
    streams = [each.stream for each in design.plan.streams]
    built = WeightMemory.cost(part=memory.part, streams=streams, technology=technology)
    around = BoardTop.memory_cost(technology, writable=False, width=32)
    bare = WeightMemory.cost(part=design.board.memories[0].part, streams=streams, technology=technology)
    found = outside_cost(design.plan.outside, design.plan.streams, technology)
    assert (found.lut, found.ff, found.ram) == tuple(getattr(built + around, name) for name in ("lut", "ff", "ram"))
    assert found.lut > bare.lut + 150


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ulx3s_12f", "tangnano20k", "icebreaker", "upduino3", "tangnano9k"])
def test_the_netlist_gives_the_golden_models_results(name: str, quantized: Quantized, tmp_path: Path) -> None:
    """The host's driver fills the chip over the serial line, or a flash has its image, and it sends frames."""
    if locate("yosys") is None:
        pytest.skip("yosys must be installed for a netlist")
    graph, design = quantized.graph, design_of(quantized.graph, name)
    netlist = make_netlist_of(design.on_board(), tmp_path)
    shapes = {name: graph.tensors[name].frame for name in graph.inputs}
    frames = {name: np.random.default_rng(1).integers(-128, 128, (4, frame.height, frame.width, frame.channels))
              for name, frame in shapes.items()}
    for image, equal in ((design.image(), True), (design_of(with_weights(graph, 2)).image(), False)):
        proof = NetlistBench(netlist, design, tmp_path / "sim", tmp_path / "cache").prove(frames, image)
        assert proof.equal is equal, proof.difference


@pytest.mark.slow
@pytest.mark.parametrize(("name", "router"), [(BOARD, "nextpnr-ecp5"), ("icebreaker", "nextpnr-ice40")])
def test_other_weights_leave_the_bitstream_as_it_is(name: str, router: str, quantized: Quantized, tmp_path: Path
                                                    ) -> None:
    if locate("yosys") is None or locate(router) is None:
        pytest.skip(f"yosys and {router} must be installed for a bitstream")
    base, folder = tmp_path / "base", tmp_path / "new"
    first, second = design_of(quantized.graph, name), design_of(with_weights(quantized.graph, 0), name)
    report = synthesize_design(first, base, SynthesisOptions(), quantized="quantized", keep=lambda: None)
    assert report.meets_clock
    changed = reweight(second, base, folder, quantized="quantized", keep=lambda: None)
    assert changed.changed == 0
    assert changed.bitstream.read_bytes() == report.bitstream.read_bytes()
    old, new = DesignFacts.read(base), DesignFacts.read(folder)
    assert old.identity == new.identity
    assert old.weights.digest != new.weights.digest
    flash = first.weights().flash
    for design, place, facts in ((first, base, old), (second, folder, new)):
        image = design.image()
        content = image if flash is None else flash.sealed(np.frombuffer(image, "<u4").astype(np.int64),
                                                           hashlib.sha256(image).digest()[:16])
        assert (place / IMAGE_FILE).read_bytes() == content
        assert facts.weights.read(place) == image
    made = json.loads((base / "report.json").read_text())
    assert made["memory_mhz"] == (50.0 if flash is None else None)
    assert (made["data_margins"] is None) == (flash is None)
    if flash is not None:  # at the clock that routing gives, as far as the flash bears it
        assert 24 < made["clock_mhz"] <= min(flash.flash.clock_mhz, made["usable_mhz"])
