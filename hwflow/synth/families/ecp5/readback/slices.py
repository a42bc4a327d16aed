"""Slices: two tables of four inputs, a carry chain, two wide muxes and two flip-flops, or 32 bits of memory.

Which pins and settings they have: Project Trellis, libtrellis/src/Bels.cpp and tiledata/PLC2/bits.db.  What they
compute: Lattice FPGA-DS-02012 and FPGA-TN-02204, and yosys' model of a TRELLIS_COMB (techlibs/lattice/common_sim.vh).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from .die import CellKind, Die, Owner, Pin, base_of
from .tiles import Place
from .wires import Wires, at, place_of

KIND = "PLC2"
LETTERS = "ABCD"
#: Inputs of a table, from the lowest bit of its address on.
INPUTS = "ABCD"
#: The inputs of a table that address it as a memory, the lowest first, and the wires of the third slice that pass the
#: address and the data of a write on to both memories: nextpnr, ecp5/cells.cc, dram_to_comb and dram_to_ramw_split.
READ_ADDRESS = "DBCA"
PASSED_ON = {**{f"WADO{k}C_SLICE": f"{name}_SLICE" for k, name in enumerate(("D4", "B4", "C4", "A4"))},
             **{f"WDO{k}C_SLICE": f"{name}_SLICE" for k, name in enumerate(("C5", "A5", "D5", "B5"))}}
#: Entries of a table.
ONE_TABLE = 16
#: A mux behind a table, which a bit chooses that in a carry chain means something else.
BEHIND = re.compile(r"F([0-7])")
OUTPUT = re.compile(r"([FQ])([0-7])_SLICE|(F5|FX)([A-D])_SLICE|FCO([A-C]?)_SLICE")


def pass_on(wires: Wires) -> None:
    """The writing half of a memory connects its inputs with those of the memories."""
    for sink, source in PASSED_ON.items():
        wires.fixed[sink].append((KIND, 0, 0, source))


def in_chain(tile: Place, wire: str) -> bool:
    """Whether `wire` is an output of a slice whose tables are a carry chain.  There the bit that chooses what is behind
    a table says whether a carry is injected, and the output is the sum."""
    match = BEHIND.fullmatch(wire)
    return match is not None and tile.setting(f"SLICE{LETTERS[int(match[1]) // 2]}.MODE") == "CCU2"


def sum_of_chain(die: Die, wire: str) -> str | None:
    """The sum behind an output of a slice in a carry chain."""
    if not BEHIND.fullmatch(base_of(wire)) or not in_chain(die.place(wire, KIND), base_of(wire)):
        return None
    return f"{wire}_SLICE"


def output(wire: str) -> tuple[str, int]:
    """What the wire is an output of: "F" of a table, "Q" of a flip-flop, "F5" and "FX" of muxes, "FCO" of a carry; and
    the number of the (first) table there."""
    match = OUTPUT.fullmatch(base_of(wire))
    if match is None:
        raise ValueError(f"{wire} must be an output of a slice")
    if match[2]:
        return match[1], int(match[2])
    return (match[3], 2 * LETTERS.index(match[4])) if match[3] else ("FCO", 2 * LETTERS.index(match[5] or "D"))


class Slice:
    """The slice of an output; `number` is that of the table (0 to 7) there, `what` as in `output`."""

    def __init__(self, die: Die, wire: str):
        self.what, number = output(wire)
        self.die, self.number, self.place = die, number, place_of(wire)
        self.letter, self.half, self.first = LETTERS[number // 2], number % 2, number // 2 * 2
        self.tile = die.place(wire, KIND)
        self.where = f"{self.tile.name} SLICE{self.letter}"

    def wire(self, base: str) -> str:
        return at(*self.place, f"{base}_SLICE")

    def setting(self, name: str) -> str:
        """Of the slice; a problem where no value fits."""
        value = self.tile.setting(f"SLICE{self.letter}.{name}")
        if value is None:
            self.die.problem(self.where, f"its bits of {name} are a mixture")
        return value or ""

    def init(self, half: int) -> int:
        return self.tile.word(f"SLICE{self.letter}.K{half}.INIT")

    def input(self, name: str, half: int) -> Pin | None:
        """What an input takes; a bit may tie it to 1."""
        driver = self.die.pin(self.wire(f"{name}{self.first + half}"))
        if self.setting(f"{name}{half}MUX") != "1":
            return driver
        if driver is not None:
            self.die.problem(self.where, f"input {name}{half} must be tied or driven, not both")
        return "1"

    def inputs(self, half: int, init: int) -> dict[str, Pin]:
        """Those of a table.  One that nothing drives must not matter."""
        pins = {}
        for bit, name in enumerate(INPUTS):
            pin = self.input(name, half)
            if pin is None and depends(init, bit):
                self.die.problem(self.where, f"input {name}{half}, which its table depends on, must have a driver")
            pins[name] = pin or "0"
        return pins


def depends(init: int, bit: int) -> bool:
    """Whether a table of 16 entries depends on a bit of its address."""
    return any((init >> k ^ init >> (k | 1 << bit)) & 1 for k in range(16) if not k >> bit & 1)


def owner(die: Die, wire: str) -> str | None:
    """Two tables with their carries are one cell; a cell is called by its first output."""
    part = Slice(die, wire)
    if part.what in ("F", "FCO") and part.setting("MODE") == "CCU2":
        return part.wire(f"F{part.first}")
    return None if part.what == "FCO" else wire


def make(die: Die, cell: str) -> None:
    part = Slice(die, cell)
    if part.what == "Q":
        flip_flop(part)
    elif part.what == "F5":
        mux(part, cell, {"ALUT": f"F{part.first + 1}", "BLUT": f"F{part.first}"}, "C0", 0, "PFUMX")
    elif part.what == "FX":
        mux(part, cell, {"D0": f"FXA{part.letter}", "D1": f"FXB{part.letter}"}, "SD", 1, "L6MUX21")
    else:
        {"LOGIC": table, "CCU2": carry, "DPRAM": memory}.get(part.setting("MODE"), unknown)(part)


def unknown(part: Slice) -> None:
    part.die.problem(part.where, f"its mode must be LOGIC, CCU2 or DPRAM, not {part.setting('MODE') or 'a mixture'}")


def table(part: Slice) -> None:
    init, out = part.init(part.half), part.wire(f"F{part.number}")
    pins = {name: [pin] for name, pin in part.inputs(part.half, init).items()}
    part.die.fabric.cell(out, "LUT4", {"INIT": f"{init:016b}"}, {**pins, "Z": [out]}, ["Z"], part.where)


def mux(part: Slice, out: str, inputs: dict[str, str], select: str, half: int, kind: str) -> None:
    pins: dict[str, list[str]] = {"Z": [out]}
    for name, base in inputs.items():
        pin = part.die.pin(part.wire(base))
        if pin is None:
            part.die.problem(part.where, f"input {name} of its {kind} must have a driver")
        pins[name] = [pin or "0"]
    choice = part.input("M", half)
    if choice is None:
        part.die.problem(part.where, f"input M{half}, which chooses, must have a driver")
    part.die.fabric.cell(out, kind, {}, {**pins, select: [choice or "0"]}, ["Z"], part.where)


def carry(part: Slice) -> None:
    """Two tables and two carries.  A carry that nothing brings must not matter."""
    die, first = part.die, part.first
    inits = [part.init(half) for half in (0, 1)]
    inject = [part.setting(f"CCU2.INJECT1_{half}") for half in (0, 1)]
    pins = {f"{name}{half}": [pin] for half in (0, 1) for name, pin in part.inputs(half, inits[half]).items()}
    brought = die.pin(part.wire("FCI" if part.letter == "A" else f"FCI{part.letter}"))
    def check() -> None:
        if brought is None and carry_matters(part, inits[0], inject[0], {name: pins[f"{name}0"][0] for name in INPUTS}):
            die.problem(part.where, "its carry, which it depends on, must have a driver")

    die.checks.append(check)
    out = part.wire("FCO" if part.letter == "D" else f"FCO{part.letter}")
    outputs = {"S0": [part.wire(f"F{first}")], "S1": [part.wire(f"F{first + 1}")], "COUT": [out]}
    parameters = {f"INIT{half}": f"{inits[half]:016b}" for half in (0, 1)}
    parameters |= {f"INJECT1_{half}": inject[half] for half in (0, 1)}
    die.fabric.cell(part.wire(f"F{first}"), "CCU2C", parameters, {"CIN": [brought or "0"], **pins, **outputs}, outputs,
                    part.where)


def carry_matters(part: Slice, init: int, inject: str, pins: dict[str, Pin]) -> bool:
    """Whether the carry reaches something: the first sum if it is taken, or the second carry where the table is 1."""
    if inject == "NO" and part.wire(f"F{part.first}") in part.die.taken:
        return True
    possible = [address for address in range(16)
                if all(pins[name] not in ("0", "1") or pins[name] == str(address >> bit & 1)
                       for bit, name in enumerate(INPUTS))]
    return any(init >> address & 1 for address in possible)


def memory(part: Slice) -> None:
    """A table that is written: 16 words of a bit, as the lowest of a memory of 4."""
    die, index, out = part.die, part.number // 2, part.wire(f"F{part.number}")
    if part.tile.setting("SLICEC.MODE") != "RAMW":
        die.problem(part.where, "a memory must have its writing half in SLICEC")
    for half in (0, 1):
        part.tile.word(f"SLICEC.K{half}.INIT")  # of tables that are none
    init, entries = part.init(part.half), 0
    for word in range(16):
        address = sum((word >> place & 1) << INPUTS.index(name) for place, name in enumerate(READ_ADDRESS))
        entries |= (init >> address & 1) << 4 * word
    enable = part.tile.setting("SLICEA.WREMUX") or ""
    pins = {"RAD": [part.input(name, part.half) for name in READ_ADDRESS],
            "WAD": [die.pin(part.wire(f"WAD{k}{part.letter}")) for k in range(4)],
            "DI": [die.pin(part.wire(f"WD{part.half}{part.letter}")), "0", "0", "0"],
            "WRE": ["1" if enable in ("0", "1") else die.pin(part.wire(f"WRE{index}"))],
            "WCK": [die.pin(part.wire(f"WCK{index}"))]}
    def check() -> None:
        for name, taken in pins.items():
            if None in taken and out in die.taken:
                die.problem(part.where, f"input {name} of its memory must have a driver")

    die.checks.append(check)
    clock = "INV" if part.tile.setting("CLK1.CLKMUX") == "INV" else "WCK"
    known = {name: [pin or "0" for pin in taken] for name, taken in pins.items()}
    die.fabric.cell(out, "TRELLIS_DPR16X4", {"INITVAL": f"{entries:064b}", "WREMUX": enable, "WCKMUX": clock},
                    {**known, "DO": [out, *(f"{out} {k}" for k in (1, 2, 3))]}, ["DO"], part.where)


def flip_flop(part: Slice) -> None:
    """Its clock and reset come through one of two wires of the tile, whose settings they share."""
    die, number, half, index = part.die, part.number, part.half, part.number // 2
    names = {"REGSET": f"REG{half}.REGSET", "LSRMODE": f"REG{half}.LSRMODE", "GSR": "GSR", "CEMUX": "CEMUX"}
    parameters = {name: part.setting(setting) for name, setting in names.items()}
    if parameters["LSRMODE"] != "LSR":
        die.problem(part.where, f"REG{half}.LSRMODE must be LSR, which has a model, not {parameters['LSRMODE']}")
    data = part.wire(f"DI{number}") if part.setting(f"REG{half}.SD") == "1" else None
    pins = {"CLK": die.pin(part.wire(f"CLK{index}")), "LSR": die.pin(part.wire(f"LSR{index}")),
            "DI": die.pin(data) if data else part.input("M", half)}
    if parameters["CEMUX"] in ("CE", "INV"):
        pins["CE"] = die.pin(part.wire(f"CE{index}"))
    parameters["CLKMUX"] = shared(part, "CLK", "CLKMUX") or "CLK"
    for name, usual in (("LSRMUX", "LSR"), ("SRMODE", "LSR_OVER_CE")):
        parameters[name] = shared(part, "LSR", name) or usual
    if pins["LSR"] is None and not die.drivers.get(at(*part.place, f"MUXLSR{index}")):
        pins["LSR"] = "0"  # no wire is chosen: never reset, as nextpnr has it (ecp5/bitstream.cc, write_ff)
    for name, pin in pins.items():
        if pin is None:
            die.problem(part.where, f"input {name} of its flip-flop {half} must have a driver")
    out = part.wire(f"Q{number}")
    known = {"CE": ["1"], **{name: [pin or "0"] for name, pin in pins.items()}, "Q": [out]}
    die.fabric.cell(out, "TRELLIS_FF", parameters, known, ["Q"], part.where)


def shared(part: Slice, wire: str, name: str) -> str | None:
    """A setting of the tile's wire that the slice has chosen for its clock or reset; None where it has none."""
    chosen = part.die.drivers.get(at(*part.place, f"MUX{wire}{part.number // 2}"))
    return part.tile.setting(f"{base_of(chosen)}.{name}") if chosen else None


def without_takers(die: Die) -> Iterator[Owner]:
    """The slices in carry chains, and memories.  nextpnr ends a chain with one whose sum may be taken by nothing, and a
    memory has four bits, whatever is taken of them."""
    decided = die.bits.kinds[KIND]
    for number, letter in enumerate(LETTERS):
        choice = decided.kind.settings[f"SLICE{letter}.MODE"]
        for option, (mode, _) in enumerate(choice.options):
            tables = {"CCU2": (2 * number,), "DPRAM": (2 * number, 2 * number + 1)}.get(mode, ())
            for tile in np.flatnonzero(decided.decide("setting", choice) == option).tolist() if tables else ():
                place = decided.tiles[tile].row, decided.tiles[tile].column
                yield from (Owner(SLICES, at(*place, f"F{table}_SLICE")) for table in tables)


def constant(die: Die, pin: Pin) -> str | None:
    """The level of a pin, where it is one or a table that is always the same drives it."""
    end = die.end(pin) if pin not in ("0", "1") else pin
    if end in ("0", "1", None) or not OUTPUT.fullmatch(base_of(str(end))):
        return end if end in ("0", "1") else None
    part = Slice(die, str(end))
    if part.what != "F" or part.setting("MODE") != "LOGIC":
        return None
    return {0: "0", (1 << ONE_TABLE) - 1: "1"}.get(part.init(part.half))


SLICES = CellKind(OUTPUT, owner, make)
