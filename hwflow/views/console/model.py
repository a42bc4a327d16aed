"""The tables of a model: what is in it, which nodes map to hardware, and what its weights take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwflow_base.printable import clean, number, shortened

from hwflow.hls.partition.shared_solver import shared_refusal
from hwflow.hls.plan.plan import Plan

from ...facts.mapping import Fate, Mapped, NodeMapping
from ...layers.base import LayerGraph
from ...synth import Board
from .terminal import Console

#: Rows that a table shows at most; --json has all of them.
_MOST = 60


def show_model(console: Console, path: str, facts: Mapping[str, Any]) -> None:
    """Everything in `facts` (report.info) for people.  Texts of the file are made harmless."""
    opsets = ", ".join(f"{clean(domain) or 'ai.onnx'} {version}" for domain, version in facts["opsets"].items())
    producer = clean(facts["producer"]) or "not stated"
    console.say(f"{path}: IR {facts['ir_version']}, opset {opsets or 'none'}, producer {producer}")
    for line in _about(facts):
        console.say(f"  {line}")
    for word, values in (("input", facts["inputs"]), ("input with default", facts["defaults"][:_MOST]),
                         ("output", facts["outputs"])):
        for value in values:
            console.say(f"  {word} {clean(value['name'])}: {value['type']}")
    operators = ", ".join(f"{count} {clean(name)}" for name, count in facts["operators"].items())
    console.say(f"  operators: {operators or 'none'}")
    console.say(f"  parameters: {number(facts['parameters'])} ({number(facts['parameter_bytes'])} bytes)")
    macs = facts["macs"]
    console.say(f"  MACs a frame: {'not known, sizes are open' if macs is None else number(macs)}")
    _show_layers(console, facts["layers"])
    _show_places(console, facts)
    for finding in facts["type_problems"][:_MOST]:
        console.say(f"  types: {clean(finding)}")


def _about(facts: Mapping[str, Any]) -> list[str]:
    """The lines that only some models have."""
    lines = []
    doc = next(iter(facts["doc"].strip().splitlines()), "")
    version = facts["model_version"]
    for word, text in (("domain", facts["domain"]), ("author", facts["author"]), ("license", facts["license"]),
                       ("doc", doc)):
        if text:
            lines.append(f"{word}: {shortened(text, 200)}")
    if version["number"]:
        lines.append(f"model version: {version['text']}")
    for key, text in facts["metadata"].items():
        if key not in ("model_author", "model_license"):
            lines.append(f"metadata {shortened(key, 60)}: {shortened(text, 120)}")
    if facts["functions"]:
        lines.append(f"functions: {', '.join(map(clean, facts['functions'][:_MOST]))}")
    if facts["training"]:
        lines.append(f"training parts: {facts['training']}")
    kinds, widths = facts["quantization"]["kinds"], facts["quantization"]["widths"]
    if kinds:
        parts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        lines.append(f"quantization: {parts}; widths {', '.join(widths) or 'not known'}")
    return lines


def _show_layers(console: Console, layers: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        (shortened(layer["name"], 40), layer["operator"], layer["output"],
         "not known" if layer["macs"] is None else number(layer["macs"]), number(layer["parameters"]))
        for layer in layers[:_MOST]
    ]  # fmt: skip
    if rows:
        console.table("products", ("node", "operator", "output", "MACs", "parameters"), rows)
    if len(layers) > _MOST:
        console.say(f"  and {len(layers) - _MOST} more; --json lists all")


def _show_places(console: Console, facts: Mapping[str, Any]) -> None:
    counts = ", ".join(f"{count} {where}" for where, count in sorted(facts["where"].items()))
    console.say(f"  where nodes run: {counts or 'there are none'}")
    others = [node for node in facts["nodes"] if node["where"] in ("host", "nowhere")]
    rows = [
        (str(node["index"]), shortened(node["name"] or node["output"], 36), shortened(node["operator"], 32),
         node["where"], shortened(node["reason"], 72))
        for node in others[:_MOST]
    ]  # fmt: skip
    if rows:
        console.table("not in hardware", ("number", "node", "operator", "where", "why"), rows, key=2)
    if len(others) > _MOST:
        console.say(f"  and {len(others) - _MOST} more; --json lists all")
    if facts["problem"] is None:
        console.say("  the model becomes hardware")
    elif facts["golden"]:
        first, *lines = facts["problem"].splitlines()
        console.say(f"  {first}")
        for line in lines[:_MOST]:
            console.say(f"  {shortened(line, 200)}")
    else:
        reason = shortened(facts["problem"].splitlines()[0].rstrip(":"), 400)
        console.say(f"  the model does not become hardware: {reason}; `hwflow check` lists all reasons")


def show_states(console: Console, states: Sequence[Mapping[str, Any]]) -> None:
    """What stays on the chip from frame to frame, a row for each state; of a plan also where."""
    words = {None: "", "layer": "a layer", "window": "the window of {}", "queue": "a queue in {}",
             "frame memory": "the frame memory of {}"}
    rows = [(shortened(state["state"], 40), state["frame"], state["format"], number(state["bits"]),
             words[state["kept"]].format(state["where"])) for state in states[:_MOST]]
    if rows:
        columns = 5 if any(row[-1] for row in rows) else 4
        head = ("state", "frame", "integers", "bits", "kept in")
        console.table("states from frame to frame", head[:columns], [row[:columns] for row in rows])
    if len(states) > _MOST:
        console.say(f"  and {len(states) - _MOST} more; --json lists all")


# What `hwflow check --hardware` says: which nodes map to hardware, a line for each that does not, and the weights.


HardwareFacts = dict[str, Any]

#: Names and lines that are shown at most; --json has all of them.
MOST_NAMES, MOST_LINES = 6, 200

#: A memory of this width and depth fills the blocks of every family without a rest.
PROBE_WIDTH, PROBE_DEPTH = 144, 1 << 14


def hardware_facts(mapped: Mapped) -> HardwareFacts:
    """Everything that was found, as plain data."""
    return {
        "possible": mapped.possible,
        "complete": mapped.complete,
        "counts": {fate.value: len(mapped.of(fate)) for fate in Fate},
        "nodes": [{"index": n.index, "name": n.name, "operator": n.operator, "where": n.fate.value, "why": n.why,
                   "remedy": n.remedy} for n in mapped.nodes],
        "notes": list(mapped.notes),
        "problems": [{"where": p.where, "why": p.why, "remedy": p.remedy} for p in mapped.problems],
        "layers": [layer.name for layer in mapped.graph.layers] if mapped.graph is not None else None,
        "shared": one_stage_facts(mapped),
    }


def one_stage_facts(mapped: Mapped) -> HardwareFacts | None:
    """Whether one shared stage can compute all layers, and why not; None for a model without hardware."""
    if not mapped.possible or mapped.graph is None:
        return None
    refused = shared_refusal(mapped.graph)
    return {"possible": refused is None, "why": refused}


def show_hardware(console: Console, path: str, mapped: Mapped) -> None:
    """How many nodes map; then one line for each that does not, and for what concerns the whole model."""
    none, hardware = mapped.of(Fate.NONE), mapped.of(Fate.HARDWARE)
    parts = [_listed("on the host", mapped.of(Fate.HOST))]
    constant = len(mapped.of(Fate.CONSTANT))
    parts += [f"{constant} more compute{'s' if constant == 1 else ''} with constants alone"] if constant else []
    beside = "; ".join(filter(None, parts))
    total = len(mapped.nodes) - constant
    text = f"{path}: {len(hardware)} of {total} {'node maps' if total == 1 else 'nodes map'} to hardware"
    text += f" ({beside})" if beside else ""
    if unknown := len(mapped.of(Fate.UNKNOWN)):
        text += f"; {unknown} cannot be judged yet"
    if mapped.possible and mapped.graph is not None:
        text += f"; {len(mapped.graph.layers)} layer{'s' if len(mapped.graph.layers) != 1 else ''}"
    console.say(f"{text}{':' if none or mapped.problems else ''}")
    for note in mapped.notes:
        console.say(f"  note: {note}")
    lines = [_line(problem.where, problem.why, problem.remedy) for problem in mapped.problems]
    lines += [_line(node.label, node.why, node.remedy) for node in none]
    for line in lines[:MOST_LINES]:
        console.say(f"  {line}")
    if len(lines) > MOST_LINES:
        console.say(f"  and {len(lines) - MOST_LINES} more; --json lists all")


def show_shared(console: Console, mapped: Mapped) -> None:
    """Whether the layers may share a stage where a board is too small for a stage for each."""
    shared = one_stage_facts(mapped)
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


def weights_facts(graph: LayerGraph, board: Board, plan: Plan | None) -> HardwareFacts:
    """The bits of all weights, what RAM blocks that would be, and the bytes that `plan` reads from a memory beside the
    FPGA for each frame; None is a design that does not fit."""
    bits = sum(layer.weights.size * layer.weight_format.bits for layer in graph.layers
               if hasattr(layer, "weights") and hasattr(layer, "weight_format"))
    blocks = board.technology().rom_cost(width=PROBE_WIDTH, depth=PROBE_DEPTH).ram
    block_bits = PROBE_WIDTH * PROBE_DEPTH // blocks
    outside = sum(stream.bytes for stream in plan.streams) if plan is not None else 0
    return {"board": board.name, "bits": bits, "block_rams": -(-bits // block_bits),
            "block_rams_available": board.resources.ram, "bytes_outside": outside, "fits": plan is not None}


def show_weights(console: Console, facts: HardwareFacts) -> None:
    text = (f"  weights: {number(facts['bits'])} bits fill {facts['block_rams']} of the "
            f"{facts['block_rams_available']} block RAMs of {facts['board']}")
    if facts["bytes_outside"]:
        text += f"; {number(facts['bytes_outside'])} bytes a frame come from its memory beside the FPGA"
    elif facts["fits"] and facts["block_rams"] > facts["block_rams_available"]:
        text += "; some are in tables"
    console.say(text)
