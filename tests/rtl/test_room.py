"""Units that are made for any constants of a room: exact, and the same hardware for all of them."""

import numpy as np
import pytest
from amaranth.hdl import signed
from hwflow_rtl.emit import emit_rtlil
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.ranges import RequantizerRoom
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.rescale.thresholder import ThresholderConstants
from hwflow_rtl.vendor import Generic, Timing

from tests.rtl.harness import play

ROOM = RequantizerRoom(bias_bits=6, factor_bits=5, base=3, extra=5)
#: bias, multiplier, shift
CONSTANTS = [
    ((0, 0, 0), (1, 1, 1), (3, 3, 3)),
    ((-32, 31, 5), (31, 1, 7), (3, 8, 6)),
    ((9, 9, 9), (12, 0, 24), (4, 60, 9)),
    ((1, -1, 0), (2, 64, 1), (2, 9, 0)),
]


def technology() -> Generic:
    return Generic(timing=Timing(multiply=4), hex_roms=True)


def requantization(constants, style=RequantizerStyle.DSP, room=ROOM, outward=0) -> RequantizerConstants:
    bias, multiplier, shift = (np.array(each) for each in constants)
    return RequantizerConstants(bias=bias, multiplier=multiplier, shift=shift, zero_point=3, low=-8, high=7,
                                style=style, room=room, outward=outward)


def unit(made, interval, technology):
    return made.unit(accumulator=signed(7), output=signed(4), interval=interval, technology=technology, name="c")


@pytest.mark.quick(8)
@pytest.mark.parametrize("interval", [1, 2, 5])
@pytest.mark.parametrize("style", RequantizerStyle)
@pytest.mark.parametrize("constants", CONSTANTS)
def test_a_form_computes_the_same(constants, style, interval) -> None:
    values = [*range(-64, 64)] * 3
    made = unit(requantization(constants, style), interval, Generic(timing=Timing(multiply=4)))
    plain = unit(requantization(constants, style, None), interval, Generic(timing=Timing(multiply=4)))
    results, latencies = play(made, values, interval, None)
    assert results == plain.model(np.array(values)).tolist() == made.model(np.array(values)).tolist()
    assert set(latencies) == {made.latency}


@pytest.mark.parametrize("style", RequantizerStyle)
def test_channels_of_a_form_move_outward_or_not(style) -> None:
    values, constants = [*range(-64, 64)] * 3, ((3, -2, 0), (21, 17, 30), (8, 5, 6))
    room = RequantizerRoom(bias_bits=6, factor_bits=5, base=4, extra=5, outward=16)
    made, plain = (unit(requantization(constants, style, each, 16), 2, Generic(timing=Timing(multiply=4)))
                   for each in (room, None))
    results, _ = play(made, values, 2, None)
    assert results == plain.model(np.array(values)).tolist() == made.model(np.array(values)).tolist()


@pytest.mark.parametrize("style", RequantizerStyle)
def test_all_constants_of_a_form_make_the_same_hardware(style) -> None:
    texts = {emit_rtlil(unit(requantization(constants, style), 2, technology()), name="top")
             for constants in CONSTANTS}
    assert len(texts) == 1
    lanes = [requantization(CONSTANTS[k], style).of_lane(0, 3) for k in (0, 1)]
    assert len({emit_rtlil(unit(lane, 2, technology()), name="top") for lane in lanes}) == 1
    costs = {requantization(constants, style).cost(
        accumulator=signed(7), output=signed(4), interval=2, technology=technology()) for constants in CONSTANTS}
    assert len(costs) == 1


@pytest.mark.parametrize(("constants", "message"), [
    (((32, 0, 0), (1, 1, 1), (3, 3, 3)), "bias of a Requantizer must be from -32 to 31, not 0 to 32"),
    (((0, 0, 0), (33, 1, 1), (3, 3, 3)), "a ratio of 33 / 2\\*\\*3 must have a multiplier of up to 5 bits and a shift "
                                         "from 3 to 8"),
    (((0, 0, 0), (1, 1, 1), (9, 3, 3)), "a ratio of 1 / 2\\*\\*9 must have a multiplier"),
])
def test_what_a_form_has_no_room_for_is_refused(constants, message) -> None:
    with pytest.raises(ValueError, match=message):
        unit(requantization(constants), 2, technology())


def test_powers_of_two_need_no_multiplier() -> None:
    room = RequantizerRoom(bias_bits=4, factor_bits=0, base=1, extra=3)
    made = requantization(((1, 2), (1, 4), (1, 6)), room=room)
    values = [*range(-64, 64)]
    results, _ = play(unit(made, 2, Generic(timing=Timing(multiply=4))), values, 2, None)
    assert results == unit(requantization(((1, 2), (1, 4), (1, 6)), room=None), 2, technology()).model(
        np.array(values)).tolist()
    with pytest.raises(ValueError, match="a ratio of 3 / 2"):
        unit(requantization(((0, 0), (3, 1), (2, 2)), room=room), 2, technology())


@pytest.mark.parametrize("levels", [3, 15, 40])
@pytest.mark.parametrize("interval", [1, 4])
def test_thresholds_of_any_values(levels, interval) -> None:
    random = np.random.default_rng(levels)
    tables = [np.sort(random.integers(-70, 70, (3, levels)), axis=1), np.zeros((3, levels), np.int64)]
    values = [*range(-64, 64)]
    texts = set()
    for table in tables:
        made = ThresholderConstants(table, -8, any_values=True)
        arguments = {"accumulator": signed(7), "output": signed(7), "interval": interval, "name": "t"}
        results, _ = play(made.unit(technology=Generic(timing=Timing(multiply=4)), **arguments), values, interval, None)
        expected = [-8 + int((table[k % 3] <= value).sum()) for k, value in enumerate(values)]
        assert results == expected
        texts.add(emit_rtlil(made.unit(technology=technology(), **arguments), name="top"))
    assert len(texts) == 1
