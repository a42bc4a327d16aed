"""No port of a module is left open, in what is written of every kind of unit, of networks and of boards.

An open input has no value: simulators and synthesis may take any, each another one.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from amaranth.hdl import ClockSignal, Instance, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from hwflow_rtl.emit import emit_rtlil
from hwflow_rtl.io import AxiStreamTop
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.vendor import Generic, Technology
from hwflow_sim.cells import MODELS
from hwflow_sim.packing import ROM_MODULE

from hwflow import hls
from hwflow.layers import LayerGraph
from hwflow.pipeline.simulated_board import simulated_top
from hwflow.pipeline.verilog import simulation_technology
from hwflow.stages.kinds import stage_of
from hwflow.synth import Board, ends_of, list_boards, load_board
from hwflow.synth.design import Design
from hwflow.synth.top import CoreOnBoard, design_text
from tests.networks.test_shared import CASES, Case, graph_of, planned
from tests.random_cases import seeds
from tests.rtl.open_ports import OpenPort, Ports, Seen, ports_of, seen
from tests.strategies.layer_graphs import TINY, any_foldings, network
from tests.synth.board_samples import Through
from tests.synth.board_samples import ends_of as ends_of_frames
from tests.synth.test_unit_costs import HELD_OUT
from tests.synth.unit_samples import sample_of

#: One of each kind, of the first sizes.
UNITS = {shape["unit"]: shape for shapes in reversed(HELD_OUT.values()) for shape in reversed(shapes)}
QUICK = (("icebreaker", "uart"), ("tangnano9k", "uart"), ("ulx3s_85f", "spi"))
FAMILIES = {load_board(name).technology().name: load_board(name).technology() for name in list_boards()}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ports]:
    """For each technology the ports of the modules that are not in a design's own text."""
    folder = tmp_path_factory.mktemp("ports")
    return {"generic": ports_of([ROM_MODULE], folder),
            **{family: ports_of([MODELS[family].verilog], folder) for family in FAMILIES}}


def check(text: str, outside: Ports, family: str = "generic") -> Seen:
    """No port is open but those that a cell of the vendor may have open."""
    found = seen(text, outside)
    allowed = MODELS[family].open if family in MODELS else {}
    wrong = [each for each in found.open if each.kind not in allowed or not allowed[each.kind].fullmatch(each.port)]
    assert not wrong, wrong[:20]
    return found


class Rom(wiring.Component):
    """A ROM whose address has so many bits."""

    def __init__(self, bits: int):
        self.bits = bits
        super().__init__({"data": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rom = Instance(
            "hwflow_rom", p_WIDTH=8, i_clk=ClockSignal(), i_addr=Signal(self.bits), o_data=self.data)
        return m


def test_an_open_port_is_found(ports: dict[str, Ports]) -> None:
    assert seen(emit_rtlil(Rom(1), name="top"), ports["generic"]) == Seen(1, 1, ())
    assert seen(emit_rtlil(Rom(0), name="top"), ports["generic"]) == Seen(
        1, 1, (OpenPort("top", "rom", "hwflow_rom", "addr"),))
    text = emit_rtlil(DeepQueue(shape=unsigned(8), depth=9, technology=Generic(hex_roms=True)), name="top")
    assert not seen(text, {}).open
    cut, count = re.subn(r"(  cell \\top\.\S+ \\\S+\n)    connect .*\n", r"\1", text, count=1)
    assert count == len(seen(cut, {}).open) == 1
    with pytest.raises(KeyError, match="hwflow_rom"):
        seen(emit_rtlil(Rom(1), name="top"), {})


@pytest.mark.parametrize("family", ["generic", *(
    pytest.param(family, marks=pytest.mark.slow) for family in FAMILIES)])
def test_units(ports: dict[str, Ports], family: str) -> None:
    """Of each kind one; a family may lack a multiplier for some."""
    assert len(UNITS) > 30
    missing = 0
    for shape in UNITS.values():
        technology = FAMILIES[family] if family in FAMILIES else Generic(hex_roms=True)
        try:
            text = emit_rtlil(sample_of(shape, technology).unit(), name="top")
        except ValueError as error:
            if "of a multiplier must be at most" not in str(error):
                raise
            missing += 1
            continue
        check(text, ports[family], family)
    assert missing <= (8 if family == "ice40" else 0)


def fastest(graph: LayerGraph, technology: Technology) -> hls.Plan:
    """Every layer as quick as it can be: weights stand beside their multipliers, in ROMs of one word."""
    every = [list(stage_of(graph, layer).foldings_on(technology))
             for layer in graph.layers]
    return hls.make_plan(graph, [min(options, key=lambda each, layer=layer: stage_of(graph, layer).schedule(
        each, technology).interval)
                                 for layer, options in zip(graph.layers, every, strict=True)], technology)


def check_network(graph: LayerGraph, plan: hls.Plan, board: Board, ports: dict[str, Ports]) -> None:
    """Whatever is written of it: a core with AXI4-Stream ports, which has the bare one in it, a simulated board and a
    real one."""
    generic, family = simulation_technology, board.technology().name
    axi = AxiStreamTop(core=hls.lower(graph, plan, generic(plan)), ends=ends_of(plan))
    design = Design(graph, plan, board)
    check(emit_rtlil(axi, name="top"), ports["generic"])
    check(design_text(simulated_top(design, None, generic(plan))), ports["generic"])
    check(design.on_board().text(), ports[family], family)


@pytest.mark.quick(1)
@seeds([0, 1], range(2, 40))
def test_networks(ports: dict[str, Ports], seed: int) -> None:
    """Any folding, and the quickest one."""
    boards = list_boards()
    board = load_board(boards[seed % len(boards)])
    graph, technology = network(seed, TINY), board.technology()
    check_network(graph, fastest(graph, technology) if seed % 2 else hls.make_plan(
        graph, any_foldings(graph, technology, np.random.default_rng(seed)), technology), board, ports)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_shared_stages(ports: dict[str, Ports], case: Case) -> None:
    graph = graph_of(case.model)
    plan = planned(case, graph)
    check(emit_rtlil(hls.lower(graph, plan, simulation_technology(plan)), name="top"), ports["generic"])
    technology = load_board(case.board).technology()
    check(emit_rtlil(hls.lower(graph, plan, technology), name="top"), ports[technology.name], technology.name)


@pytest.mark.parametrize("name, transport", [
    pytest.param(name, transport, marks=[] if (name, transport) in QUICK else pytest.mark.slow)
    for name in list_boards() for transport in load_board(name).transports])
def test_boards(ports: dict[str, Ports], name: str, transport: str) -> None:
    """With every way to the host."""
    chosen = load_board(name).with_transport(transport)
    text = CoreOnBoard(Through(1, 2), chosen, ends_of_frames(1, 2, 8, 6)).text()
    family = chosen.technology().name
    check(text, ports[family], family)
