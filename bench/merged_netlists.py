"""Many netlists that differ in a few cells, as one of which a number chooses each when a simulation starts.

So a simulator compiles once for hundreds of changed designs.  A net is known by its driver: cell, pin and bit, or port
and bit; cells have the same names in all netlists.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from hwflow.synth.yosys_json import Bit, Cell, Module

#: Passes on OTHER in the simulation of netlist NUMBER (+netlist=NUMBER), else BASE.
CHOICE = "hwflow_choice"
VERILOG = f"""
module {CHOICE} (input BASE, OTHER, output O);
  parameter [31:0] NUMBER = 0;
  integer chosen;
  initial if (!$value$plusargs("netlist=%d", chosen)) chosen = 0;
  assign O = chosen == NUMBER ? OTHER : BASE;
endmodule
"""

#: The parameter of a table, and which bit of its address each input is: SB_LUT4, LUT1 to LUT4 of both other families.
TABLES = {"SB_LUT4": "LUT_INIT", **{f"LUT{inputs}": "INIT" for inputs in (1, 2, 3, 4)}}
ADDRESS = {**{name: k for k, name in enumerate("ABCD")}, **{f"I{k}": k for k in range(4)}}
#: Cells whose outputs do not follow their inputs in the same cycle, or are not followed further.
LATER = re.compile(r"\w*DFF\w*|TRELLIS_FF|SB_RAM40_4K|SB_SPRAM256KA|DP16KD|SDPX?9?B|pROM(X9)?|SB_MAC16|SB_IO|"
                   r"MULT\w+|ALU54B|\w*PLL\w*|FLASH\w*")
Driver = tuple[str, str, int] | str


def drivers_of(module: Module) -> dict[Bit, Driver]:
    """The driver of each net; levels are themselves."""
    found: dict[Bit, Driver] = {level: level for level in "01xz"}
    for name, port in module["ports"].items():
        if port["direction"] != "output":
            found |= {bit: ("port", name, k) for k, bit in enumerate(port["bits"])}
    for name, cell in module["cells"].items():
        for pin, direction in cell["port_directions"].items():
            if direction == "output":
                found |= {bit: (name, pin, k) for k, bit in enumerate(cell["connections"][pin])}
    return found


def meaning_of(module: Module) -> tuple[dict[str, object], dict[str, object]]:
    """Cells and ports without numbers of nets: equal for netlists that are the same."""
    drivers = drivers_of(module)
    cells: dict[str, object] = {}
    for name, cell in module["cells"].items():
        inputs = {pin: [drivers[bit] for bit in bits] for pin, bits in cell["connections"].items()
                  if cell["port_directions"][pin] != "output"}
        outputs = {pin: len(bits) for pin, bits in cell["connections"].items() if pin not in inputs}
        cells[name] = (cell["type"], cell["parameters"], inputs, outputs)
    ports: dict[str, object] = {name: (port["direction"], [drivers[bit] for bit in port["bits"]])
                                for name, port in module["ports"].items()}
    return cells, ports


def reached(module: Module) -> Module:
    """The same netlist with 0 for all entries of tables that no values of their inputs reach: those of an input that is
    a level, or of two that are one net."""
    found = copy.deepcopy(module)
    for cell in found["cells"].values():
        if cell["type"] in TABLES:
            name = TABLES[cell["type"]]
            bits = cell["parameters"][name]
            nets = address_of(cell)
            cell["parameters"][name] = "".join(
                bit if can_be(nets, len(bits) - 1 - k) else "0" for k, bit in enumerate(bits))
    return found


def address_of(cell: Cell) -> list[Bit]:
    """The nets of the inputs of a table, the lowest first; one that is open is 0."""
    nets: list[Bit] = ["0"] * 4
    for pin, bits in cell["connections"].items():
        if pin in ADDRESS:
            nets[ADDRESS[pin]] = bits[0]
    return nets


def can_be(nets: Sequence[Bit], entry: int) -> bool:
    """Whether inputs that are these nets can have the values of `entry`."""
    levels: dict[Bit, int] = {"0": 0, "1": 1}
    return all(levels.setdefault(net, entry >> k & 1) == entry >> k & 1 for k, net in enumerate(nets))


def read_at_once(cell: Cell) -> list[Bit]:
    """The nets on which an output of a cell depends in the same cycle: none of a register, a memory or a block, and of
    a table those on which it depends."""
    if LATER.fullmatch(cell["type"]):
        return []
    if cell["type"] in TABLES:
        bits = cell["parameters"][TABLES[cell["type"]]][::-1]
        return [net for k, net in enumerate(address_of(cell)) if any(
            bits[entry] != bits[entry ^ 1 << k] for entry in range(len(bits)) if entry ^ 1 << k < len(bits))]
    return [bit for pin, bits in cell["connections"].items() if cell["port_directions"][pin] != "output"
            for bit in bits]


def feeders(module: Module) -> dict[str, set[str]]:
    """For each cell those whose outputs it passes on in the same cycle."""
    drivers = drivers_of(module)
    return {name: {str(driver[0]) for bit in read_at_once(cell) if isinstance(driver := drivers[bit], tuple)
                   and driver[0] != "port"} for name, cell in module["cells"].items()}


def without_circles(base: Module, others: Mapping[int, Module]) -> list[dict[int, Module]]:
    """The netlists in groups, in each of which choices make no circle of cells without a register, whatever is chosen.
    One that has a circle itself is in none."""
    groups: list[tuple[dict[str, set[str]], dict[int, Module]]] = []
    for number, other in others.items():
        added = feeders(other)
        for graph, group in [*groups, (feeders(base), {})]:
            both = {name: graph.get(name, set()) | added.get(name, set()) for name in {**graph, **added}}
            if not is_circular(both):
                graph |= both
                group[number] = other
                groups += [] if any(graph is each for each, _ in groups) else [(graph, group)]
                break
    return [group for _, group in groups]


def is_circular(graph: Mapping[str, set[str]]) -> bool:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


def can_merge(base: Module, other: Module) -> bool:
    """Whether the ports of both have the same directions."""
    return ({name: (port["direction"], len(port["bits"])) for name, port in base["ports"].items()}
            == {name: (port["direction"], len(port["bits"])) for name, port in other["ports"].items()}
            and "inout" not in {port["direction"] for port in base["ports"].values()})


def merged(base: Module, others: Mapping[int, Module]) -> Module:
    """`base`, with the netlists `others` under their numbers, which are not 0."""
    return Merger(base).module(others)


class Merger:
    def __init__(self, base: Module):
        self.base, self.meaning = copy.deepcopy(base), meaning_of(base)
        self.nets = {driver: bit for bit, driver in drivers_of(base).items()}
        self.next = 1 + max(bit for bit in self.nets.values() if isinstance(bit, int))
        self.choices: dict[Bit, list[tuple[int, Bit]]] = defaultdict(list)
        self.outputs: dict[tuple[str, int], list[tuple[int, Bit]]] = defaultdict(list)

    def new(self) -> int:
        self.next += 1
        return self.next - 1

    def module(self, others: Mapping[int, Module]) -> Module:
        for number, other in others.items():
            self.add(number, other)
        cells, used = self.base["cells"], drivers_of(self.base)
        for net, choices in self.choices.items():
            name, pin, k = used[net]
            inner = self.new()
            cells[str(name)]["connections"][str(pin)][int(k)] = inner
            self.choose(f"choice_{net}", inner, choices, net)
        for (name, k), choices in self.outputs.items():
            end = self.new()
            self.choose(f"choice_{name}_{k}", self.base["ports"][name]["bits"][k], choices, end)
            self.base["ports"][name]["bits"][k] = end
        return self.base

    def choose(self, name: str, inner: Bit, choices: Sequence[tuple[int, Bit]], out: Bit) -> None:
        """Cells that give `out`: one of `choices`, else `inner`."""
        for at, (number, other) in enumerate(choices):
            end = out if at == len(choices) - 1 else self.new()
            self.base["cells"][f"{name}_{number}"] = {
                "type": CHOICE, "parameters": {"NUMBER": f"{number:032b}"}, "attributes": {},
                "port_directions": {"BASE": "input", "OTHER": "input", "O": "output"},
                "connections": {"BASE": [inner], "OTHER": [other], "O": [end]}}
            inner = end

    def add(self, number: int, other: Module) -> None:
        """The cells of `other` that are not those of the base, beside them."""
        (cells, ports), drivers = meaning_of(other), drivers_of(other)
        changed = [name for name, cell in cells.items() if self.meaning[0].get(name) != cell]
        private: dict[Driver, Bit] = {}
        for name in changed:
            for pin, bits in other["cells"][name]["connections"].items():
                if other["cells"][name]["port_directions"][pin] == "output":
                    private |= {(name, pin, k): self.new() for k in range(len(bits))}

        def net(bit: Bit) -> Bit:
            driver = drivers[bit]
            return private[driver] if driver not in self.nets else self.nets[driver]

        for name in changed:
            cell: Cell = copy.deepcopy(other["cells"][name])
            for pin, bits in cell["connections"].items():
                output = cell["port_directions"][pin] == "output"
                cell["connections"][pin] = [private[name, pin, k] if output else net(bit) for k, bit in enumerate(bits)]
            self.base["cells"][f"netlist{number}_{name}"] = cell
        for driver, bit in private.items():
            if driver in self.nets:
                self.choices[self.nets[driver]].append((number, bit))
        for name, port in other["ports"].items():
            for k, bit in enumerate(port["bits"]):
                if port["direction"] == "output" and ports[name] != self.meaning[1][name]:
                    self.outputs[name, k].append((number, net(bit)))
