"""The ports of instances that nothing is connected to, in the RTLIL of a design."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hwflow_sim.builder import STRICT
from hwflow_sim.tools import find_tools, run_tool

#: The ports of each module, by their names.
Ports = Mapping[str, frozenset[str]]
MODULE = re.compile(r"^module \\(\S+)\n(.*?)^end\n", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"^  wire width (\d+) (?:signed )?(?:input|output|inout) \d+ +\\(\S+)$", re.MULTILINE)
CELL = re.compile(r"^  cell \\(\S+) \\(\S+)\n(.*?)^  end\n", re.MULTILINE | re.DOTALL)
CONNECT = re.compile(r"^    connect \\(\S+) (.*)$", re.MULTILINE)
#: A value of no bits.
NOTHING = "{}"


@dataclass(frozen=True)
class OpenPort:
    """`port` of the instance `name` of a module `kind` in `module`."""

    module: str
    name: str
    kind: str
    port: str


@dataclass(frozen=True)
class Seen:
    """How many modules and instances of them a text has, and their open ports."""

    modules: int
    instances: int
    open: tuple[OpenPort, ...]


def ports_of(files: Sequence[Path], folder: Path) -> Ports:
    """Of the modules of Verilog files, as Verilator understands them."""
    tools, tree = find_tools(), folder / "modules.json"
    run_tool([tools.verilator, "--json-only", *STRICT, "-Wno-MULTITOP", "--json-only-output", tree, "--Mdir", folder,
              *files], what="Verilator", cwd=folder, log=folder / "modules.log",
             env={**os.environ, "VERILATOR_ROOT": str(tools.verilator_root)})
    return {module["name"]: frozenset(each["name"] for each in module["stmtsp"]
                                      if each.get("type") == "VAR" and each["direction"] != "NONE")
            for module in json.loads(tree.read_text())["modulesp"] if module["type"] == "MODULE"}


def seen(text: str, outside: Ports) -> Seen:
    """`outside` has the modules that the text does not have.  KeyError for one that neither has.

    Ports of a module that have no bits are none."""
    bodies = dict(MODULE.findall(text))
    assert bodies, text
    known = {name: {port for width, port in PORT.findall(body) if width != "0"} for name, body in bodies.items()}
    instances, found = 0, []
    for module, body in bodies.items():
        for kind, name, pins in CELL.findall(body):
            if kind.startswith("$"):
                continue
            instances += 1
            connected = {port for port, value in CONNECT.findall(pins)
                         if value.replace(" ", "") != NOTHING}
            ports = known[kind] if kind in known else outside[kind]
            found += [OpenPort(module, name, kind, port) for port in sorted(ports - connected)]
    return Seen(len(bodies), instances, tuple(found))
