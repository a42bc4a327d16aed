"""The design on a board before synthesis: a core and the way to its host, with its clocks, as text.

In: a core, a board, what names the design.  Out: a `BoardTop`, or its RTLIL.
"""

from __future__ import annotations

from typing import Any

from amaranth.back import rtlil
from hwflow_base.errors import HwflowError
from hwflow_rtl.emit import without_collector
from hwflow_rtl.io import BoardTop, Clocking, End, Ends
from hwflow_rtl.vendor.pll import PllSettings

from ..hls import Plan
from ..hls.links import ends_of_links
from ..layers.base import LayerGraph
from .board_weights import DOMAIN, BoardWeights
from .boards import Board
from .clock import goal_pll
from .families import FAMILIES
from .options import ON_BOARD

#: LEDs that `BoardTop` has a use for.
MOST_LEDS = 3


def ends_of(plan: Plan) -> Ends:
    """The inputs and outputs of the core that `plan` becomes."""
    return ends_of_links(plan.links)


def ends_before_plan(graph: LayerGraph) -> Ends:
    """As `ends_of`, one element a beat: what is known of a graph before its folding is."""
    def ends(names: tuple[str, ...]) -> tuple[End, ...]:
        found = [graph.tensors[name] for name in names]
        return tuple(End(1, tensor.format.bits, tensor.frame.elements) for tensor in found)

    return Ends(ends(graph.inputs), ends(graph.outputs))


def board_top(core: Any, board: Board, ends: Ends | None = None, *, identity: bytes,
              pll: PllSettings | None = None, weights: BoardWeights | None = None) -> BoardTop:
    """`core`, a component with streams `i` and `o`, on the pins of `board`.

    `ends` says how long the frames of its streams are (without, one beat); `identity` names the design to the host
    (docs/host-link.md); `pll` makes the core's clock of the board's, without it they are the same.  `weights` are those
    that the core takes from a memory of the board.
    """
    transport, technology = board.transport.gateware(board.place(pads=True), board.path), board.technology()
    outside: dict[str, Any] = {} if weights is None else {
        "memory": weights.gateware(board), "memory_pins": tuple(weights.memory.pins), "pads": True}
    clocking = Clocking(technology=technology, board_mhz=board.clock_mhz, pll=pll,
                        memory=weights is not None and weights.domain == DOMAIN,
                        memory_pll=None if weights is None else weights.pll(board), line_mhz=transport.clock_mhz,
                        has_reset=board.reset is not None, reset_active_low=board.reset_active_low)
    return BoardTop(core=core, ends=ends, clocking=clocking, transport=transport, identity=identity,
                    technology=technology, leds=leds_of(board), leds_active_low=board.leds_active_low, **outside)


def clocked_top(core: Any, board: Board, ends: Ends | None, *, identity: bytes, clock: float | str | None = None,
                goal_mhz: float | None = None, weights: BoardWeights | None = None) -> BoardTop:
    """As `board_top`, with the PLL that place and route starts from: its dividers are set anew when the routed clock is
    known (`clock.set_clock`).

    `clock` is "board" for the oscillator and no PLL; MHz, or None, change nothing here.  `goal_mhz` is what place and
    route aims at, by default that of the family.
    """
    pll = pll_of(board, clock, goal_mhz, weights)
    return board_top(core, board, ends, identity=identity, pll=pll, weights=weights)


def pll_of(board: Board, clock: float | str | None, goal_mhz: float | None = None,
           weights: BoardWeights | None = None) -> PllSettings | None:
    """The PLL of `clocked_top`, None where it has none.  HwflowError where `weights` have the core's clock, and the
    oscillator is too fast for their memory."""
    goal_mhz, limit = goal_mhz or FAMILIES[board.family].goal_mhz, weights.core_limit_mhz if weights else None
    if limit is None:
        return None if clock == ON_BOARD else goal_pll(board, goal_mhz)
    assert weights is not None
    if clock == ON_BOARD:
        require_slow(board.clock_mhz, weights)
        return None
    return goal_pll(board, min(goal_mhz, limit))


def require_slow(mhz: float, weights: BoardWeights | None) -> None:
    """HwflowError where a core of `mhz` is too fast for a memory that has its clock."""
    limit = weights.core_limit_mhz if weights else None
    if weights is not None and limit is not None and mhz > limit:
        raise HwflowError(f"the clock of a design with weights in {weights.memory.part.name} must be at most "
                          f"{limit:g} MHz, which that memory has in the board file, not {mhz:g} MHz",
                          "choose another with --clock, or leave --clock out")


def leds_of(board: Board) -> int:
    return min(MOST_LEDS, len(board.leds))


def design_text(top: BoardTop) -> str:
    """RTLIL of a top: the same design gives the same bytes."""
    with without_collector():
        text: str = rtlil.convert(top, name="top", ports=top.pins, emit_src=False)
    return text
