"""The simulated QSPI flash: an Amaranth component for the top of a simulation, and Verilog for a simulated board."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import C, Cat, ClockSignal, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.memory import AnyFlash, FlashPads, FlashPart, SealedFlash, UserFlashPart, flash_pins

from ..board import BoardChip, chip_verilog

#: To be given to the simulator beside the design.
MODEL = Path(__file__).parent / "qspi_flash.sv"
#: The file of the contents, beside the executable.
CONTENTS = "flash.hex"
#: A byte of a flash where nothing was written.
ERASED = b"\xff"
#: The counters of the model, in their order.
VIOLATIONS = (
    "clock period", "t_slch", "t_chsh", "t_shsl", "t_dvch", "t_chdx", "t_res1", "command in power-down",
    "quad read without QE", "mode that the part does not have", "input that nobody drives", "both sides drive data",
    "hold line low", "command cut short", "status write that was not enabled", "address", "command that the model does "
    "not know")


@dataclass(frozen=True)
class FlashLimits:
    """The model's parameters for a part: the data sheet's numbers as integers of ps, nothing rounded to clocks."""

    values: dict[str, int]

    @staticmethod
    def of(part: FlashPart) -> FlashLimits:
        timing = part.timing

        def ps(time: float) -> int:
            return round(time * 1000)

        return FlashLimits({
            "T_C": ps(timing.t_c), "T_SLCH": ps(timing.t_slch), "T_CHSH": ps(timing.t_chsh),
            "T_SHSL": ps(timing.t_shsl), "T_CLQV": ps(timing.t_clqv), "T_RES1": ps(timing.t_res1),
            "T_PADS": ps(part.pads.round_trip), "T_KEPT": ps(part.hold_margin)})

    @staticmethod
    def parameters(part: FlashPart) -> dict[str, int]:
        """The model's parameters for a part, but for its contents.  `FlashPads` take data half a period after the
        rising clock."""
        return {
            "ADDRESS_BITS": (part.bytes - 1).bit_length(), "CONTINUOUS": int(part.continuous), "ID": part.jedec_ids[0],
            "QUAD_DUMMY" if part.lines == 4 else "DUAL_DUMMY": part.dummy_clocks,
            "LOOKS": ceil(500 * part.period), **FlashLimits.of(part).values}


class Flash(wiring.Component):
    """The chip at the other end of the pins of a controller of `part`, with `FlashPads` in `sync` between them.

    Simulators need `MODEL` beside the design.

    Lines that the FPGA does not have are pulled up.

    Parameters
    ----------
    part
        The chip.
    image, words
        A file of so many words that the chip has from the part's offset on.  Without, runs name their contents.
    tick
        Picoseconds of a step of simulated time.
    alone
        Without the pads: who drives the pins looks at the rising clock.

    Attributes
    ----------
    pins
        Flipped: connects to those of a controller; with `alone` to those of the chip.
    counts : Out
        A number of 32 bits for each of `VIOLATIONS`.
    total, first_kind, first_time : Out
        All violations; the index and the time in ps of the first.
    """

    def __init__(self, *, part: FlashPart, image: str = "", words: int = 0, tick: int = 1,
                 alone: bool = False):
        self.part = part
        self.image, self.words, self.tick, self.alone = image, words, tick, alone
        super().__init__({
            "pins": In(flash_pins(part)), "counts": Out(32 * len(VIOLATIONS)), "total": Out(32), "first_kind": Out(32),
            "first_time": Out(64)})

    def elaborate(self, platform):
        m = Module()
        pins, part = self.pins, self.part
        numbers = {**FlashLimits.parameters(part), **({"LOOKS": 0, "T_PADS": 0} if self.alone else {})}
        if not self.alone:
            m.submodules.pads = pads = FlashPads(part)
            wiring.connect(m, wiring.flipped(self.pins), pads.pins)
            pins = pads.chip
        missing = C((1 << 4 - part.lines) - 1, 4 - part.lines)
        out = Signal(4)
        parameters = {**numbers, "TICK": self.tick, "OFFSET": part.offset, "WORDS": self.words,
                      "IMAGE": self.image}
        m.d.comb += pins.io_i.eq(out)
        m.submodules.chip = Instance(
            "hwflow_qspi_flash", **{f"p_{name}": value for name, value in parameters.items()}, i_sck=pins.sck,
            i_cs_n=pins.cs_n, i_io_in=Cat(pins.io_o, missing), i_io_driven=Cat(pins.io_oe, missing), o_io_out=out,
            o_counts=self.counts, o_total=self.total, o_first_kind=self.first_kind, o_first_time=self.first_time)
        return m


def contents_file(contents: bytes, words: int) -> str:
    """The text of `CONTENTS`: at most `words` words of 32 bits, erased where `contents` ends."""
    return "".join(f"{word:08x}\n" for word in np.frombuffer(contents.ljust(4 * words, ERASED), dtype="<u4").tolist())


def board_chip(part: FlashPart, contents: bytes, *, words: int) -> BoardChip:
    """`part` at the pins of a board's design, `memory_sck`, `memory_cs_n`, and `memory_io_i`, `_o` and `_oe`.

    It has `contents` from the part's offset on, at most `words` words of 32 bits.  A cycle of the board counts as a
    period of the part's clock, which is never shorter.  The first violation of the data sheet ends the simulation.
    """
    lines, missing = part.lines, 4 - part.lines
    parameters = {**FlashLimits.parameters(part), "TICK": ceil(500 * part.period), "OFFSET": part.offset,
                  "WORDS": words, "IMAGE": f'"{CONTENTS}"'}
    pulled = f"{{{missing}'b{'1' * missing}, memory_io_%s}}" if missing else "memory_io_%s"
    pins = {"sck": "memory_sck", "cs_n": "memory_cs_n", "io_in": pulled % "o", "io_driven": pulled % "oe",
            "io_out": "chip_io", "first_time": "chip_moment"}
    return BoardChip(
        f"  wire [3:0] chip_io;\n  assign memory_io_i = chip_io[{lines - 1}:0];\n" + chip_verilog(
            "hwflow_qspi_flash", parameters, pins, title="flash, %0d ps", violations=VIOLATIONS),
        MODEL, {CONTENTS: contents_file(contents, words)})


# The user flash of an FPGA, and what is said of both kinds.


#: To be given to the simulator beside the design.
USER_FLASH_MODEL = Path(__file__).parent / "user_flash.sv"
#: The counters of the model, in their order; `counts` has room for those of a `Flash`.
USER_FLASH_VIOLATIONS = ("sense enable high too short", "sense enable low too short", "address that moves", "address")


def parameters_of(part: UserFlashPart) -> dict[str, int]:
    """The model's parameters: the data sheet's numbers as integers of ps."""
    def ps(time: float) -> int:
        return round(time * 1000)

    return {"BYTES": part.bytes, "ROW_BITS": part.row_bits, "T_ACC": ps(part.timing.t_acc),
            "T_PWS": ps(part.timing.t_pws), "T_WIRES": ps(part.WIRES), "HALF": ceil(500 * part.period)}


class UserFlash(wiring.Component):
    """The cell at the other end of the pins of a controller of `part` in `sync`; simulators need `USER_FLASH_MODEL`
    beside the design.

    Parameters, `counts`, `total`, `first_kind` and `first_time` are those of `Flash`.
    """

    def __init__(self, *, part: UserFlashPart, image: str = "", words: int = 0, tick: int = 1):
        self.part = part
        self.image, self.words, self.tick = image, words, tick
        super().__init__({"pins": In(part.pins()), "counts": Out(32 * len(VIOLATIONS)), "total": Out(32),
                          "first_kind": Out(32), "first_time": Out(64)})

    def elaborate(self, platform):
        m = Module()
        pins = self.pins
        parameters = {**parameters_of(self.part), "TICK": self.tick, "WORDS": self.words, "IMAGE": self.image}
        m.submodules.cell = Instance(
            "hwflow_user_flash", **{f"p_{name}": value for name, value in parameters.items()}, i_clk=ClockSignal(),
            i_xadr=pins.xadr, i_yadr=pins.yadr, i_se=pins.se, o_dout=pins.dout,
            o_counts=self.counts[:32 * len(USER_FLASH_VIOLATIONS)], o_total=self.total, o_first_kind=self.first_kind,
            o_first_time=self.first_time)
        return m


def user_flash_chip(part: UserFlashPart, contents: bytes, *, words: int) -> BoardChip:
    """The same as `board_chip`, for a flash inside of the FPGA; its pins are `memory_xadr`, `_yadr`, `_se`, `_dout`."""
    parameters = {**parameters_of(part), "TICK": ceil(500 * part.period), "WORDS": words, "IMAGE": f'"{CONTENTS}"'}
    pins = {"clk": "clk", **{name: f"memory_{name}" for name in ("xadr", "yadr", "se", "dout")},
            "first_time": "chip_moment"}
    verilog = chip_verilog("hwflow_user_flash", parameters, pins, title="user flash, %0d ps",
                           violations=USER_FLASH_VIOLATIONS)
    return BoardChip(verilog, USER_FLASH_MODEL, {CONTENTS: contents_file(contents, words)})


def flash_of(part: AnyFlash | SealedFlash) -> AnyFlash:
    """The flash itself."""
    return part.flash if isinstance(part, SealedFlash) else part


def flash_at(part: AnyFlash, *, image: str = "", words: int = 0, tick: int = 1) -> Flash | UserFlash:
    """The simulated memory at the pins of a controller of `part`; the numbers are those of `Flash`."""
    make = UserFlash if isinstance(part, UserFlashPart) else Flash
    return make(part=part, image=image, words=words, tick=tick)


def flash_model(part: AnyFlash) -> Path:
    """The file of the simulated memory."""
    return USER_FLASH_MODEL if isinstance(part, UserFlashPart) else MODEL


def flash_violations(part: AnyFlash) -> tuple[str, ...]:
    """The counters of the simulated memory."""
    return USER_FLASH_VIOLATIONS if isinstance(part, UserFlashPart) else VIOLATIONS


def flash_chip(part: AnyFlash, contents: bytes, *, words: int) -> BoardChip:
    """The memory at the pins of a board's design: `board_chip`, `user_flash_chip`."""
    if isinstance(part, UserFlashPart):
        return user_flash_chip(part, contents, words=words)
    return board_chip(part, contents, words=words)


def write_cells(path: Path, contents: npt.NDArray[np.uint8], first: int) -> None:
    """The bytes of `contents` from address `first` on, for $readmemh."""
    path.write_text(f"@{first:x}\n" + "\n".join(f"{octet:02x}" for octet in contents.tolist()) + "\n")
