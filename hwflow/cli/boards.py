"""`hwflow boards`."""

from __future__ import annotations

from collections.abc import Mapping

from hwflow_base.later import later

with later():
    from ..synth import list_boards, load_board
    from ..views.console.terminal import Console


def boards(console: Console) -> Mapping[str, object]:
    """List the boards."""
    loaded = [load_board(name) for name in list_boards()]
    console.table("boards", ("board", "MHz", "LUT", "FF", "DSP", "RAM", "what it is"), [
        (b.name, f"{b.clock_mhz:g}", *map(str, (b.resources.lut, b.resources.ff, b.resources.dsp, b.resources.ram)),
         b.title) for b in loaded])
    console.say("SPRAM besides: " + ", ".join(f"{b.resources.spram} on {b.name}" for b in loaded if b.resources.spram))
    sizes: dict[str, list[str]] = {}
    for board in loaded:
        for memory in board.memories:
            sizes.setdefault(str(memory), []).append(board.name)
    console.say("memory beside the FPGA: " + "; ".join(f"{size} on {', '.join(on)}" for size, on in sizes.items()))
    ways: dict[str, list[str]] = {}
    for board in loaded:
        for kind in board.transports:
            ways.setdefault(kind, []).append(board.name)
    console.say("ways to the host: " + "; ".join(
        f"{kind} on {'all' if len(on) == len(loaded) else ', '.join(on)}" for kind, on in ways.items()))
    console.say("A board of your own: pass its YAML file as --board; see docs/add-a-board.md")
    return {"boards": [{"name": b.name, "title": b.title, "device": b.device, "clock_mhz": b.clock_mhz,
                        "resources": b.resources.counts(), "memories": [memory.facts() for memory in b.memories],
                        "transports": [transport.facts().facts() for transport in b.transports.values()]}
                       for b in loaded]}
