"""Text of a component: Verilog for people and simulators, RTLIL for yosys.

The same component gives the same bytes: source positions, and with them paths of the machine, are left out.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from amaranth.back import rtlil, verilog
from amaranth.lib import wiring

__all__ = ["emit", "emit_rtlil", "to_verilog", "without_collector"]


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """No search for garbage meanwhile: Amaranth keeps all it makes, and looking through it takes 40 % of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def to_verilog(text: str) -> str:
    """RTLIL as Verilog, by the yosys that Amaranth finds, with the passes of `amaranth.back.verilog.convert`.

    That function takes a component and makes its RTLIL once more, which is most of the time; what it calls with the
    RTLIL has no public name.
    """
    result: str = verilog._convert_rtlil_text(text, strip_internal_attrs=True)
    return result


def emit(component: wiring.Component, *, name: str) -> str:
    """`component` as the Verilog module `name` and the modules below it.

    Its ports are those of its signature, `clk` and `rst`; the members of a port are joined by two underscores
    (`i__payload`), and a payload is one vector, lane 0 lowest.  Runs the yosys that Amaranth finds.
    """
    return to_verilog(emit_rtlil(component, name=name))


def emit_rtlil(component: wiring.Component, *, name: str) -> str:
    """`component` as RTLIL, the same ports; needs no yosys."""
    with without_collector():
        text: str = rtlil.convert(component, name=name, emit_src=False)
    return text
