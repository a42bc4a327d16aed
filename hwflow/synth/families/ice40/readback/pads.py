"""Pads and the global wires that they, the PLL or the fabric drive.

Sources: Project IceStorm, docs/source/io_tile.rst (bits; the enable of an output without a driver is 1, other inputs
0) and docs/source/ultraplus.rst (pull-ups of the UP5K); Lattice FPGA-TN-02026 (PIN_TYPE).
"""

from __future__ import annotations

from hwflow_base.errors import HwflowError

from .database import Tile
from .die import Die

Pad = tuple[Tile, int]

#: PIN_TYPE: its lower two bits say what comes in, the others what goes out.
PLAIN_INPUT, NO_OUTPUT, PLAIN_OUTPUT = 0b01, 0b0000, 0b0110
#: Bits of a UP5K that are set where the weak pull-up of a pad is off, by the number of its input enable.
WEAK_OFF = {0: "IoCtrl.cf_bit_39", 1: "IoCtrl.cf_bit_35"}
TILE_PADS = 2
#: NegClk of a tile of pads.
BOTH = 0b11


def read_pads(die: Die, package: str, plls: dict[Pad, str]) -> None:
    """All pads and global wires.

    `plls` are the pads at which an output of a PLL comes in place of the pad's own, with its wire to the global one.
    """
    pins = die.database.pins.get(package)
    if pins is None:
        raise HwflowError(f"the board's package must be one of the chip database, {', '.join(die.database.pins)}, not "
                          f"{package}", where=str(die.database.path))
    through = global_pads(die, plls)
    for place, tile in die.tiles.items():
        if tile.kind == "io":
            for number in range(TILE_PADS):
                if (place, number) in plls:
                    read_pll_pad(die, (place, number), pins)
                else:
                    PadReader(die, (place, number), pins.get((place, number))).read((place, number) in through)
    read_globals(die, plls)


def pad_wire(pad: Pad) -> str:
    """The metal of the pad itself."""
    (x, y), number = pad
    return f"X{x}/Y{y}/io_{number}/PAD"


def global_wire(die: Die, number: int) -> str:
    return die.wire(die.database.global_inputs[number], f"glb_netwk_{number}")


def global_pads(die: Die, plls: dict[Pad, str]) -> set[Pad]:
    """The pads that drive a global wire themselves."""
    return {pad for number, pad in die.database.global_pads.items()
            if die.database.pad_bits[number] in die.left and pad not in plls}


def read_globals(die: Die, plls: dict[Pad, str]) -> None:
    """What drives each global wire: its pad or the PLL there, else the buffer from the fabric."""
    database = die.database
    for number, place in database.global_inputs.items():
        wire, source = global_wire(die, number), die.wire(place, "fabout")
        where = f"global wire {number}"
        if database.pad_bits[number] in die.left:
            die.left.discard(database.pad_bits[number])
            pad = database.global_pads[number]
            die.fabric.switch(plls.get(pad, pad_wire(pad)), wire, where)
            if source in die.driven:
                die.fabric.problem(where, "is driven by a pad and by the fabric")
        elif source in die.driven:
            die.fabric.cell(f"global_{number}", "SB_GB", {}, {
                "USER_SIGNAL_TO_GLOBAL_BUFFER": [source], "GLOBAL_BUFFER_OUTPUT": [wire]},
                ["GLOBAL_BUFFER_OUTPUT"], where)
            if wire not in die.taken:
                die.fabric.problem(where, "is driven by the fabric, and nothing takes it")
    read_column_buffers(die)


def read_column_buffers(die: Die) -> None:
    """Each tile's global wires come through a buffer of its column, which must be on where something takes one; the
    others are on as well in files of icepack."""
    sources = set(die.database.column_buffers.values())
    for number in die.database.global_inputs:
        wire, name = global_wire(die, number), f"ColBufCtrl.glb_netwk_{number}"
        for tile in die.globals.get(wire, set()):
            source = die.database.column_buffers.get(tile)
            if source is not None and not die.tiles[source].has(name):
                x, y = tile
                die.fabric.problem(die.tiles[source].where, f"{name} must be set: tile {x},{y} takes the wire")
        for source in sources:
            die.tiles[source].take(name)


def pull_up(die: Die, pad: Pad) -> tuple[bool, bool]:
    """(whether the input is on, whether the pad pulls up), with their bits explained."""
    found = die.database.input_enables.get(pad)
    if found is None:
        return False, False
    place, number = found
    tile = die.tiles[place]
    enabled, off = tile.take(f"IoCtrl.IE_{number}"), tile.take(f"IoCtrl.REN_{number}")
    weak = WEAK_OFF[number]
    if weak in tile.settings and tile.take(weak) != off:
        die.fabric.problem(tile.where, f"{weak} must be as IoCtrl.REN_{number}: the strength of a pull-up")
    return bool(enabled), not off


def read_pll_pad(die: Die, pad: Pad, pins: dict[Pad, str]) -> None:
    """A pad whose input is an output of the PLL; it may still be an output, or the input of the PLL itself."""
    reader = PadReader(die, pad, pins.get(pad))
    if reader.kind & 0b11 != PLAIN_INPUT:
        die.fabric.problem(reader.where, f"PINTYPE must be 01 in its lower bits at an output of the PLL, not "
                                         f"{reader.kind & 0b11:02b}")
    reader.read_pll()


class PadReader:
    """Pad `pad`, at `pin` of the package."""

    def __init__(self, die: Die, pad: Pad, pin: str | None):
        self.die, self.pad = die, pad
        self.place, self.number = pad
        self.tile = die.tiles[self.place]
        self.kind = sum(self.tile.take(f"IOB_{self.number}.PINTYPE_{k}") << k for k in range(6))
        self.pin = pin or "{},{},{}, which the package does not have".format(*self.place, self.number)
        self.where = f"{self.tile.where} IOB_{self.number}"
        self.into, self.out = self.kind & 0b11, self.kind >> 2

    def wire(self, name: str) -> str:
        return self.die.wire(self.place, f"io_{self.number}/{name}")

    def shared(self, name: str) -> str:
        """A wire of both pads of the tile."""
        return self.die.wire(self.place, f"io_global/{name}")

    def read(self, takes_global: bool) -> None:
        """A pad that no PLL has; `takes_global`: it drives a global wire."""
        taken = [name for name in ("D_IN_0", "D_IN_1") if self.wire(name) in self.die.taken]
        enabled, pulls = pull_up(self.die, self.pad)
        if enabled != bool(taken or takes_global):
            self.die.fabric.problem(self.where, "has an input that is on, and nothing takes it" if enabled else
                                    "has an input that is taken, and its input enable is off")
        if not self.kind and not taken and not takes_global:
            if not pulls and self.pad in self.die.database.input_enables:
                self.die.fabric.problem(self.where, "is not used, and must pull up")
            return
        self.die.fabric.pulls[self.pin] = "up" if pulls else "none"
        if self.out == NO_OUTPUT and self.into == PLAIN_INPUT and "D_IN_1" not in taken:
            self.die.fabric.pad(self.pin, "input", pad_wire(self.pad), self.where)
            if taken:
                self.die.fabric.switch(pad_wire(self.pad), self.wire("D_IN_0"), self.where)
        elif self.out == PLAIN_OUTPUT and not taken and not takes_global:
            self.die.fabric.pad(self.pin, "output", self.wire("D_OUT_0"), self.where)
        else:
            self.read_cell(taken)

    def read_pll(self) -> None:
        """The pad of a PLL's output: only what goes out is its own, or the clock that goes into the PLL."""
        enabled, pulls = pull_up(self.die, self.pad)
        if enabled or self.out != NO_OUTPUT:
            self.die.fabric.pulls[self.pin] = "up" if pulls else "none"
        if enabled:
            self.die.fabric.pad(self.pin, "input", pad_wire(self.pad), self.where)
        if self.out == PLAIN_OUTPUT:
            self.die.fabric.pad(self.pin, "output", self.wire("D_OUT_0"), self.where)
        elif self.out != NO_OUTPUT:
            self.die.fabric.problem(self.where, f"PINTYPE {self.kind:06b} has no model at an output of the PLL")

    def read_cell(self, taken: list[str]) -> None:
        """A pad with registers or an enable: a cell whose pin is the pad."""
        die, falls = self.die, self.tile.take("NegClk")
        if falls not in (0, BOTH):
            die.fabric.problem(self.where, "NegClk must have both of its bits or none")
        pins = {"PACKAGE_PIN": [pad_wire(self.pad)], **{name: [self.wire(name)] for name in taken}}
        pins |= {name: [wire] for name, wire in self.inputs().items() if wire in die.driven or self.needs(name, taken)}
        die.defaults.update({self.wire("OUT_ENB"): "1", self.wire("D_OUT_0"): "0", self.wire("D_OUT_1"): "0"})
        pins["CLOCK_ENABLE"] = [self.shared("cen")]
        die.defaults[self.shared("cen")] = "1"
        if self.shared("latch") in die.driven:
            die.fabric.problem(self.where, "io_global/latch of a pad has no model")
        die.fabric.pad(self.pin, "inout", pad_wire(self.pad), self.where)
        die.fabric.cell("pad_{}_{}_{}".format(*self.place, self.number), "SB_IO",
                        {"PIN_TYPE": f"{self.kind:06b}", "NEG_TRIGGER": str(falls & 1)}, pins, taken, self.where)

    def inputs(self) -> dict[str, str]:
        """The wires of the cell's inputs, but for those of both pads that have no clock."""
        return {"D_OUT_0": self.wire("D_OUT_0"), "D_OUT_1": self.wire("D_OUT_1"),
                "OUTPUT_ENABLE": self.wire("OUT_ENB"), "INPUT_CLK": self.shared("inclk"),
                "OUTPUT_CLK": self.shared("outclk")}

    def needs(self, name: str, taken: list[str]) -> bool:
        """Whether a pad of this kind does something with an input."""
        drives, sends = self.out >> 2, self.out & 0b11
        return {"D_OUT_0": drives != 0, "D_OUT_1": drives != 0 and sends == 0b00, "OUTPUT_ENABLE": drives >= 0b10,
                "INPUT_CLK": "D_IN_1" in taken or (bool(taken) and self.into != PLAIN_INPUT),
                "OUTPUT_CLK": drives == 0b11 or (drives != 0 and sends != PLAIN_OUTPUT & 0b11)}[name]
