import re

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.tables.embedding import EmbeddingShape, EmbeddingStage
from hwflow_rtl.vendor import ECP5, Generic, Timing

from tests.rtl.harness import simulate
from tests.rtl.units import ask

INT8 = signed(8)


def make(rows: int, width: int, lanes: int, rom: int = 2, element=INT8) -> EmbeddingStage:
    low = -(1 << (element.width - 1)) if element.signed else 0
    table = np.random.default_rng(rows).integers(low, low + (1 << element.width), (rows, width))
    shape = EmbeddingShape(numbers=30, element=unsigned((rows - 1).bit_length()), output=element, table=table,
                           lanes=lanes)
    return shape.build(Generic(timing=Timing(multiply=4, rom=rom)), "words")


@pytest.mark.quick(3)
@pytest.mark.parametrize(("rows", "width", "lanes", "element"), [
    (16, 4, 4, INT8), (5, 6, 2, unsigned(3)), (33, 12, 1, signed(5)), (9, 10, 2, INT8), (2, 1, 1, unsigned(1)),
    (11, 6, 6, INT8)])
def test_every_row(rows, width, lanes, element) -> None:
    """All that a unit is asked, of frames of 30 numbers.

    Also where the beats of a row are no power of two, and the last row is not the last that there could be.
    """
    unit = make(rows, width, lanes, 1 + lanes % 4, element)
    numbers = np.random.default_rng(1).permutation(np.resize(np.arange(rows), 120)).reshape(4, 30)
    ask(unit.shape, unit.technology, [numbers], unit.shape.table[numbers].reshape(-1, lanes), seed=rows)


@pytest.mark.parametrize(("rom", "lanes"), [(1, 1), (2, 2), (4, 6), (4, 1)])
def test_a_beat_leaves_in_every_cycle(rom, lanes) -> None:
    unit = make(11, 6, lanes, rom)
    numbers = np.random.default_rng(2).integers(0, 11, 30)
    beats = unit.shape.cycles
    assert beats == 30 * 6 // lanes
    traces = simulate(unit, sends={"i": numbers[:, None]}, receives={"o": beats})
    assert traces["o"].span == beats
    assert traces["o"].cycles[0] - traces["i"].cycles[0] == unit.shape.latency(unit.technology)


def test_cost_has_the_rom_once() -> None:
    shape = EmbeddingShape(numbers=1, element=unsigned(8), output=signed(8), table=np.zeros((256, 64), np.int64),
                           lanes=8)
    assert shape.cost(ECP5()).ram == ECP5().rom_cost(width=64, depth=2048).ram > 0


@pytest.mark.parametrize(("arguments", "message"), [
    ({"element": signed(4)}, "integers of embedding 'words' must be unsigned, not signed(4)"),
    ({"element": unsigned(2)}, "table of embedding 'words' must have at most 4 rows, not 5"),
    ({"lanes": 4}, "lanes of embedding 'words' must divide the width 6 of its table, not be 4"),
    ({"output": signed(3)}, "table of embedding 'words' must have entries in the range of signed(3), not 0 to 29")])
def test_refuses(arguments, message) -> None:
    usual = {"element": unsigned(3), "output": unsigned(5), "table": np.arange(30).reshape(5, 6), "lanes": 2,
             "numbers": 1, "name": "words"}
    with pytest.raises(ValueError, match=re.escape(message)):
        EmbeddingShape(**{**usual, **arguments})
