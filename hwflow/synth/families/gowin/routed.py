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
    same = [cell for cell in cells if not unlike_in(cell, names, old)]
    if len(same) != 1:
        raise unlike_pll(source, unlike_in(cells[0], names, old) if len(cells) == 1 else "dividers")
    parameters = same[0]["parameters"]
    for name, value in new.parameters:
        parameters[name] = f"{value:0{len(parameters[name])}b}"
    return json.dumps(document)


def unlike_in(cell: Mapping[str, Any], names: Sequence[str], old: Mapping[str, int]) -> str:
    """The first of the dividers that is not in a PLL's cell as it should be; "" if all are."""
    for name in names:
        value = cell["parameters"].get(name, "")
        if not value or set(value) - {"0", "1"} or int(value, 2) != old[name]:
            return name
    return ""


def patched(layout: str, old: Contents, new: Contents, source: str) -> str:
    """Parameters of nextpnr-himbaechel's routed netlist, which is the layout file itself; tables keep their inputs."""
    document = json.loads(layout)
    replaced(document, old, new, source)
    return json.dumps(document)
