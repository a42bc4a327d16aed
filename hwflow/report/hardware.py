"""What `hwflow check --hardware` says: which nodes map to hardware, a line for each that does not, and the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hwflow_base.printable import clean

from ..hls.plan import Plan
from ..hls.shared_solver import shared_refusal
from ..layers.base import LayerGraph
from ..synth import Board
from .console import Console
from .fates import Fate, Mapped, NodeMapping
from .numbers import number
from .texts import shortened

__all__ = ["hardware_facts", "show_hardware", "show_shared", "show_weights", "weights_facts"]

Facts = dict[str, Any]

#: Names and lines that are shown at most; --json has all of them.
MOST_NAMES, MOST_LINES = 6, 200

#: A memory of this width and depth fills the blocks of every family without a rest.
PROBE_WIDTH, PROBE_DEPTH = 144, 1 << 14


def hardware_facts(found: Mapped) -> Facts:
    """Everything that was found, as plain data."""
    return {
        "possible": found.possible,
        "complete": found.complete,
        "counts": {fate.value: len(found.of(fate)) for fate in Fate},
        "nodes": [{"index": n.index, "name": n.name, "operator": n.operator, "where": n.fate.value, "why": n.why,
                   "remedy": n.remedy} for n in found.nodes],
        "notes": list(found.notes),
        "problems": [{"where": p.where, "why": p.why, "remedy": p.remedy} for p in found.problems],
        "layers": [layer.name for layer in found.graph.layers] if found.graph is not None else None,
        "shared": shared_facts(found),
    }


def shared_facts(found: Mapped) -> Facts | None:
    """Whether one shared stage can compute all layers, and why not; None for a model without hardware."""
    if not found.possible or found.graph is None:
        return None
    refused = shared_refusal(found.graph)
    return {"possible": refused is None, "why": refused}


def show_hardware(console: Console, path: str, found: Mapped) -> None:
    """How many nodes map; then one line for each that does not, and for what concerns the whole model."""
    none, hardware = found.of(Fate.NONE), found.of(Fate.HARDWARE)
    parts = [_listed("on the host", found.of(Fate.HOST))]
    constant = len(found.of(Fate.CONSTANT))
    parts += [f"{constant} more compute{'s' if constant == 1 else ''} with constants alone"] if constant else []
    beside = "; ".join(filter(None, parts))
    total = len(found.nodes) - constant
    text = f"{path}: {len(hardware)} of {total} {'node maps' if total == 1 else 'nodes map'} to hardware"
    text += f" ({beside})" if beside else ""
    if unknown := len(found.of(Fate.UNKNOWN)):
        text += f"; {unknown} cannot be judged yet"
    if found.possible and found.graph is not None:
        text += f"; {len(found.graph.layers)} layer{'s' if len(found.graph.layers) != 1 else ''}"
    console.say(f"{text}{':' if none or found.problems else ''}")
    for note in found.notes:
        console.say(f"  note: {note}")
    lines = [_line(problem.where, problem.why, problem.remedy) for problem in found.problems]
    lines += [_line(node.label, node.why, node.remedy) for node in none]
    for line in lines[:MOST_LINES]:
        console.say(f"  {line}")
    if len(lines) > MOST_LINES:
        console.say(f"  and {len(lines) - MOST_LINES} more; --json lists all")


def show_shared(console: Console, found: Mapped) -> None:
    """Whether the layers may share a stage where a board is too small for a stage for each."""
    shared = shared_facts(found)
    if shared is not None:
        console.say("  one shared stage can compute all of it (--execution shared), where a board is too small for a "
                    "stage for each layer" if shared["possible"] else
                    f"  each layer gets a stage of its own; one shared stage cannot compute them: "
                    f"{shortened(shared['why'], 400)}")


def _line(where: str, why: str, remedy: str) -> str:
    return f"{shortened(where, 160)}: {shortened(why, 400)}{'; ' if remedy else ''}{shortened(remedy, 400)}"


def _listed(what: str, nodes: Sequence[NodeMapping]) -> str:
    """"2 on the host: a, b"; nothing for none."""
    if not nodes:
        return ""
    names = ", ".join(shortened(node.name, 60) for node in nodes[:MOST_NAMES])
    more = f" and {len(nodes) - MOST_NAMES} more" if len(nodes) > MOST_NAMES else ""
    return f"{len(nodes)} {what}: {clean(names)}{more}"


def weights_facts(graph: LayerGraph, board: Board, plan: Plan | None) -> Facts:
    """The bits of all weights, what RAM blocks that would be, and the bytes that `plan` reads from a memory beside the
    FPGA for each frame; None is a design that does not fit."""
    bits = sum(layer.weights.size * layer.weight_format.bits for layer in graph.layers
               if hasattr(layer, "weights") and hasattr(layer, "weight_format"))
    blocks = board.technology().rom_cost(width=PROBE_WIDTH, depth=PROBE_DEPTH).ram
    block_bits = PROBE_WIDTH * PROBE_DEPTH // blocks
    outside = sum(each.bytes for each in plan.streams) if plan is not None else 0
    return {"board": board.name, "bits": bits, "block_rams": -(-bits // block_bits),
            "block_rams_available": board.resources.ram, "bytes_outside": outside, "fits": plan is not None}


def show_weights(console: Console, facts: Facts) -> None:
    text = (f"  weights: {number(facts['bits'])} bits fill {facts['block_rams']} of the "
            f"{facts['block_rams_available']} block RAMs of {facts['board']}")
    if facts["bytes_outside"]:
        text += f"; {number(facts['bytes_outside'])} bytes a frame come from its memory beside the FPGA"
    elif facts["fits"] and facts["block_rams"] > facts["block_rams_available"]:
        text += "; some are in tables"
    console.say(text)
