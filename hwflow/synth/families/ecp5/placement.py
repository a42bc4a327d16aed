"""Between synthesis and place and route: what nextpnr would not find by itself in a large design for an ECP5.

In: the cells of a netlist, as in yosys' JSON.  Out: the same function, with copies of the register that resets the
design, one for each part of it, and of what enables wide words; with places for multipliers and block RAMs, and with
constants near them.

Measured on an LFE5U-85F, speed grade 6, seed 1, the same netlists with nextpnr-ecp5 0.11.1; MHz, and seconds that the
router took of a core.  A keyword network of 147 multipliers and 63 block RAMs: with places for the multipliers alone
167.6 MHz, 223 s, and its wires are 122 578 tiles long; with RAMs beside them 185.6 MHz, 118 s, 101 993 tiles; with
constants and resets near, too, 173.5 MHz, 84 s.  nextpnr's second router made 152.7 MHz of the first, 92 s.  ResNet-8
of 135 multipliers: RAMs placed 159.6 MHz, and 134.8 MHz with the second router; resets near 165.1 MHz.  ResNet-8 of 4
bits and 155 multipliers: RAMs placed, the router did not end; constants and resets near 156.3 MHz, 113 s.  An
autoencoder of 154 multipliers and 174 RAMs: RAMs placed, resets near 163.3 MHz, 121 s.  ResNet-8 of 156 multipliers and
as many more in logic, 26 000 tables: all of it 124.0 MHz, limited by a join that nextpnr placed 51 tiles from its
queue; an older netlist without any of it but multipliers had 141.6 MHz from the second router.
"""

from __future__ import annotations

import json
from typing import Any

from .constants import local_constants
from .copies import copy_busy, copy_resets, first_free
from .places import block_places

__all__ = ["RULES", "prepared", "without_places"]

#: Of what is done here; part of the key of a step whose result it changes.
RULES = "4"


def prepared(netlist: str, device: str) -> str:
    """`netlist`, JSON text, ready for place and route on `device`."""
    document = json.loads(netlist)
    for module in document["modules"].values():
        if "top" in module["attributes"]:
            copy_busy(module, copy_resets(module))
            place_blocks(module, device)
    return json.dumps(document)


def place_blocks(module: dict[str, Any], device: str) -> None:
    """Places for blocks and, where there are any, constants near them."""
    places = block_places(module["cells"], device)
    for name, site in places.items():
        module["cells"][name]["attributes"]["BEL"] = site.name
    if places:
        local_constants(module, places, device, first_free(module))


def without_places(netlist: str) -> str:
    """`netlist`, JSON text, with all places left to nextpnr."""
    document = json.loads(netlist)
    for module in document["modules"].values():
        for cell in module["cells"].values():
            cell["attributes"].pop("BEL", None)
    return json.dumps(document)
