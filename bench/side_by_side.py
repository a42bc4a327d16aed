"""A netlist twice in one circuit, with the same inputs: can what is other in the second ever be seen from outside?

The first copy is the base.  The second is the base with one of its choices (`merged_netlists`), or with other bits in
words of one of its memories when it starts.  Tables, carries and registers are in both copies.  Memories and blocks, as
multipliers and PLLs, are in neither: what they give is an input of the circuit, anything in each step, and the same for
both copies as long as both ask for the same.  So what is proved holds whatever they hold and compute.

- A block's inputs must be the same in both copies, always.
- Of a memory the copies may differ in some words.  The circuit knows the bits that differ, follows them when a word is
  written, and lets the second copy read them.  All else that is written must be the same, at the same address.  Reads
  at addresses that differ give anything.
- Output ports must be the same, always.

The output `differs` of the circuit says that something is not.  In each step each clock ticks or does not, as the input
`ticks` says: ratio and phase of the clocks are any.  What is undefined when a design starts is anything, in both copies
the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from hwflow_sim.cells import CellModels

from hwflow.synth.yosys_json import Bit, Cell, Module, NetName, Port
from proofs.programs import Programs, run_yosys

from .merged_netlists import CHOICE

#: Cells that are in neither copy: all that is no table, carry, mux, flip-flop or memory.
BLOCKS = re.compile(r"SB_MAC16|SB_IO|SB_SPRAM256KA|MULT\w+|ALU54B|\w*PLL\w*|FLASH\w*")
FLATTEN = """read_verilog -sv cells.v
read_json netlist.json
hierarchy -top top
proc
flatten
memory_collect
opt_clean
write_json flat.json
"""
CIRCUIT = """read_verilog -sv words.v
read_json twice.json
hierarchy -top top
proc
flatten
async2sync
opt -fast
techmap
opt -fast
dffunmap
setundef -undriven -init -zero
aigmap
opt_clean
write_aiger -zinit -map circuit.map circuit.aig
"""
WORDS = Path(__file__).parent / "words.v"


class NotComparable(Exception):
    """The circuit cannot say whether these netlists are the same; the text says why."""


class Memory(NamedTuple):
    """A memory of the circuit: the cell that has it, bits of an address and of a word."""

    cell: str
    abits: int
    width: int


def flat(netlist: Module, models: CellModels, folder: Path, programs: Programs) -> Module:
    """The netlist with choices as gates, registers and memories of yosys.

    Inputs of the module: its own, `given`, which are outputs of blocks, and `pick`, a bit for each netlist that can be
    chosen, in the order of their numbers.  Outputs: its own, and `told`, the inputs of blocks.
    """
    cells, given, told, most = dict[str, Cell](), list[Bit](), list[Bit](), highest(netlist)
    picks = {number: most + at for at, number in enumerate(numbers_chosen(netlist), 1)}
    for name, cell in netlist["cells"].items():
        if BLOCKS.fullmatch(cell["type"]):
            for pin, bits in cell["connections"].items():
                (given if cell["port_directions"][pin] == "output" else told).extend(bits)
        elif cell["type"] == CHOICE:
            cells[name] = mux(cell, picks[int(cell["parameters"]["NUMBER"], 2)])
        else:
            cells[name] = {**cell, "parameters": {
                key: value for key, value in cell["parameters"].items()
                if cell["type"] not in models.blocks or not models.contents.fullmatch(key)}}
    ports: dict[str, Port] = {**netlist["ports"], "given": {"direction": "input", "bits": given},
                              "told": {"direction": "output", "bits": told},
                              "pick": {"direction": "input", "bits": list(picks.values())}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cells.v").write_text(models.verilog.read_text().replace("$urandom", "$anyseq(32)"))
    write_module(folder / "netlist.json", {"ports": ports, "cells": cells, "netnames": {}})
    run_yosys(programs, folder, "flat", FLATTEN)
    module: Module = json.loads((folder / "flat.json").read_text())["modules"]["top"]
    return module


def mux(choice: Cell, pick: Bit) -> Cell:
    """A choice, made by the net `pick`."""
    nets = choice["connections"]
    return {"type": "$_MUX_", "parameters": {}, "attributes": {},
            "port_directions": {"A": "input", "B": "input", "S": "input", "Y": "output"},
            "connections": {"A": nets["BASE"], "B": nets["OTHER"], "S": [pick], "Y": nets["O"]}}


def numbers_chosen(netlist: Module) -> list[int]:
    """The numbers of the netlists that can be chosen."""
    return sorted({int(cell["parameters"]["NUMBER"], 2) for cell in netlist["cells"].values()
                   if cell["type"] == CHOICE})


def highest(module: Module) -> int:
    """The number of its last net."""
    pins = [bits for cell in module["cells"].values() for bits in cell["connections"].values()]
    pins += [port["bits"] for port in module["ports"].values()]
    return max((bit for bits in pins for bit in bits if isinstance(bit, int)), default=1)


def write_module(path: Path, module: Module) -> None:
    path.write_text(json.dumps({"modules": {"top": {**module, "attributes": {"top": f"{1:032b}"}}}}))


def make_circuit(module: Module, count: int, folder: Path, programs: Programs) -> list[Memory]:
    """Write `circuit.aig` and `circuit.map`, the circuit of a module that `flat` made, in which `count` words of a
    memory can be other; its memories, in the order of the bits of its input `turned`."""
    twice = Twice(module, count)
    write_module(folder / "twice.json", twice.circuit())
    (folder / "words.v").write_text(WORDS.read_text())
    run_yosys(programs, folder, "circuit", CIRCUIT)
    return [Memory(name.partition(".")[0], number_of(cell, "ABITS"), number_of(cell, "WIDTH"))
            for name, cell in module["cells"].items() if name in twice.turned]


class Twice:
    """Two copies of `module`, which `flat` made."""

    def __init__(self, module: Module, count: int):
        self.count = count
        self.module, self.shift, self.next = module, highest(module) + 1, 2 * highest(module) + 4
        self.cells: dict[str, Cell] = {}
        self.ports: dict[str, Port] = {}
        #: Of each clock and its edge the input that says whether it ticks; of each memory that which turns its word.
        self.ticks: dict[tuple[Bit, str], Bit] = {}
        self.turned: dict[str, Bit] = {}
        self.given: list[Bit] = []
        self.same: list[tuple[Bit, Bit]] = []
        inputs = [port["bits"] for name, port in module["ports"].items()
                  if port["direction"] == "input" and name != "pick"]
        any_value = [cell["connections"]["Y"] for cell in module["cells"].values() if cell["type"] == "$anyseq"]
        self.given += [bit for bits in any_value for bit in bits]
        self.shared = {bit for bits in (*inputs, *any_value) for bit in bits}
        self.start = {bit: value for name in module["netnames"].values() if "init" in name["attributes"]
                      for bit, value in zip(name["bits"], reversed(name["attributes"]["init"]), strict=True)
                      if value in "01"}
        self.clock, self.first = self.new(), self.new()
        memories = [cell for cell in module["cells"].values() if cell["type"] == "$mem_v2"]
        self.words, self.bits = (self.some(count * max((number_of(cell, name) for cell in memories), default=1))
                                 for name in ("ABITS", "WIDTH"))

    def new(self) -> int:
        self.next += 1
        return self.next - 1

    def some(self, count: int) -> list[Bit]:
        return [self.new() for _ in range(count)]

    def other(self, bits: Iterable[Bit]) -> list[Bit]:
        """The same nets in the second copy."""
        return [bit if isinstance(bit, str) or bit in self.shared else bit + self.shift for bit in bits]

    def put(self, name: str, kind: str, parameters: Mapping[str, int], inputs: Mapping[str, list[Bit]],
            outputs: Mapping[str, list[Bit]]) -> None:
        """A cell that is there once."""
        self.cells[name] = {
            "type": kind, "parameters": {key: f"{value:032b}" for key, value in parameters.items()}, "attributes": {},
            "port_directions": dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output"),
            "connections": {**inputs, **outputs}}

    def circuit(self) -> Module:
        for name, port in self.module["ports"].items():
            if port["direction"] == "output":
                self.same += zip(port["bits"], self.other(port["bits"]), strict=True)
            else:
                self.ports[name] = {"direction": "input", "bits": port["bits"]}
        for name, cell in self.module["cells"].items():
            self.add(name, cell)
        picks = self.module["ports"]["pick"]["bits"]
        self.cells |= {f"base.{bit}": buffer("0", bit) for bit in picks}
        self.ports["pick"] = {"direction": "input", "bits": self.other(picks)}
        self.put("in.first", "hwflow_first", {}, {"clock": [self.clock]}, {"first": [self.first]})
        width, end = len(self.same), self.new()
        self.put("in.compare", "$ne", {"A_SIGNED": 0, "B_SIGNED": 0, "A_WIDTH": width, "B_WIDTH": width, "Y_WIDTH": 1},
                 {"A": [one for one, _ in self.same], "B": [two for _, two in self.same]}, {"Y": [end]})
        self.ports["differs"] = {"direction": "output", "bits": [end]}
        for name, bits in (("clock", [self.clock]), ("anything", self.given), ("ticks", [*self.ticks.values()]),
                           ("turned", [*self.turned.values()]), ("words", self.words), ("bits", self.bits)):
            self.ports[name] = {"direction": "input", "bits": list(bits)}
        names: dict[str, NetName] = {
            f"start.{bit}": {"hide_name": 1, "bits": [bit], "attributes": {"init": value}}
            for first, value in self.start.items() for bit in (first, *self.other([first]))}
        return {"ports": self.ports, "cells": self.cells, "netnames": names}

    def add(self, name: str, cell: Cell) -> None:
        if cell["type"] in ("$anyseq", "$scopeinfo"):
            return
        if cell["type"] == "$mem_v2":
            self.memory(name, cell)
        elif "CLK" in cell["connections"]:
            self.register(name, cell)
        else:
            self.both(name, cell)

    def both(self, name: str, cell: Cell) -> None:
        self.cells[f"0.{name}"] = cell
        self.cells[f"1.{name}"] = {**cell, "connections": {pin: self.other(bits)
                                                           for pin, bits in cell["connections"].items()}}

    def tick(self, clock: Bit, edge: str) -> Bit:
        """The input that says whether a clock ticks."""
        if clock not in self.shared:
            raise NotComparable("a clock is made by logic")
        if (clock, edge) not in self.ticks:
            self.ticks[clock, edge] = self.new()
        return self.ticks[clock, edge]

    def register(self, name: str, cell: Cell) -> None:
        """In both copies, with its clock as an enable.  What has no first value has any, the same in both."""
        if cell["type"] not in ("$dff", "$adff"):
            raise NotComparable(f"a register is a {cell['type']}")
        nets, parameters = cell["connections"], cell["parameters"]
        tick = self.tick(nets["CLK"][0], parameters["CLK_POLARITY"][-1])
        unknown = {bit: self.new() for bit in nets["Q"] if bit not in self.start}
        self.given += unknown.values()
        for copied in (list, self.other):
            second = int(copied is not list)
            hidden = {bit: self.new() for bit in unknown}
            self.cells[f"{second}.{name}"] = {
                "type": f"{cell['type']}e", "attributes": {},
                "parameters": {**parameters, "CLK_POLARITY": "1", "EN_POLARITY": "1"},
                "port_directions": {**cell["port_directions"], "EN": "input"},
                "connections": {pin: copied(bits) for pin, bits in nets.items()} | {
                    "CLK": [self.clock], "EN": [tick],
                    "Q": [hidden.get(bit, out) for bit, out in zip(nets["Q"], copied(nets["Q"]), strict=True)]}}
            for bit, inside in hidden.items():
                self.put(f"{second}.{name}.{bit}", "$_MUX_", {}, {"A": [inside], "B": [unknown[bit]],
                                                                   "S": [self.first]}, {"Y": copied([bit])})

    def memory(self, name: str, cell: Cell) -> None:
        """A memory, of which both copies have their addresses, data and enables, and read their words."""
        nets, sizes = cell["connections"], {key: number_of(cell, key) for key in (
            "ABITS", "WIDTH", "RD_PORTS", "WR_PORTS")}
        if not sizes["RD_PORTS"] or "1" in cell["parameters"]["RD_CLK_ENABLE"]:
            raise NotComparable("a memory is none that is read without a clock")
        abits, width, reads, writes = sizes.values()
        edges = cell["parameters"]["WR_CLK_POLARITY"][::-1]
        ticks = [self.tick(clock, edge) for clock, edge in zip(nets["WR_CLK"], edges, strict=False)][:writes]
        given, others, end, turned = self.some(reads * width), self.some(reads * width), self.new(), self.new()
        self.given += given + others
        self.turned[name], self.same = turned, [*self.same, (end, "0")]
        pins: dict[str, list[Bit]] = {
            "clock": [self.clock], "first": [self.first], "turned": [turned], "words": self.words[:self.count * abits],
            "bits": self.bits[:self.count * width], "given": given, "other": others, "ticks": [*ticks] or ["0"]}
        for pin, source in (("read_address", "RD_ADDR"), ("write_address", "WR_ADDR"), ("data", "WR_DATA"),
                            ("enable", "WR_EN")):
            bits = nets[source] or ["0"] * (abits if pin == "write_address" else width)
            pins |= {f"{pin}0": bits, f"{pin}1": self.other(bits)}
        self.put(f"in.{name}", "hwflow_words",
                 {"ABITS": abits, "WIDTH": width, "READS": reads, "WRITES": max(writes, 1), "COUNT": self.count}, pins,
                 {"read0": nets["RD_DATA"], "read1": self.other(nets["RD_DATA"]), "differs": [end]})


def number_of(cell: Cell, name: str) -> int:
    return int(cell["parameters"][name], 2)


def buffer(source: Bit, out: Bit) -> Cell:
    return {"type": "$_BUF_", "parameters": {}, "attributes": {}, "port_directions": {"A": "input", "Y": "output"},
            "connections": {"A": [source], "Y": [out]}}
