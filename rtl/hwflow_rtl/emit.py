"""Text of a component: Verilog for people and simulators, RTLIL for yosys.

The same component gives the same bytes: source positions, and with them paths of the machine, are left out.
"""

from __future__ import annotations

from amaranth.back import rtlil, verilog
from amaranth.lib import wiring

__all__ = ["emit", "emit_rtlil"]


def emit(component: wiring.Component, *, name: str) -> str:
    """`component` as the Verilog module `name` and the modules below it.

    Its ports are those of its signature, `clk` and `rst`; the members of a port are joined by two underscores
    (`i__payload`), and a payload is one vector, lane 0 lowest.  Runs the yosys that Amaranth finds.
    """
    text: str = verilog.convert(component, name=name, emit_src=False, strip_internal_attrs=True)
    return text


def emit_rtlil(component: wiring.Component, *, name: str) -> str:
    """`component` as RTLIL, the same ports; needs no yosys."""
    text: str = rtlil.convert(component, name=name, emit_src=False)
    return text
