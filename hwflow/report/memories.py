"""The memories of a plan: how much of each kind there is, where it is, and what wastes most of its blocks."""

from __future__ import annotations

from collections.abc import Sequence

from hwflow_rtl.vendor.memory import Holds, Place

from ..hls import Plan
from ..hls.memories import MemoryPlan
from .console import Console
from .numbers import decimal, number, percent

__all__ = ["ring_bytes", "show_memories", "show_outside"]

#: Memories that are named because they waste the most bits of their blocks.
WORST = 5


def ring_bytes(plan: Plan) -> tuple[int | None, ...]:
    """For each stage the bytes of the rows that it keeps for its windows; None of a stage that keeps none."""
    bits: dict[str, int] = {}
    for each in plan.memories:
        if each.memory.holds is Holds.RING:
            bits[each.part] = bits.get(each.part, 0) + each.memory.bits
    return tuple(-(-bits[stage.name] // 8) if stage.name in bits else None for stage in plan.stages)


def show_memories(console: Console, plan: Plan) -> None:
    """A row for each thing that memories hold, and the worst of those in RAM blocks."""
    rows = [row_of(holds.value, found) for holds in Holds
            if (found := [each for each in plan.memories if each.memory.holds is holds])]
    if len(rows) > 1:
        rows.append(row_of("all", plan.memories))
    if rows:
        console.table("memories", ("hold", "memories", "bits", "blocks", "filled", "in logic", "in SPRAM"), rows)
    worst = sorted((each for each in plan.memories if each.wasted_bits), key=lambda each: -each.wasted_bits)[:WORST]
    if worst:
        head = ("memory", "words x bits", "blocks", "wasted bits", "can be in logic")
        console.table("memory blocks that are nearly empty", head, [
            (each.name, f"{number(each.memory.depth)} x {each.memory.width}", number(each.resources.ram),
             number(each.wasted_bits), "yes" if Place.TABLES in each.places else "") for each in worst])


def show_outside(console: Console, plan: Plan) -> None:
    """A row for each stage whose weights are outside of the FPGA, and what they take of the memory's bandwidth."""
    if plan.outside is None or not plan.streams:
        return
    part, rows = plan.outside.part, []
    for each in plan.streams:
        rows.append((each.stage, number(each.bytes), f"{each.stream.width}", number(each.stream.beats),
                     decimal(float(each.interval))))
    console.table("weights outside of the FPGA", ("stage", "bytes a frame", "bits a beat", "beats",
                                                  "cycles a beat, at most"), rows)
    size = number(sum(each.bytes for each in plan.streams))
    console.say(f"  {part.name} at {part.clock_mhz:g} MHz: {size} bytes for a frame take at most "
                f"{percent(plan.bandwidth_used)} of the interval of a core at {plan.outside.core_mhz:g} MHz")


def row_of(title: str, memories: Sequence[MemoryPlan]) -> tuple[str, ...]:
    """Bits are those that the memories hold; blocks are filled by those that are in blocks."""
    blocks = sum(each.resources.ram for each in memories)
    inside = sum(each.memory.bits for each in memories if each.place is Place.BLOCKS)
    room = sum(each.resources.ram * each.block_bits for each in memories)
    return (title, number(len(memories)), number(sum(each.memory.bits for each in memories)), number(blocks),
            percent(inside / room) if room else "", *(
                number(sum(each.place is place for each in memories)) for place in (Place.TABLES, Place.SPRAM)))
