"""The netlist that goes to place and route, as Verilog for a simulator.

In: the JSON file that yosys wrote after synthesis, the very one that nextpnr reads.  Out: Verilog of its cells, whose
meanings are the models in `hwflow_sim/cells`, and the contents of its block RAMs as files.

The contents stand apart, so that a netlist with other contents needs no new compilation.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import digest

from ..cells import MODELS, CellModels

#: What yosys leaves in a netlist for people to read, and nextpnr passes over.
NOTES = ("$scopeinfo",)
TOP = "top"
#: Around an instance of a cell with pins that may be left open: elsewhere such a pin is an error.
MAY_BE_OPEN = "/* verilator lint_off PINMISSING */", "/* verilator lint_on PINMISSING */"


class NetlistCell(TypedDict):
    """A cell as yosys writes it."""

    type: str
    parameters: dict[str, str]
    connections: dict[str, list[int | str]]


class NetlistPort(TypedDict):
    """A port; `low` where its pad drives while its enable is 0."""

    direction: str
    bits: list[int | str]
    low: NotRequired[bool]


class NetlistModule(TypedDict):
    """A module of the netlist."""

    ports: dict[str, NetlistPort]
    cells: dict[str, NetlistCell]


@dataclass(frozen=True)
class Netlist:
    """`verilog` has a module `top` with `ports` (name to width); `contents` are the files it reads when it starts.

    `cells` counts the kinds of cells, `digest` is that of the JSON file, `models` the file with the cells' meanings.
    """

    verilog: str
    contents: Mapping[str, str]
    ports: Mapping[str, int]
    cells: Mapping[str, int]
    digest: str
    models: Path


def read_netlist(path: Path, family: str) -> Netlist:
    """The netlist of a device of `family`, one of `cells.MODELS`.

    Raises HwflowError for a file that is no netlist, or has a cell without a model.
    """
    models = MODELS[family]
    try:
        module = without_memory(without_pads(json.loads(path.read_text())["modules"][TOP]))
        cells = {name: cell for name, cell in module["cells"].items() if cell["type"] not in NOTES}
        contents: dict[str, str] = {}
        instances = []
        for number, (name, cell) in enumerate(sorted(cells.items())):
            require_model(path, name, cell["type"], models)
            file = f"block{number}.hex"
            if text := contents_of(cell, models):
                contents[file] = text
            instances.append(instance(number, cell, file if text else None, models))
        ports = {name: len(port["bits"]) for name, port in module["ports"].items()}
        verilog = "\n".join([header(module["ports"]), *wires(module), *instances, "endmodule\n"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HwflowError(f"'{path}' must be a netlist that yosys wrote with write_json, of a module '{TOP}' "
                          f"({type(error).__name__}: {error})") from None
    kinds = Counter(cell["type"] for cell in cells.values())
    return Netlist(verilog, contents, ports, dict(sorted(kinds.items())), digest(path), models.verilog)


def require_model(path: Path, name: str, kind: str, models: CellModels) -> None:
    if kind not in models.kinds:
        raise HwflowError(
            f"'{path}': cell '{name}' must be one whose function is known (hwflow_sim/cells/{models.verilog.name}), "
            f"not {kind}",
            "write a model of it",
        )


def contents_of(cell: NetlistCell, models: CellModels) -> str | None:
    """The contents of a block RAM, a line of hexadecimal digits for each parameter; None where it has none.

    Bits without a value get one by chance, the same for the same contents.
    """
    if cell["type"] not in models.blocks:
        return None
    lines, bits = models.blocks[cell["type"]]
    parameters = {name: value for name, value in cell["parameters"].items() if models.contents.fullmatch(name)}
    if not parameters:
        return None
    values = [parameters[name] for name in sorted(parameters)]
    if len(values) != lines or any(len(value) != bits or set(value) - set("01x") for value in values):
        raise ValueError(f"the contents of a {cell['type']} must be {lines} parameters of {bits} bits")
    chance = random.Random("".join(values))
    values = [re.sub("x", lambda _: chance.choice("01"), value) for value in values]
    return "".join(f"{int(value, 2):0{bits // 4}x}\n" for value in values)


@dataclass(frozen=True)
class Pad:
    """The pins of a cell that drives a port in both directions; `low`: it drives while `enable` is 0.

    `stays`: the cell has registers, so it stays, and its pin `port` becomes `out`, `enable` and `into`.
    """

    port: str
    out: str
    enable: str
    into: str
    low: bool = False
    stays: bool = False


#: yosys' own cell, which nextpnr-ecp5 packs into pads, and those of Gowin and iCE40.
PADS = {"$_TBUF_": Pad("Y", "A", "E", "Y"), "IOBUF": Pad("IO", "I", "OEN", "O", low=True),
        "SB_IO": Pad("PACKAGE_PIN", "PIN_O", "PIN_OE", "PIN_I", stays=True)}
#: The pin of a pad with registers that is connected if it takes anything in.
TAKEN = "D_IN_0"


def without_pads(module: NetlistModule) -> NetlistModule:
    """The module with three ports, `_i`, `_o` and `_oe`, for each in both directions: a simulator has no wires that two
    sides drive.  The cells of these pads are taken out, or split where they have registers; a port whose pads take
    nothing in is an output."""
    cells = split_pads(module)
    pads = {cell["connections"][PADS[cell["type"]].port][0]: (name, cell, PADS[cell["type"]])
            for name, cell in cells.items() if cell["type"] in PADS}
    ports: dict[str, NetlistPort] = {}
    for name, port in module["ports"].items():
        if port["direction"] != "inout":
            ports[name] = port
            continue
        driven = [pads[bit] for bit in port["bits"]]

        def nets(pin: str, driven: list[tuple[str, NetlistCell, Pad]] = driven) -> list[int | str]:
            return [cell["connections"][getattr(pad, pin)][0] for _, cell, pad in driven]

        if all(pad.stays and TAKEN not in cell["connections"] for _, cell, pad in driven):
            ports[name] = {"direction": "output", "bits": nets("out")}
            continue
        drives = list(dict.fromkeys(nets("enable")))
        ports |= {
            f"{name}_i": {"direction": "input", "bits": nets("into")},
            f"{name}_o": {"direction": "output", "bits": nets("out")},
            f"{name}_oe": {"direction": "output", "bits": drives if len(drives) == 1 else nets("enable"),
                           "low": driven[0][2].low}}
    left = {name: {**cell, "connections": {pin: bits for pin, bits in cell["connections"].items()
                                           if pin != PADS[cell["type"]].port}} if cell["type"] in PADS else cell
            for name, cell in cells.items() if cell["type"] not in PADS or PADS[cell["type"]].stays}
    return {**module, "ports": ports, "cells": left}


#: Memories inside of an FPGA that no bitstream fills, and their pins that carry something in a design that reads them.
MEMORIES = {"FLASH608K": ("XADR", "YADR", "SE", "DOUT")}
READ = "DOUT"


def without_memory(module: NetlistModule) -> NetlistModule:
    """The module with the pins of its memory as ports, as if that were a chip beside the FPGA: `memory_` and the name
    of the pin.  A simulated one stands at them."""
    memories = [name for name, cell in module["cells"].items() if cell["type"] in MEMORIES]
    if not memories:
        return module
    (name,) = memories  # there is one in a device
    cell = module["cells"][name]
    ports = {f"memory_{pin.lower()}": {"direction": "input" if pin == READ else "output",
                                       "bits": cell["connections"][pin]} for pin in MEMORIES[cell["type"]]}
    return {**module, "ports": {**module["ports"], **ports},
            "cells": {cell_name: other for cell_name, other in module["cells"].items() if cell_name != name}}


def split_pads(module: NetlistModule) -> dict[str, NetlistCell]:
    """The cells, of which pads with registers have nets of their own for both directions of their ports."""
    cells, unused = dict(module["cells"]), 1 + max(
        (bit for cell in module["cells"].values() for bits in cell["connections"].values() for bit in bits
         if isinstance(bit, int)), default=0)
    for name, cell in module["cells"].items():
        pad = PADS.get(cell["type"])
        if pad is not None and pad.stays:
            ends = {pin: [unused + k] for k, pin in enumerate((pad.out, pad.enable, pad.into))}
            cells[name] = {**cell, "connections": {**cell["connections"], **ends}}
            unused += len(ends)
    return cells


def header(ports: Mapping[str, NetlistPort]) -> str:
    for name, port in ports.items():
        if port["direction"] not in ("input", "output"):
            raise ValueError(f"port '{name}' must be an input or output, not {port['direction']}")
    declared = (f"{port['direction']} [{len(port['bits']) - 1}:0] {plain(name)}" for name, port in ports.items())
    return f"module {TOP} ({', '.join(declared)});"


def wires(module: NetlistModule) -> Iterator[str]:
    """A wire for each net, and those of the ports tied to them."""
    used = {bit for cell in module["cells"].values() for bits in cell["connections"].values() for bit in bits}
    used |= {bit for port in module["ports"].values() for bit in port["bits"]}
    numbers = sorted(bit for bit in used if isinstance(bit, int))
    for at in range(0, len(numbers), 16):
        yield f"wire {', '.join(f'n{number}' for number in numbers[at:at + 16])};"
    for name, port in module["ports"].items():
        bits = concatenated(port["bits"])
        inverted = "~" if port.get("low") else ""
        yield f"assign {bits} = {name};" if port["direction"] == "input" else f"assign {name} = {inverted}{bits};"


def instance(number: int, cell: NetlistCell, file: str | None, models: CellModels) -> str:
    values = [f".{plain(name)}({constant(value)})" for name, value in sorted(cell["parameters"].items())
              if cell["type"] not in models.blocks or not models.contents.fullmatch(name)]
    if file is not None:
        values.append(f'.FILE("{file}")')
    pins = [f".{plain(name)}({concatenated(bits)})" for name, bits in sorted(cell["connections"].items()) if bits]
    parameters = f" #({', '.join(values)})" if values else ""
    text = f"{cell['type']}{parameters} u{number} ({', '.join(pins)});"
    return f"{MAY_BE_OPEN[0]} {text} {MAY_BE_OPEN[1]}" if cell["type"] in models.open else text


def plain(name: str) -> str:
    """A name that needs no quotes in Verilog."""
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        raise ValueError(f"the name of a port or parameter must be a plain name, not {name!r}")
    return name


def concatenated(bits: list[int | str]) -> str:
    """The bits of a pin, the lowest first in JSON and last in Verilog."""
    text = ", ".join(f"n{bit}" if isinstance(bit, int) else constant(bit) for bit in reversed(bits))
    return text if len(bits) == 1 else f"{{{text}}}"


def constant(value: str | int) -> str:
    """A parameter in yosys' JSON: bits where it looks like them, else text, which then ends in a blank."""
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise TypeError(f"a parameter must be bits or plain text, not {value!r}")
    if re.fullmatch(r"[01xz]+", value):
        return f"{len(value)}'b{value}"
    text = value[:-1] if re.fullmatch(r"[01xz]* +", value) else value
    if not re.fullmatch(r"[\w. +-]*", text):
        raise ValueError(f"a parameter must be bits or plain text, not {value!r}")
    return f'"{text}"'
