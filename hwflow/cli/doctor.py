"""`hwflow doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from hwflow_base.later import later

with later():
    from hwflow_sim.tools import simulation_tools

    from ..synth import database_status, defects_of, tool_status
    from ..synth.program import programmer_status
    from ..views.console.runs import show_defects, show_tools
    from ..views.console.terminal import Console


def doctor(console: Console) -> Mapping[str, object]:
    """Show which tools are installed, which are missing, and how to install them; and their known defects."""
    tools = (*simulation_tools(), *tool_status(), *database_status(), *programmer_status())
    show_tools(console, tools)
    defects = defects_of({tool.name: tool.version for tool in tools if tool.found})
    show_defects(console, defects)
    complete = all(tool.found or not tool.needed for tool in tools)
    return {"exit_code": 0 if complete else 1, "tools": [asdict(tool) for tool in tools],
            "defects": [asdict(defect) for defect in defects]}
