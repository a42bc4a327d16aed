"""From a bitstream to the cells and switches that its bits configure."""

from __future__ import annotations

import re
from pathlib import Path

from ....readback import Fabric
from .clocks import PLL, inside_pll, through_buffer
from .container import Configuration, read_configuration
from .database import database_folder, load_device
from .die import Die
from .dsp import DSP, outranked
from .memories import MEMORIES
from .pad_registers import PAD_REGISTERS, through_delay
from .pads import read_pads
from .slices import SLICES, in_chain, pass_on, sum_of_chain, without_takers
from .tiles import On, Place, TileBits
from .wires import Wires

#: The kinds of cells.
KINDS = (SLICES, MEMORIES, DSP, PLL, PAD_REGISTERS)
#: Bits that are 1 in every bitstream of a device, of which the database does not say what they mean: those of Lattice's
#: bitstream in which nothing is used, as nextpnr has it (ecp5/baseconfigs.cc).
CONSTANTS: dict[str, frozenset[tuple[int, int]]] = {
    "EFB0_PICB0": frozenset({(54, 1), (56, 1), (82, 1), (94, 1)}),
    "DSP_SPINE_UL1": frozenset({(2, 0), (3, 0), (5, 0), (11, 0), (13, 0)}),
    "PVT_COUNT2": frozenset({(2, 0), (3, 0), (5, 0), (11, 0), (13, 0)}),
}
#: The same of pads at the lower edge of the largest die that no package has: the die, and their columns.
UNBONDED = "85K_", frozenset({*range(96, 100), *range(101, 109), *range(110, 118), *range(119, 123)})
#: Clocks are brought to all four quadrants, also where nothing takes them: nextpnr, ecp5/globals.cc, route_onto_global.
IDLE = re.compile(r"G_[UL][LR]PCLK\d+")
#: Control register 0: the device reads its flash at the lowest clock, once.
CONTROL = 0x40000000
#: So many settings with a bit are named.
MOST_NAMES = 4
#: Tiles of wires before blocks that no design of hwflow uses, whose inputs are tied in every bitstream.
TIED_ALWAYS = r"V?CIB_DCU.|CIB_EFB[01]|CIB_PLL[0-3]"


def read_back(device: str, package: str, bitstream: Path) -> Fabric:
    """See `Family.read_back`; `device` and `package` as board files have them."""
    described = load_device(device, database_folder())
    return read(described.layout.device, package, bitstream, read_configuration(bitstream, described.layout))


def read(device: str, package: str, bitstream: Path, configuration: Configuration) -> Fabric:
    """What a configuration of the device says."""
    bits = TileBits(load_device(device, database_folder()), configuration.frames)
    wires = Wires(bits)
    pass_on(wires)
    fabric = Fabric(bitstream)
    die = Die(bits, wires, fabric, configuration.rams, KINDS, (through_buffer, sum_of_chain, through_delay), outranked,
              IDLE)
    for on in bits.switches():
        add_switch(die, on)
    read_pads(die, package)
    die.queue += without_takers(die)
    die.make()
    die.check()
    die.unused()
    for number in sorted(set(configuration.rams) - set(die.memories_taken)):
        fabric.problem(f"contents of memory {number}", "a block RAM must have them, and none has")
    if configuration.control != CONTROL:
        fabric.problem("control register 0", f"it must be 0x{CONTROL:08x}, as ecppack writes it, not "
                                             f"0x{configuration.control:08x}")
    explain_rest(die)
    return fabric


def add_switch(die: Die, on: On) -> None:
    """A switch that is on, for the fabric and for those who ask what drives a wire."""
    tile = on.tile
    where = f"{tile.name} {on.sink}"
    if on.several:
        die.problem(where, "its bits must choose one wire, not several")
        return
    if in_chain(Place([(on.decided, on.number)]), on.sink) or inside_pll(on):
        return
    sink, source = (die.wires.name(tile.row, tile.column, wire) for wire in (on.sink, on.source))
    if sink is None or source is None:
        die.problem(where, f"{on.source} must be a wire of the device")
        return
    if die.drivers.get(sink, source) != source:
        die.problem(where, f"{source} and {die.drivers[sink]} ({die.places[sink]}) drive the same wire {sink}")
    die.drivers[sink], die.places[sink] = source, where


def explain_rest(die: Die) -> None:
    """A problem for each bit that is 1 and has no meaning in this design."""
    device = die.bits.device
    die.bits.usual()
    for kind, decided in die.bits.kinds.items():
        if re.fullmatch(TIED_ALWAYS, kind):
            for tile in decided.tiles:
                place = die.bits.place(tile.row, tile.column, kind)
                for setting in decided.kind.settings:
                    if re.fullmatch(r"CIB\.J[A-D]\dMUX", setting):
                        place.setting(setting)
    unbonded = UNBONDED[1] if device.size == UNBONDED[0] else frozenset()
    meanings: dict[tuple[str, int, int], str] = {}
    for name, frame, bit in die.bits.unexplained(CONSTANTS):
        match = re.fullmatch(r"MIB_R95C(\d+):PICB[01]", name)
        if match and int(match[1]) in unbonded and (frame, bit) == (0, 1):
            continue
        key = name.partition(":")[2], frame, bit
        if key not in meanings:
            meanings[key] = meaning(die, name, frame, bit)
        die.problem(f"{name} F{frame}B{bit}", f"the bit must be 0: {meanings[key]}")


def meaning(die: Die, tile: str, frame: int, bit: int) -> str:
    """What a bit would say, if something that is used asked for it."""
    kind = tile.partition(":")[2]
    if kind not in die.bits.kinds:
        return "it is in no tile"
    described = die.bits.kinds[kind].kind
    names = [name for name, choice in described.settings.items()
             if any((frame, bit) == place[:2] for _, group in choice.options for place in group)]
    names += [f"a switch to {name}" for name, choice in described.muxes.items()
              if any((frame, bit) == place[:2] for _, group in choice.options for place in group)]
    names += [name for name, word in described.words.items()
              if any((frame, bit) == place[:2] for group in word.digits for place in group)]
    listed = " or ".join([*names[:MOST_NAMES], *(["others"] if len(names) > MOST_NAMES else [])])
    return f"nothing is used that has {listed}" if names else "the database does not know it"
