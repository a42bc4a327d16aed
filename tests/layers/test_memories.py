"""The memories that the cost of a stage names are those that its hardware asks for, in every kind of layer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from amaranth.hdl import Fragment
from hwflow_rtl.vendor import FAMILIES, Resources, Technology
from hwflow_rtl.vendor.memory import Holds, Memory, MemoryKind, Place

from hwflow.layers import KINDS, Layer
from hwflow.stages.kinds import STAGES, stage_of
from tests.layers.cases import CASES

SEEDS = range(12)


def asked_of(technology: Technology, stage: str, asked: Counter) -> Technology:
    """`technology`, which notes what it is asked for: the name in the `stage`, the kind, width and depth."""
    make_rom, make_ram = technology.rom, technology.ram

    def rom(*, width, contents, name):
        assert name.startswith(f"{stage}_")
        asked[name.removeprefix(f"{stage}_"), MemoryKind.ROM, width, len(contents)] += 1
        return make_rom(width=width, contents=contents, name=name)

    def ram(*, width, depth, name=""):
        asked[name, MemoryKind.RAM, width, depth] += 1
        return make_ram(width=width, depth=depth, name=name)

    technology.rom, technology.ram = rom, ram
    return technology


WITH_HARDWARE = [kind for kind in KINDS if kind in STAGES]


@pytest.mark.quick(6)
@pytest.mark.parametrize(("kind", "family"), [
    pytest.param(kind, family, marks=[pytest.mark.slow] if (k + j) % 3 else [], id=f"{kind.kind}-{family}")
    for k, kind in enumerate(WITH_HARDWARE) for j, family in enumerate(sorted(FAMILIES))])
def test_costs_name_the_memories_of_the_hardware(kind: type[Layer], family: str) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        case, asked = CASES[kind](rng), Counter()
        stage = stage_of(case.graph, case.layer)
        technology = asked_of(FAMILIES[family](), stage.unit_name, asked)
        if stage.hardware_problem():
            continue
        foldings = [each for each in stage.foldings() if stage.folding_problem(each, technology) is None]
        folding = foldings[rng.integers(len(foldings))]
        cost = stage.cost(folding, technology)
        Fragment.get(stage.unit(folding, technology), None)
        others = {each.name for each in cost.memories  # made without the technology
                  if each.holds is Holds.QUEUE or each.fixed is not None}
        named = Counter((each.name, each.kind, each.width, each.depth) for each in cost.memories
                        if each.name not in others)
        assert named == asked, f"seed {seed}, {folding}"
        counted = sum((technology.memory_cost(each, technology.places(each)[0]) for each in cost.memories), Resources())
        assert cost.ram == counted.ram, f"seed {seed}, {folding}"


def test_a_place_is_taken() -> None:
    """A memory that prefers blocks is in tables where `placing` says so, and one that prefers tables in blocks."""
    ecp5 = FAMILIES["ecp5"]()
    shallow, deep = (Memory("table", MemoryKind.ROM, Holds.TABLE, 8, depth) for depth in (16, 128))
    assert ecp5.places(shallow)[0] is Place.TABLES
    assert ecp5.places(deep)[0] is Place.BLOCKS
    for memory in (shallow, deep):
        contents = np.zeros((memory.depth, 1), np.uint8)
        for place in ecp5.places(memory):
            made = ecp5.placing("s", {"table": place}).rom(width=8, contents=contents, name="s_table")
            other = ecp5.placing("t", {"table": place}).rom(width=8, contents=contents, name="s_table")
            assert ("Lut" in type(made).__name__) == (place is Place.TABLES)
            assert ("Lut" in type(other).__name__) == (ecp5.places(memory)[0] is Place.TABLES)
