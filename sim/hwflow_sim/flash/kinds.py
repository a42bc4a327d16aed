"""The simulated memory for a part that only a programmer writes: a QSPI flash, or the user flash of an FPGA."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import ClockSignal, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.memory import AnyFlash, SealedFlash, UserFlashPart

from ..board import BoardChip, fault_of
from .model import CONTENTS, MODEL, VIOLATIONS, Flash, board_chip, contents_file

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
        given = {**parameters_of(self.part), "TICK": self.tick, "WORDS": self.words, "IMAGE": self.image}
        m.submodules.cell = Instance(
            "hwflow_user_flash", **{f"p_{name}": value for name, value in given.items()}, i_clk=ClockSignal(),
            i_xadr=pins.xadr, i_yadr=pins.yadr, i_se=pins.se, o_dout=pins.dout,
            o_counts=self.counts[:32 * len(USER_FLASH_VIOLATIONS)], o_total=self.total, o_first_kind=self.first_kind,
            o_first_time=self.first_time)
        return m


def user_flash_chip(part: UserFlashPart, contents: bytes, *, words: int) -> BoardChip:
    """The same as `board_chip`, for a flash inside of the FPGA; its pins are `memory_xadr`, `_yadr`, `_se`, `_dout`."""
    parameters: dict[str, object] = {
        **parameters_of(part), "TICK": ceil(500 * part.period), "WORDS": words, "IMAGE": f'"{CONTENTS}"'}
    given = ", ".join(f".{name}({value})" for name, value in parameters.items())
    pins = [".clk(clk)", *(f".{name}(memory_{name})" for name in ("xadr", "yadr", "se", "dout")),
            ".total(chip_total)", ".first_kind(chip_kind)", ".first_time(chip_moment)",
            ".counts(chip_counts)"]
    return BoardChip(f"  wire [4*32-1:0] chip_counts;\n  hwflow_user_flash #({given}) chip ({', '.join(pins)});\n"
                     + fault_of("user flash, %0d ps", USER_FLASH_VIOLATIONS), USER_FLASH_MODEL,
                     {CONTENTS: contents_file(contents, words)})


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
