"""Proofs of the reader of a QSPI flash: what the chip sees keeps to the data sheet, whatever is asked of it, and when.

A reset of the reader in any cycle is among it.  The chip has none: it is left in what it was about.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hwflow_rtl.memory import FlashPart, FlashTiming
from hwflow_rtl.memory.flash import FlashController
from hwflow_rtl.vendor.pads import PadTiming

from .contract import drive, take
from .flash_chip import RELEASE, Chip, Phase
from .flash_helps import walks_with_the_chip
from .methods import Induction
from .proof import Proof
from .scene import Inside, Scene

#: The chip of an iCEBreaker with its clock and its pads, but awake earlier, so that a proof counts less far.
QUAD = FlashPart(
    name="quad", bytes=1 << 17, offset=1 << 16, lines=4, command=0xEB, mode=0xA0, dummy_clocks=4, jedec_ids=(0xEF7018,),
    clock_mhz=48, timing=FlashTiming(t_c=9.6, t_slch=5, t_chsh=5, t_shsl=50, t_clqv=7, t_res1=150),
    pads=PadTiming(out_max=6, out_min=2, setup=5, hold=1, source="as those of an iCE40 UltraPlus"))
#: Without continuous read mode, and with a slower chip select; on two lines, without and with that mode.
PLAIN = replace(QUAD, name="plain", mode=0xF0, dummy_clocks=5, timing=replace(QUAD.timing, t_shsl=110))
DUAL = replace(QUAD, name="dual", lines=2, command=0xBB, mode=0xF0, dummy_clocks=0)
DUAL_CONTINUOUS = replace(DUAL, name="dual continuous", mode=0xA0, dummy_clocks=1)


def read(part: FlashPart) -> tuple[Scene, FlashController, Inside]:
    """A reader of which anything is asked."""
    s = Scene()
    unit = FlashController(part=part)
    inside = s.put("controller", unit)
    drive(s, unit.request, "request")
    take(s, unit.read, "read")
    s.m.d.comb += unit.restart.eq(s.free(1, "restart"))
    return s, unit, inside


def protocol(part: FlashPart) -> Scene:
    s, unit, inside = read(part)
    chip = Chip(s, part, unit.pins)
    chip.answers(unit.pins.io_i)
    chip.claim_times()
    chip.claim_commands()
    walks_with_the_chip(s, unit, inside, chip)
    # A read is more than a hundred clocks away, and nothing is assumed that could keep it away.
    s.reach("wakes", chip.ends & (chip.phase == Phase.DONE) & (chip.command == RELEASE))
    s.reach("answers", (chip.phase == Phase.ANSWER) & chip.rises)
    return s


FLASH_PROOFS = tuple(
    Proof("FlashController", f"protocol, {part.name}",
          "commands, their bits and lines, and t_c, t_slch, t_chsh, t_shsl, t_res1 are as the data sheet wants them, "
          "also after a reset in any cycle", partial(protocol, part), Induction(3), 60)
    for part in (QUAD, PLAIN, DUAL, DUAL_CONTINUOUS))
