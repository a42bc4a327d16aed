"""The questions of synthesis to an FPGA family."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Protocol

from hwflow_base.errors import HwflowError
from hwflow_base.tool_status import ToolStatus
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.vendor.pads import PadTiming
from hwflow_rtl.vendor.pll import PllSettings

from ..readback import Fabric
from ..rom_contents import Contents, RomCell, Wires
from ..transports import Pin
from ..yosys_json import Cells
from .cell_times import FILE as CELL_TIMES
from .cell_times import CellTimes, read_cell_times

#: nextpnr's netlist of the routed design, where the layout is another file.
ROUTED = "routed.json"
#: The source of a limit whose figure was taken from a data sheet without its table at hand: to be checked before a
#: design relies on it.
UNCHECKED = "as remembered from the data sheet, not checked against its table"


class Fpga(Protocol):
    """The FPGA of a board, as far as families ask for it; the attributes are those of `boards.Board`."""

    @property
    def device(self) -> str: ...

    @property
    def package(self) -> str: ...

    @property
    def speed(self) -> str | None: ...

    @property
    def chip(self) -> str | None: ...

    @property
    def pll_pad(self) -> bool: ...

    @property
    def resources(self) -> Resources: ...


@dataclass(frozen=True)
class Program:
    """A program we may need: its native names, the oldest native version that works, and the wheel that brings it.

    `version_flag` is None where the program does not tell its version: it is then taken from the wheel only.
    """

    purpose: str
    native: tuple[str, ...]
    oldest: tuple[int, ...]
    version_flag: str | None
    distribution: str
    script: str


@dataclass(frozen=True)
class Edalize:
    """How edalize, which runs the tools for FuseSoC, makes a bitstream: the flow, and its type of constraint file.

    `synth` is yosys' command there, which may take multipliers and RAM blocks by itself.
    """

    flow: str
    constraints: str
    synth: str


@dataclass(frozen=True)
class Limit:
    """A clock that a device must not exceed, whatever the place and route tool reports.

    `mhz` holds for a design that uses `what`: "clock" (always), "dsp" or "ram" blocks, "spram", or the "alu" behind two
    multipliers.  `source` says where the figure is from.
    """

    what: str
    mhz: float
    source: str


@dataclass(frozen=True)
class NetlistCells:
    """yosys' cells that make each resource but logic: for `dsp` how many of the board file's units one of them is."""

    ff: str
    dsp: Mapping[str, int]
    ram: tuple[str, ...]
    spram: tuple[str, ...] = ()


@dataclass(frozen=True)
class RoutedCells:
    """nextpnr's cells that make each resource, and how many of the board file's units one of them is.

    Flip-flops are counted in the netlist where `ff` is empty.  `spram` is None where the family has no such memory.
    `alu` names the cells that add up the products of two multipliers.
    """

    lut: Mapping[str, int]
    ff: Mapping[str, int]
    dsp: Mapping[str, int]
    ram: Mapping[str, int]
    spram: Mapping[str, int] | None = None
    alu: tuple[str, ...] = ()

    def resources(self) -> dict[str, Mapping[str, int]]:
        """The cells of each resource that the family has."""
        by_resource = {"lut": self.lut, "ff": self.ff, "dsp": self.dsp, "ram": self.ram, "spram": self.spram}
        return {name: cells for name, cells in by_resource.items() if cells is not None}


class FamilyDevices:
    """The boards and devices of a family, and their clocks.  The attributes without a value must be given."""

    #: What a board file calls it; the same as `Technology.name`.
    name: str
    #: Keys that a board file must have besides those that every board has.
    required_keys: tuple[str, ...] = ()
    #: Keys that only boards of this family have ("clock.pll_pad"), and why no other has them.
    own_keys: Mapping[str, str] = {}
    #: What the key `device` of a board file can be; empty where only the place and route tool knows.
    devices: tuple[str, ...] = ()
    #: What the key `chip` can be; empty where boards need none.
    chips: tuple[str, ...] = ()
    #: Large memories with a single port, by the device that has them.
    single_port_rams: Mapping[str, int] = {}
    #: Times of the registers in its pads; None where no design has them.
    pad_timing: PadTiming | None = None
    #: What a pad that takes something in has where a board file says nothing of its pull: "none", "up" or "down".
    usual_pull: str = "none"
    #: The primitive of the flash inside that a design may read, by the chip that has one.
    user_flashes: Mapping[str, str] = {}
    #: Whether multipliers of up to 32 bits behind sums cost no cycles where 18 bits cost none: it has blocks and tables
    #: for them (docs/results.md, "Cost of more bits of the rescaling").
    rescales_exactly: bool = False
    #: Clocks that its devices must not exceed; one of them is of "clock".
    limits: tuple[Limit, ...]
    #: The clock that place and route aims at, MHz.  nextpnr stops to improve a design that meets its goal, so this is
    #: above what any design reaches; whether the board's own clock is met is judged afterwards.
    goal_mhz: float
    #: The clock that routed designs reach at least, MHz: what a frame rate is planned with before anything is routed.
    expected_mhz: float


class FamilyTools:
    """The programs that only this family needs, and their files."""

    #: RomPart and route, then the packer: the programs that only this family needs, by name.
    programs: Mapping[str, Program]
    #: The packer among them.
    packer: str
    #: The suffix of the file with the pins.
    constraints_suffix: str
    #: The file of the routed design that the packer reads.
    layout: str
    #: The suffix of the packer's bitstream.
    bitstream_suffix: str
    #: None where no design was routed through edalize.
    edalize: Edalize | None = None


class FamilyNetlists:
    """The names of yosys and nextpnr in netlists, and how nextpnr routes them."""

    #: yosys' cells, for counting what each part of a design takes.
    netlist_cells: NetlistCells
    #: The same of nextpnr's report.
    routed_cells: RoutedCells
    #: How the kinds of its cells begin that yosys and nextpnr append to the names of signals: a regular expression.
    kinds_in_names: str
    #: nextpnr's name of the pin through which a carry chain goes on.
    carry_pin: str
    #: The version of `prepared`, a part of the keys of the steps whose results it changes.
    netlist_rules: str = ""
    #: The cell of the family's PLL, each of them where there are several kinds.
    pll_cells: tuple[str, ...]
    #: Arcs that nextpnr's first router may route, those that it takes up again included, for each arc of the design,
    #: before its second router takes its place; None: it always comes to an end.
    most_routed: float | None = None
    #: Which physical input of a table feeds each logical one, as nextpnr's netlist of the routed design says it: see
    #: `rom_cells.swaps`.  None where the layout is that netlist.
    table_wire: re.Pattern[str] | None = None


class FamilyDie:
    """The die, for pictures of it."""

    #: Columns and rows of tiles, as nextpnr counts them, by the device or, for families with chips, by the chip.
    grids: Mapping[str, tuple[int, int]]
    #: Whether row 0 is the lowest.
    upwards: bool = False
    #: The cells of each resource that one tile of logic holds.
    tile: Mapping[str, int]


class Family(FamilyDevices, FamilyTools, FamilyNetlists, FamilyDie, ABC):
    """One FPGA family: its boards, tools and files."""

    @cached_property
    def cell_times(self) -> CellTimes:
        """What nextpnr does not know of the times of its cells; a file in the family's folder."""
        return read_cell_times(Path(inspect.getfile(type(self))).with_name(CELL_TIMES))

    @property
    def netlist(self) -> str:
        """The file of nextpnr's netlist of the routed design, which says where each cell is."""
        return self.layout if self.layout.endswith(".json") else ROUTED

    def grid(self, fpga: Fpga) -> tuple[int, int]:
        """Columns and rows of tiles of the board's die."""
        return self.grids[fpga.chip or fpga.device]

    def routed_kind(self, kind: str, bel: str) -> str:
        """The kind that nextpnr's report counts a cell as: of this kind in its netlist of the routed design, placed at
        `bel`."""
        return kind

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of all programs that make a bitstream, in the order in which they run."""
        return ("yosys", *self.programs)

    def binding_limit(self, *, dsp: int, ram: int, spram: int = 0, alu: int = 0) -> Limit:
        """The lowest limit for a design with that many blocks."""
        used = {"clock": 1, "dsp": dsp, "ram": ram, "spram": spram, "alu": alu}
        return min((limit for limit in self.limits if used[limit.what]), key=lambda limit: limit.mhz)

    @abstractmethod
    def technology(self, fpga: Fpga) -> Technology:
        """How the board's device makes multipliers, memories and PLLs; a new object each time."""

    @abstractmethod
    def pin_constraint(self, port: str, pin: Pin) -> str:
        """The lines of the constraint file that place a top's port on a pin."""

    def clock_constraint(self, port: str, mhz: float) -> str:
        """The line that tells the frequency of a port; nothing where constraint files cannot say it."""
        return ""

    @abstractmethod
    def synth_command(self, fpga: Fpga) -> str:
        """yosys' command for the family.  It must take no multiplier or RAM block by itself."""

    def prepared(self, netlist: str, fpga: Fpga) -> str:
        """`netlist`, yosys' JSON text, ready for place and route: the same function with other cells or places."""
        return netlist

    def mended(self, layout: str, source: str) -> tuple[str, Mapping[str, int]]:
        """`layout`, the text of a routed design, without the defects of nextpnr that can be cured in it, and how many
        cells are touched by each `check` of `defects.yaml`.

        `source` names the file in messages.  Raises HwflowError where cells are wrong and no cure is known.
        """
        return layout, {}

    def without_places(self, netlist: str) -> str:
        """`netlist` with all the places that `prepared` gave left to nextpnr."""
        return netlist

    @abstractmethod
    def logic_cells(self, cells: Cells) -> Mapping[str, int]:
        """How many logic cells each cell of a netlist takes once packed, by the cell's name; 0 may be left out."""

    @abstractmethod
    def device_arguments(self, fpga: Fpga) -> list[str]:
        """nextpnr's options for the device alone."""

    @abstractmethod
    def nextpnr_arguments(self, fpga: Fpga, pins: str) -> list[str]:
        """nextpnr's options for the device, the constraint file `pins` and the files that it writes."""

    @abstractmethod
    def packer_arguments(self, fpga: Fpga, layout: str, bitstream: str) -> list[str]:
        """The packer's arguments for these two files."""

    @abstractmethod
    def pll_ratio(self, parameters: Mapping[str, int]) -> Fraction:
        """The PLL's output clock, in units of its input clock, with these parameters of its cell."""

    @abstractmethod
    def retuned(self, layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
        """`layout`, the text of a routed design, with the PLL's dividers `new` in place of `old`.

        `source` names the file in messages.  Raises HwflowError where the dividers in it are not `old`.
        """

    def table_inputs(self, bel: str, wires: Wires) -> dict[int, int]:
        """The physical input of each connected logical input of the table at `bel`; none where no table is."""
        return {}

    @abstractmethod
    def patched(self, layout: str, rom_cells: Sequence[RomCell], old: Contents, new: Contents, source: str) -> str:
        """`layout` with the contents `new` of its ROMs, which are at `rom_cells`, in place of `old`.

        `source` names the file in messages.  Raises HwflowError where the contents in it are not `old`.
        """

    def databases(self) -> tuple[ToolStatus, ...]:
        """The chip databases that `read_back` needs and no wheel brings, installed or not: lines of `hwflow doctor`."""
        return ()

    def require_databases(self, fpga: Fpga) -> None:
        """MissingTool where `read_back` would not find its database: asked before minutes of place and route."""

    def read_back(self, fpga: Fpga, bitstream: Path) -> Fabric:
        """What the bits in `bitstream`, the packer's file, configure, from the chip database alone.

        Raises HwflowError where the file is none of this device, is cut or damaged, or has bits that the database does
        not explain; MissingTool where the database is not installed.
        """
        raise HwflowError(f"bitstreams of the family {self.name} must have a reader, and there is none")


def unlike_pll(source: str) -> HwflowError:
    """A routed design does not have the dividers that were synthesized."""
    return HwflowError(
        "dividers of the PLL must be what was synthesized",
        "delete the file's folder and run synth again",
        where=source,
    )


def weighted(cells: Cells, weights: Mapping[str, int]) -> dict[str, int]:
    """The logic cells of each cell of a netlist whose kind is in `weights`."""
    return {name: weights[cell["type"]] for name, cell in cells.items() if cell["type"] in weights}
