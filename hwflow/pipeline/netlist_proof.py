"""The proof of a netlist: its cells give the golden model's bytes through a board's pins.

They are those that go to place and route, or those that a bitstream configures (`synth.readback`).
The netlist is simulated cell by cell (`hwflow_sim.board`); the driver that talks to a real board (`hwflow.host`) sends
it frames over a simulated line and takes its results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import digest
from hwflow_base.files.facts import plain
from hwflow_sim.board import (
    LinePort,
    NetworkPort,
    SimulatedBoard,
    compile_board,
    netlist_design,
    read_netlist,
)

from .. import golden
from ..host import LinkFailed, Patience
from ..host.elements import bytes_in, bytes_out, from_bytes, pack, to_bytes
from ..host.host_link import HostLink
from ..host.identity import element_bytes
from ..host.weight_image import digest_of
from ..layers.base import LayerGraph
from ..synth.design import Design
from .simulated_board import chip_of, line_of, port_of
from .stimuli import ends_digests

Frames = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

#: Clock cycles in which a board is left alone at first: its PLL locks, and its reset counts down.
CYCLES_TO_START = 10_000
#: Seconds of the line's time until a board is given up: one that says nothing right, one that gives no results (besides
#: the time of so many frames).
SILENCE, STALL, FRAMES_OF_PATIENCE = 0.4, 1.0, 30


@dataclass(frozen=True)
class NetlistProof:
    """The result of a proof: `digest` is that of the file of which it is, `cells` counts its kinds of cells.

    `difference` says what was not as the golden model has it, None where all was; `cycles` are clock cycles of the
    board, simulated in `seconds`.  `played` and `results` are digests (`frames_digest`) of the frames and of what the
    golden model makes of them.
    """

    netlist: Path
    bitstream: Path | None
    board: str
    digest: str
    cells: Mapping[str, int]
    frames: int
    bytes_compared: int
    cycles: int
    seconds: float
    difference: str | None
    played: str = ""
    results: str = ""

    @property
    def equal(self) -> bool:
        return self.difference is None

    def facts(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {**plain(self), "equal": self.equal}

    def __str__(self) -> str:
        kind = "netlist" if self.bitstream is None else "bitstream"
        what = f"{kind} {self.digest[:12]} of {self.board}, {sum(self.cells.values())} cells"
        how = f"{self.frames} frames through its pins, {self.cycles} clock cycles"
        return f"{'equal' if self.equal else 'not equal'}: {what}, {how}" + (", bit for bit" if self.equal else "")


@dataclass(frozen=True)
class NetlistBench:
    """The netlist of `design`, cell by cell behind the pins of its board.

    `netlist` is the JSON file that yosys wrote for place and route, also one whose ROMs have other contents since, or
    what was read back from `bitstream`.  The simulation takes place in `folder`; `cache` keeps what was compiled.
    """

    netlist: Path
    design: Design
    folder: Path
    cache: Path
    say: Callable[[str], None] = print
    bitstream: Path | None = None

    def prove(self, frames: Frames | Mapping[str, Frames], image: bytes | None = None) -> NetlistProof:
        """Play `frames`, int64[n, height, width, channels] by input name or of the only input, through the pins, and
        compare every byte of the results with `golden`.

        `image` is what is in a memory of the board, whose chip is simulated: filled over the line, or a flash with the
        image; None for that of the design.
        A difference is part of the result; so is a board that does not answer as docs/host-link.md says.  Raises
        HwflowError for a file that is no netlist, MissingTool and ToolFailed.
        """
        graph, board = self.design.graph, self.design.board
        image = self.design.image() if image is None else image
        values = golden.run(graph, frames)
        expected = answers(graph, values)
        cells, line = read_netlist(self.netlist, board.family), line_of(board)
        chip = chip_of(board, self.design.weights(), image)
        wired = netlist_design(cells, reset_active_low=board.reset_active_low, chip=chip, line=type(line))
        compiled = compile_board(wired, folder=self.folder, cache=self.cache, say=self.say)
        began = time.monotonic()
        with SimulatedBoard(compiled, line=line) as simulated:
            simulated.wait(b"", CYCLES_TO_START)
            try:
                data = self.talk(port_of(simulated, board), values, image)
                difference = first_difference(expected, data, graph)
            except LinkFailed as error:
                difference = str(error)
            facts = simulated.facts
        file = cells.digest if self.bitstream is None else digest(self.bitstream)
        return NetlistProof(self.netlist, self.bitstream, board.name, file, cells.cells, len(expected), expected.size,
                            facts.cycles, time.monotonic() - began, difference, *ends_digests(graph, values))

    def talk(self, port: LinePort | NetworkPort, frames: Mapping[str, Frames], image: bytes | None) -> bytes:
        """The answer of the board behind `port` to `frames`, also of other tensors than inputs, with `image` in its
        memory; a flash has it already.  One that keeps a state answers twice, with a reset between.

        LinkFailed where it is no board with this design.
        """
        graph, weights, identity = self.design.graph, self.design.weights(), self.design.identity()
        stall = STALL + FRAMES_OF_PATIENCE * self.design.plan.interval / port.cycles(1.0)
        link = HostLink(port, patience=Patience(SILENCE, stall), clock=port.clock, seed=1)
        told = link.reset()
        expected = (identity, bytes_in(graph), bytes_out(graph))
        if (told.design, told.bytes_in, told.bytes_out) != expected:
            raise LinkFailed(f"the board must say that it is design {identity.hex()} with {expected[1]} bytes in and "
                             f"{expected[2]} out, not {told.design.hex()} with {told.bytes_in} and {told.bytes_out}")
        if weights is not None and image is not None:
            if weights.flash:
                link.wait_for_image(digest_of(image))
            else:
                link.fill(image, digest_of(image))
        data = pack(graph, {name: frames[name] for name in graph.inputs})
        results = link.exchange(data)
        if graph.streaming:
            link.reset()
            results += link.exchange(data)
        return results


def answers(graph: LayerGraph, values: Mapping[str, Frames]) -> Bytes:
    """The answer of a board to `NetlistBench.talk`, [n, bytes of a frame]: a RESET begins a sequence anew if there is a
    state."""
    once = np.concatenate([to_bytes(values[name], graph.tensors[name].format) for name in graph.outputs], axis=1)
    return np.concatenate([once, once]) if graph.streaming else once


def first_difference(expected: Bytes, data: bytes, graph: LayerGraph) -> str | None:
    """Where `data`, all that came, is not `expected` [n, bytes of a frame]."""
    got = np.frombuffer(data, np.uint8)
    if len(got) != expected.size:
        return f"the board must give {expected.size} bytes for {len(expected)} frames, not {len(got)}"
    unequal = np.flatnonzero(got != expected.ravel())
    if not len(unequal):
        return None
    frame, place = divmod(int(unequal[0]), expected.shape[1])
    for name in graph.outputs:
        tensor = graph.tensors[name]
        width = element_bytes(tensor.format.bits)
        size = tensor.frame.elements * width
        if place < size:
            begin = int(unequal[0]) - place
            right, came = (int(from_bytes(row[begin:begin + size].reshape(1, size), tensor).flat[place // width])
                           for row in (expected.ravel(), got))
            return (f"frame {frame}, output '{name}', element {place // width}: {came} where the golden model has "
                    f"{right}; {len(unequal)} of {expected.size} bytes are others")
        place -= size
    raise HwflowError("a byte of a frame must belong to an output")
