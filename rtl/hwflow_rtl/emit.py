"""Text of a component: Verilog for people and simulators, RTLIL for yosys.

The same component gives the same bytes: source positions, and with them paths of the machine, are left out.
"""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterator

from amaranth.back import rtlil, verilog
from amaranth.lib import wiring

#: A name with an index in it, as Amaranth gives the elements of an array.
INDEXED = re.compile(r"\\\S*\[\S*")
#: The variable that yosys puts into each combinational block of a module, so that an event at the start evaluates it.
START = re.compile(r"^( *)reg (\\\$auto\$verilog_backend\S+ ) = 0;\n", re.MULTILINE)


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


def for_any_tool(text: str) -> str:
    """Verilog of `to_verilog` for tools that are not this project's.

    No name has an index in it: abc9 of yosys 0.70 dies of an assertion where a wire of several bits is named like the
    bit of another one (YosysHQ/yosys issue 4349).  And every combinational block is evaluated at time 0.
    yosys gives such blocks a variable with an initial value, whose event is to evaluate them.  Simulators that set
    initial values before any process starts, as SystemVerilog asks for and Icarus does, see no event, and what depends
    on constants alone stays X.  A nonblocking assignment comes after all processes have started.
    """
    text = INDEXED.sub(lambda match: match[0].replace("[", ".").replace("]", ""), text)
    return START.sub(lambda match: (
        f"{match[0]}`ifndef SYNTHESIS\n{match[1]}/* verilator lint_off INITIALDLY */\n"
        f"{match[1]}initial {match[2]}<= 1'h1;\n{match[1]}/* verilator lint_on INITIALDLY */\n`endif\n"), text)


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
