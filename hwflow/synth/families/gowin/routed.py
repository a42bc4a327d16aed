"""A routed Gowin as nextpnr's netlist: new dividers of its PLL, new contents of its ROMs.

Source: apicula (parameters of cells).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hwflow_rtl.vendor.pll import PllSettings

from ...contents import Contents, replaced
from ..base import unlike_pll

__all__ = ["patched", "retuned"]


def retuned(layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """Parameters of the cell, as many binary digits as before.

    There may be several PLLs, and must be one with the dividers `old`.
    """
    document = json.loads(layout)
    cells = [cell for cell in document["modules"]["top"]["cells"].values() if cell["type"] == "rPLL"]
    names = [name for name, _ in new.parameters]
    same = [cell for cell in cells if has_dividers(cell, names, old)]
    if len(same) != 1:
        raise unlike_pll(source, "dividers")
    parameters = same[0]["parameters"]
    for name, value in new.parameters:
        parameters[name] = f"{value:0{len(parameters[name])}b}"
    return json.dumps(document)


def has_dividers(cell: Mapping[str, Any], names: Sequence[str], old: Mapping[str, int]) -> bool:
    values = [(name, cell["parameters"].get(name, "")) for name in names]
    return all(value and set(value) <= {"0", "1"} and int(value, 2) == old[name] for name, value in values)


def patched(layout: str, old: Contents, new: Contents, source: str) -> str:
    """Parameters of nextpnr-himbaechel's routed netlist, which is the layout file itself; tables keep their inputs."""
    document = json.loads(layout)
    replaced(document, old, new, source)
    return json.dumps(document)
