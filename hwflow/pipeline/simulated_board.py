"""A board that is simulated whole: the RTL of its top behind the line of a transport, for the driver of real boards.

In: a design.  Out: a folder as `hwflow synth` leaves it, without a bitstream, and a program that behaves as the board
does.  No tools of the FPGA's vendor or for place and route take part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import create_folder
from hwflow_rtl.io import BoardTop, Clocking
from hwflow_rtl.io.transports.spi import CYCLES_A_BIT
from hwflow_rtl.memory import SdramPart
from hwflow_rtl.memory.seal import SEAL_WORDS
from hwflow_sim import flash, sdram
from hwflow_sim.board import (
    BoardChip,
    CompiledBoard,
    Line,
    LinePort,
    NetworkPort,
    RatedPort,
    RgmiiLine,
    SimulatedBoard,
    SpiLine,
    UartLine,
    UlpiLine,
    UsbLine,
    compile_board,
    rtl_design,
)

from .. import hls
from ..host import Patience
from ..host.identity import TransportFacts
from ..host.open_board import OpenBoard, open_board
from ..host.session import Progress
from ..host.weight_image import with_seal
from ..synth import Board, ends_of
from ..synth.board_memories import BoardMemory
from ..synth.board_weights import DOMAIN, BoardWeights
from ..synth.design import Design, finish_design
from ..synth.top import leds_of
from ..synth.transports.base import Place
from .verilog import simulation_technology

#: Clock cycles in which a board is left alone at first: its reset counts down.
CYCLES_TO_START = 10_000
#: For a board whose seconds are simulated, and whose line loses nothing: what does not answer is soon given up.
PATIENCE = Patience(silence=0.4, stall=4.0)
NAME = "the simulated board"


@dataclass(frozen=True)
class _Report:
    """The clock of a simulated design, in place of a report of place and route."""

    clock_mhz: float


@dataclass(frozen=True)
class SimulatedDesign:
    """A design whose board can be simulated: `folder` describes it to the driver, as that of a bitstream.

    All clocks of the FPGA are those of its oscillator, `clock_mhz`: a PLL is not simulated.
    """

    folder: Path
    compiled: CompiledBoard
    line: Line
    clock_mhz: float
    transport: TransportFacts

    def board(self, *, seed: int = 1) -> SimulatedBoard:
        """The board, not switched on yet; its `pty` is for programs in other languages."""
        return SimulatedBoard(self.compiled, line=self.line, seed=seed)

    def open(self, *, name: str = NAME, seed: int = 1, patience: Patience | None = None,
             progress: Progress | None = None) -> OpenBoard:
        """Switch a board on and open it.  Its time is simulated: the line has its real rate in the time of `clock_mhz`.

        `seed` is that of all that is undefined when a board starts.  `close` switches it off.
        """
        board, hertz, options = self.board(seed=seed), self.clock_mhz * 1e6, self.transport.options
        port: SimulatedBytes | SimulatedNetwork
        if isinstance(self.line, RgmiiLine):
            port = SimulatedNetwork(board, hertz, name, str(options["address"]), int(options["port"]))
        else:
            port = SimulatedBytes(board, hertz, name)
        return open_board(port, design=self.folder, clock=port.clock, patience=patience or PATIENCE, progress=progress)


class SimulatedBytes(RatedPort):
    """The line of bytes of a board that it switches on, and off at `close`.  The clock of the board, of `hertz`, runs
    while somebody waits for the board, and only then.  The bit rate of a serial line can be set."""

    def __init__(self, board: SimulatedBoard, hertz: float, name: str) -> None:
        super().__init__(board, hertz, name)
        self.has_rate = isinstance(board.line, UartLine)
        self.close = switched_on(board)  # type: ignore[method-assign]


class SimulatedNetwork(NetworkPort):
    """The same of a board with Ethernet, at an address."""

    def __init__(self, board: SimulatedBoard, hertz: float, name: str, address: str, port: int) -> None:
        super().__init__(board, address, port, name=name, clock_hz=hertz)
        self.close = switched_on(board)  # type: ignore[method-assign]


def switched_on(board: SimulatedBoard) -> Callable[[], None]:
    """Switch the board on, and let its reset pass.  What switches it off, which may be called twice."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(board)
        board.wait(b"", CYCLES_TO_START)
        return stack.pop_all().close


def compile_design(design: Design, folder: Path, cache: Path, *, quantized: str, keep: Callable[[], object],
                   say: Callable[[str], None] = print) -> SimulatedDesign:
    """The board of `design`, with what the driver must know in `folder`; `quantized` and `keep` as of `finish_design`.

    `cache` keeps what was compiled.  HwflowError for a transport or a memory that is not simulated, MissingTool and
    ToolFailed as of `compile_board`.
    """
    board, line = design.board, line_of(design.board)
    weights = slower(design.weights(), board)
    create_folder(folder)
    finish_design(design, folder, lambda: _Report(board.clock_mhz), quantized=quantized, keep=keep)
    technology = simulation_technology(design.plan)
    top = simulated_top(design, weights, technology)
    chip = chip_of(board, weights, design.image())
    compiled = compile_board(rtl_design(top, technology.roms, chip, line=type(line)), folder=folder / "board",
                             cache=cache, say=say)
    return SimulatedDesign(folder, compiled, line, board.clock_mhz, board.transport.facts())


def slower(weights: BoardWeights | None, board: Board) -> BoardWeights | None:
    """The same in a memory that has the clock of the oscillator, as all of a simulated board."""
    if weights is None or not isinstance(weights.memory.part, SdramPart):
        return weights
    part = replace(weights.memory.part, clock_mhz=board.clock_mhz)
    memory: BoardMemory = replace(weights.memory, part=part)
    return replace(weights, memory=memory)


def simulated_top(design: Design, weights: BoardWeights | None, technology: Any) -> BoardTop:
    """The top of the board in portable hardware, with simple pins."""
    board, plan = design.board, design.plan
    transport = board.transport.gateware(Place(technology, board.clock_mhz), board.path)
    outside: dict[str, Any] = {} if weights is None else {
        "memory": weights.gateware(board, technology), "memory_pins": tuple(weights.memory.pins)}
    clocking = Clocking(technology=technology, board_mhz=board.clock_mhz,
                        memory=weights is not None and weights.domain == DOMAIN, line_mhz=transport.clock_mhz,
                        has_reset=board.reset is not None, reset_active_low=board.reset_active_low)
    core = hls.lower(design.structure or design.graph, plan, technology)
    return BoardTop(core=core, ends=ends_of(plan), clocking=clocking, transport=transport,
                    identity=design.identity(), technology=technology, leds=leds_of(board),
                    leds_active_low=board.leds_active_low, **outside)


def chip_of(board: Board, weights: BoardWeights | None, image: bytes | None) -> BoardChip | None:
    """The simulated memory at the pins of `board`; a flash has `image`."""
    if weights is None:
        return None
    part, sealed = weights.part(board), weights.flash
    if isinstance(part, SdramPart):
        return sdram.board_chip(part, weights.memory.pins)
    assert sealed is not None
    assert image is not None
    return flash.flash_chip(part, with_seal(image, sealed.mark), words=sealed.words + SEAL_WORDS)


# The line of a simulated board that is as the transport of a board file.


def uart(board: Board) -> UartLine:
    return UartLine(board.clock_mhz * 1e6 / board.transport.entry["baud"])


def spi(board: Board) -> SpiLine:
    return SpiLine(CYCLES_A_BIT)


def rgmii(board: Board) -> RgmiiLine:
    clock = board.transport.clock
    assert clock is not None
    return RgmiiLine(clock[1] / board.clock_mhz)


def usb(board: Board) -> Line:
    return UlpiLine() if "clk" in board.transport.entry else UsbLine()


#: By the kind of the transport.
LINES: Mapping[str, Callable[[Board], Line]] = {"spi": spi, "uart": uart, "udp": rgmii, "usb": usb}


def line_of(board: Board) -> Line:
    """At the rate of the board file.  HwflowError for a kind of transport that is not simulated."""
    kind = board.transport.kind.name
    if kind not in LINES:
        raise HwflowError(f"transport must be one that can be simulated, {', '.join(LINES)}, not {kind}",
                          "choose one with --transport")
    return LINES[kind](board)


def port_of(simulated: SimulatedBoard, board: Board) -> LinePort | NetworkPort:
    """The port that a driver opens to reach a simulated board with the line of `line_of`."""
    if isinstance(simulated.line, RgmiiLine):
        options = board.transport.facts().options
        return NetworkPort(simulated, str(options["address"]), int(options["port"]))
    return LinePort(simulated)
