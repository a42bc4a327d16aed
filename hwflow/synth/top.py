"""The design on a board before synthesis: a core and the way to its host, with its clocks, as text.

In: a core, a board, what names the design.  Out: a `BoardTop`, or its RTLIL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.back import rtlil
from amaranth.lib.wiring import Component
from hwflow_base.errors import HwflowError
from hwflow_rtl.emit import without_collector
from hwflow_rtl.io import BoardTop, Clocking, End, Ends
from hwflow_rtl.vendor.pll import PllSettings

from hwflow.hls.schedule.links import ends_of_links

from ..hls import Plan
from ..host.identity import IDENTITY_BYTES
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
    """The same, one element a beat: all that is known of a graph before its folding is."""
    def ends(names: tuple[str, ...]) -> tuple[End, ...]:
        tensors = [graph.tensors[name] for name in names]
        return tuple(End(1, tensor.format.bits, tensor.frame.elements) for tensor in tensors)

    return Ends(ends(graph.inputs), ends(graph.outputs))


def board_top(core: Component, board: Board, ends: Ends | None = None, *, identity: bytes,
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


@dataclass(frozen=True)
class CoreOnBoard:
    """A core, and what its board's top is made of; all but the core as for `board_top`.

    `plan` gives the report the names of its stages.
    """

    core: Component
    board: Board
    ends: Ends | None = None
    identity: bytes = bytes(IDENTITY_BYTES)
    weights: BoardWeights | None = None
    plan: Plan | None = None

    def top(self, clock: float | str | None = None) -> BoardTop:
        """The top with the PLL that place and route starts from: its dividers are set anew when the routed clock is
        known (`clock.set_clock`).

        `clock` is "board" for the oscillator and no PLL; MHz, or None, change nothing here.
        """
        return board_top(self.core, self.board, self.ends, identity=self.identity, pll=self.pll(clock),
                         weights=self.weights)

    def text(self, clock: float | str | None = None) -> str:
        """The RTLIL of that top."""
        return design_text(self.top(clock))

    def pll(self, clock: float | str | None) -> PllSettings | None:
        """The PLL of the top, None where it has none.

        HwflowError where the weights' memory has the core's clock, and the oscillator is too fast for it.
        """
        goal_mhz, limit = FAMILIES[self.board.family].goal_mhz, self.weights.core_limit_mhz if self.weights else None
        if clock != ON_BOARD:
            return goal_pll(self.board, goal_mhz if limit is None else min(goal_mhz, limit))
        require_slow(self.board.clock_mhz, self.weights)
        return None


@dataclass(frozen=True)
class TextOnBoard:
    """The RTLIL of a top, of all the LEDs that `board_top` uses."""

    rtlil: str
    board: Board
    weights: None = None
    plan: None = None

    def text(self, clock: float | str | None = None) -> str:
        """The text, which has its PLL or none."""
        return self.rtlil


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
