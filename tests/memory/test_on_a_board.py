"""The whole way on a simulated board: the host's driver, the link, the controller and the chip, a core with weights."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_base.errors import ToolFailed
from hwflow_rtl.io import BoardTop, Clocking
from hwflow_rtl.io.transports import Uart
from hwflow_rtl.memory import SdramPart, WeightMemory, WeightStream
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import link, payload_of, stream_of
from hwflow_rtl.vendor import Generic, Technology
from hwflow_sim.board import (
    CompiledBoard,
    SimulatedBoard,
    UartLine,
    compile_board,
    netlist_design,
    read_netlist,
    rtl_design,
)
from hwflow_sim.sdram import board_chip

from hwflow.host import LinkFailed
from hwflow.host.host_link import HostLink
from hwflow.synth import load_board
from hwflow.synth.board_weights import BoardWeights
from hwflow.synth.netlist import make_netlist_of
from hwflow.synth.toolchain import locate
from hwflow.synth.top import CoreOnBoard
from tests.memory.parts import SMALL
from tests.sim.small_board import linked

BEATS, WIDTHS = 40, (8, 12)
STREAMS = [WeightStream(signed(width), 1, BEATS) for width in WIDTHS]
DIVIDER = 8
PINS = ("clk", "cke", "cs_n", "ras_n", "cas_n", "we_n", "ba", "a", "dqm", "dq")


class Weighted(wiring.Component):
    """Multiplies each element of a frame by the weights of two streams, and gives the low 8 bits."""

    def __init__(self):
        super().__init__({"i": In(stream_of(signed(8), 1)), "o": Out(stream_of(signed(8), 1)),
                          **{f"weights{n}": In(stream_of(each.shape, 1)) for n, each in enumerate(STREAMS)}})

    def elaborate(self, platform):
        m = Module()
        m.submodules.results = results = Queue(shape=payload_of(self.o), depth=2)
        link(m, results.o, wiring.flipped(self.o))
        ports = (self.i, self.weights0, self.weights1)
        product = self.i.payload[0] * self.weights0.payload[0] * self.weights1.payload[0]
        m.d.comb += [results.i.valid.eq(Value.cast(1)), Value.cast(results.i.payload).eq(product[:8])]
        for port in ports:
            others = [other.valid for other in ports if other is not port]
            m.d.comb += port.ready.eq(results.i.ready & others[0] & others[1])
        m.d.comb += results.i.valid.eq(self.i.valid & self.weights0.valid & self.weights1.valid)
        return m


def weights_of(seed: int) -> list[np.ndarray]:
    noise = np.random.default_rng(seed)
    return [noise.integers(-1 << width - 1, 1 << width - 1, (BEATS, 1)) for width in WIDTHS]


def top_of(part: SdramPart, technology: Technology, **more) -> BoardTop:
    """`domain` of the memory, and what else a `BoardTop` has."""
    domain = more.pop("domain", "memory")
    clocking = Clocking(technology=technology, board_mhz=25.0, memory=domain == "memory", has_reset=True)
    memory = WeightMemory(part=part, streams=STREAMS, technology=technology, domain=domain)
    return BoardTop(core=Weighted(), clocking=clocking, transport=Uart(divider=DIVIDER), identity=b"weighted",
                    technology=technology, memory=memory, memory_pins=PINS, **more)


def image_of(memory: WeightMemory, seed: int) -> tuple[bytes, bytes]:
    """An image, low bytes first, and its digest."""
    words = memory.image(weights_of(seed))
    image = words.astype(f"<u{memory.part.width // 8}").tobytes()
    return image, hashlib.sha256(image).digest()[:16]


def answers(data: bytes, seed: int) -> bytes:
    first, second = weights_of(seed)
    frames = np.frombuffer(data, np.int8).astype(int).reshape(-1, BEATS)
    return (frames * first[:, 0] * second[:, 0]).astype(np.uint8).tobytes()


def noise(frames: int) -> bytes:
    return np.random.default_rng(9).integers(0, 256, frames * BEATS, dtype=np.uint8).tobytes()


@pytest.mark.parametrize("domain", ["memory", pytest.param("sync", marks=pytest.mark.slow)])
def test_filled_over_the_line_and_read_for_every_frame(domain: str, tmp_path: Path, cache: Path) -> None:
    top = top_of(SMALL, Generic(), domain=domain)
    board = compile_board(rtl_design(top, {}, board_chip(SMALL, PINS)), folder=tmp_path, cache=cache, jobs=2)
    talk(board, top.memory, DIVIDER)


@pytest.mark.slow
def test_a_violation_of_the_data_sheet_ends_the_simulation(tmp_path: Path, cache: Path) -> None:
    """The chip wants more time than the controller was told."""
    slower = replace(SMALL, timing=replace(SMALL.timing, t_rcd=SMALL.timing.t_rcd + 30))
    design = rtl_design(top_of(SMALL, Generic(), domain="sync"), {}, board_chip(slower, PINS))
    compiled = compile_board(design, folder=tmp_path, cache=cache, jobs=2)
    with SimulatedBoard(compiled, line=UartLine(DIVIDER)) as simulated, pytest.raises(
            ToolFailed, match=r"the simulated board ended(.|\n)*the memory chip, cycle \d+: t_rcd"):
        linked(simulated).fill(bytes(120), bytes(16))


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["chip_dq & 16'hfeff", *(
    pytest.param(answer, marks=pytest.mark.slow) for answer in ("16'h1234", "chip_dq ^ {15'b0, memory_a[3]}"))])
def test_a_memory_that_does_not_give_what_was_written_is_never_filled(answer: str, tmp_path: Path, cache: Path) -> None:
    """A data line that is stuck, a chip that is not there, and a line that now and then is wrong."""
    top, chip = top_of(SMALL, Generic(), domain="sync"), board_chip(SMALL, PINS)
    broken = f"  wire [15:0] chip_dq;\n  assign memory_dq_i = {answer};\n" + chip.verilog.replace(
        ".dq_out(memory_dq_i)", ".dq_out(chip_dq)")
    design = rtl_design(top, {}, replace(chip, verilog=broken))
    compiled = compile_board(design, folder=tmp_path, cache=cache, jobs=2)
    with SimulatedBoard(compiled, line=UartLine(DIVIDER)) as simulated:
        host = linked(simulated)
        with pytest.raises(LinkFailed, match=r"must take its weights, but did not in .* see that the board has the me"):
            host.fill(*image_of(top.memory, 1))
        with pytest.raises(LinkFailed, match="must have the weights of the design, but has none"):
            host.exchange(noise(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ulx3s_12f", "colorlight_i5", "tangnano20k"])
def test_the_netlist_of_a_board(name: str, tmp_path: Path, cache: Path) -> None:
    """What yosys makes of all of it, pads and second PLL included, with the chip at its pins."""
    if locate("yosys") is None:
        pytest.skip("yosys must be installed for a netlist")
    board = load_board(name)
    weights = BoardWeights(board.memories[0], tuple(STREAMS))
    netlist = make_netlist_of(CoreOnBoard(Weighted(), board, identity=b"weighted", weights=weights), tmp_path)
    chip = board_chip(weights.part(board), weights.memory.pins)
    design = netlist_design(read_netlist(netlist, board.family), reset_active_low=board.reset_active_low, chip=chip)
    compiled = compile_board(design, folder=tmp_path / "board", cache=cache, jobs=2)
    talk(compiled, weights.gateware(board), board.clock_mhz * 1e6 / board.transport.entry["baud"])


def talk(board: CompiledBoard, memory: WeightMemory, bit_cycles: float) -> None:
    """All that a host may do: frames without weights, weights, frames, others' weights, weights anew."""
    data = noise(6)
    first, second = image_of(memory, 1), image_of(memory, 2)
    with SimulatedBoard(board, line=UartLine(bit_cycles)) as simulated:
        host = linked(simulated)
        assert host.use(first[1]).image_bytes == len(first[0])
        with pytest.raises(LinkFailed, match="must have the weights of the design, but has none"):
            host.exchange(data)
        host.fill(*first)
        assert host.exchange(data) == answers(data, 1)
        assert host.exchange(data[:BEATS]) == answers(data[:BEATS], 1)
        reset_in_a_frame(host, data)
        assert host.exchange(data) == answers(data, 1)
        host.use(second[1])
        with pytest.raises(LinkFailed, match="must have the weights of the design, but has others"):
            host.exchange(data)
        host.fill(*second)
        assert host.exchange(data) == answers(data, 2)
        assert host.statistics.resent == 0  # a RESET may cut an answer that is on its way


def reset_in_a_frame(host: HostLink, data: bytes) -> None:
    """The core has taken a part of a frame's weights when it is reset."""
    host.reset()
    assert host._session is not None
    host._session.fill(data[:BEATS // 2])  # as if it were an image: no results are waited for
    host.reset()
