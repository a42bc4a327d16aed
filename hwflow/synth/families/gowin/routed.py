"""A routed Gowin as nextpnr's netlist: new dividers of its PLL, new contents of its ROMs.

Source: apicula (parameters of cells).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from hwflow_rtl.vendor.pll import PllSettings

from ...contents import Contents, replaced
from ..base import unlike_pll

__all__ = ["patched", "retuned"]


def retuned(layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """Parameters of the cell, as many binary digits as before."""
    document = json.loads(layout)
    cells = [cell for cell in document["modules"]["top"]["cells"].values() if cell["type"] == "rPLL"]
    if len(cells) != 1:
        raise unlike_pll(source, "cell")
    parameters = cells[0]["parameters"]
    for name, value in new.parameters:
        before = parameters.get(name, "")
        if not before or set(before) - {"0", "1"} or int(before, 2) != old[name]:
            raise unlike_pll(source, name)
        parameters[name] = f"{value:0{len(before)}b}"
    return json.dumps(document)


def patched(layout: str, old: Contents, new: Contents, source: str) -> str:
    """Parameters of nextpnr-himbaechel's routed netlist, which is the layout file itself; tables keep their inputs."""
    document = json.loads(layout)
    replaced(document, old, new, source)
    return json.dumps(document)
