"""Verilog to a bitstream of an iCE40, with the programs that hwflow finds and nothing of hwflow's own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hwflow.synth.toolchain import find_tool

SYNTHESIS = {"up5k": "u", "hx8k": "hx"}


def pack(verilog: str, device: str, package: str, pins: Mapping[str, Sequence[str]], folder: Path) -> tuple[Path, Path]:
    """(yosys' netlist, the bitstream) of the module `top`; `pins` are those of the bits of each port."""
    (folder / "top.v").write_text(verilog)
    bits = {f"{port}[{k}]" if len(of) > 1 else port: pin for port, of in pins.items() for k, pin in enumerate(of)}
    (folder / "top.pcf").write_text("".join(f"set_io {bit} {pin}\n" for bit, pin in bits.items()))
    script = f"read_verilog top.v; synth_ice40 -device {SYNTHESIS[device]} -top top -json top.json"
    route = [f"--{device}", "--package", package, "--pcf", "top.pcf", "--json", "top.json", "--asc", "top.asc"]
    for name, arguments in (("yosys", ["-q", "-p", script]), ("nextpnr-ice40", [*route, "--seed", "1", "-q"]),
                            ("icepack", ["top.asc", "top.bin"])):
        subprocess.run([*find_tool(name).command, *arguments], cwd=folder, check=True)
    return folder / "top.json", folder / "top.bin"
