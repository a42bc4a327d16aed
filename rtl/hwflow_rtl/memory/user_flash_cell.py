"""`UserFlashCell`: Gowin's primitive of a user flash, which is read and never written by the design."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Const, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

if TYPE_CHECKING:
    from .user_flash_part import UserFlashPart

__all__ = ["UserFlashCell"]


class UserFlashCell(wiring.Component):
    """The cell of `part`, which is known by its name.

    Rows and columns are enabled for good: sense enable alone starts an access.

    Attributes
    ----------
    pins : In(part.pins())
    """

    def __init__(self, part: UserFlashPart):
        self.part = part
        super().__init__({"pins": In(part.pins())})

    def elaborate(self, platform):
        m = Module()
        pins = self.pins
        m.submodules.cell = Instance(
            self.part.name, i_XADR=pins.xadr, i_YADR=pins.yadr, i_XE=Const(1, 1), i_YE=Const(1, 1), i_SE=pins.se,
            i_ERASE=Const(0, 1), i_PROG=Const(0, 1), i_NVSTR=Const(0, 1), i_DIN=Const(0, self.part.width),
            o_DOUT=pins.dout)
        return m
