"""A flash on a simulated board: the host's driver, the link, the check of the seal, the chip, a core with weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hwflow_base.errors import ToolFailed
from hwflow_rtl.io import BoardTop, Clocking
from hwflow_rtl.io.transports import Uart
from hwflow_rtl.memory import SealedFlash, WeightMemory, WeightSharing
from hwflow_rtl.memory.seal import SEAL_WORDS
from hwflow_rtl.vendor import Generic
from hwflow_sim.board import (
    CompiledBoard,
    SimulatedBoard,
    UartLine,
    compile_board,
    netlist_design,
    read_netlist,
    rtl_design,
)
from hwflow_sim.flash import board_chip, flash_chip

from hwflow.host import LinkFailed
from hwflow.host.packets import MemoryState
from hwflow.host.weight_image import with_seal
from hwflow.synth import load_board
from hwflow.synth.board_weights import BoardWeights
from hwflow.synth.netlist import make_netlist_of
from hwflow.synth.toolchain import locate
from hwflow.synth.top import CoreOnBoard
from tests.memory.flash_parts import DUAL, QUAD
from tests.memory.test_on_a_board import (
    BEATS,
    DIVIDER,
    STREAMS,
    Weighted,
    answers,
    image_of,
    noise,
    reset_in_a_frame,
)
from tests.sim.small_board import linked

MARK = b"designed"
WORDS = WeightSharing(QUAD, tuple(STREAMS)).words


def memory_of(part=QUAD) -> WeightMemory:
    return WeightMemory(part=SealedFlash(part, WORDS, MARK), streams=STREAMS, technology=Generic())


def top_of(memory: WeightMemory) -> BoardTop:
    technology = Generic()
    return BoardTop(core=Weighted(), clocking=Clocking(technology=technology, board_mhz=25.0, has_reset=True),
                    transport=Uart(divider=DIVIDER), identity=b"weighted", technology=technology, memory=memory,
                    memory_pins=("sck", "cs_n", "io"))


def compiled(contents: bytes, folder: Path, cache: Path, part=QUAD) -> CompiledBoard:
    """A board with these bytes in its flash; other contents need no other program."""
    chip = board_chip(part, contents, words=WORDS + SEAL_WORDS)
    return compile_board(rtl_design(top_of(memory_of(part)), {}, chip), folder=folder, cache=cache, jobs=2)


def image(seed: int) -> tuple[bytes, bytes]:
    return image_of(memory_of(), seed)


@pytest.mark.parametrize("part", [
    pytest.param(QUAD, id="quad"), pytest.param(DUAL, id="dual", marks=pytest.mark.slow)])
def test_frames_are_computed_with_the_weights_in_the_flash(part, tmp_path: Path, cache: Path) -> None:
    board = compiled(with_seal(image(1)[0], MARK), tmp_path, cache, part)
    talk(board, DIVIDER)


def talk(board: CompiledBoard, bit_cycles: float, *, button: bool = True) -> None:
    """All that a host may do: frames for the image, for another one, resets anywhere, the board's `button` too."""
    (octets, digest), other, data = image(1), image(2)[1], noise(6)
    with SimulatedBoard(board, line=UartLine(bit_cycles)) as simulated:
        host = linked(simulated)
        with pytest.raises(LinkFailed, match=rf"but has others \(digest {digest.hex()}\)"):
            host.exchange(data)  # who says nothing of weights
        with pytest.raises(LinkFailed, match=rf"must have the weights of the design, but has others \(digest "
                                             rf"{digest.hex()}\); fill it with `hwflow program --weights`"):
            host.wait_for_image(other)
        with pytest.raises(LinkFailed, match="but has others"):
            host.exchange(data)
        host.wait_for_image(digest)
        memory = host.use(digest)
        assert (memory.state, memory.digest, memory.image_bytes) == (MemoryState.FILLED, digest, len(octets))
        assert host.exchange(data) == answers(data, 1)
        reset_in_a_frame(host, data)
        assert host.exchange(data) == answers(data, 1)
        if not button:
            return
        simulated.reset()  # the image is read and checked again
        with pytest.raises(LinkFailed, match="started anew"):
            host.exchange(data)
        host.wait_for_image(digest)
        assert host.exchange(data[:BEATS]) == answers(data[:BEATS], 1)


def flipped(octets: bytes, place: int) -> bytes:
    return octets[:place] + bytes([octets[place] ^ 16]) + octets[place + 1:]


WHOLE = with_seal(image(1)[0], MARK)
EMPTY = "has none; fill it with `hwflow program --weights`"
OTHER_DESIGN = "has an image that was made for another design; fill it with `hwflow program --weights`"
SILENT = "is a flash that does not answer: its lines stay at one level; switch the board off and on"
DAMAGED = "has an image that is cut or damaged: its CRC is wrong; fill it with `hwflow program --weights`"
WRONG = {
    "nothing": (b"", {}, EMPTY),
    "another design's": (with_seal(image(1)[0], b"otherone"), {}, OTHER_DESIGN),
    "cut": (WHOLE[:-1], {}, DAMAGED),
    "cut behind its first byte": (WHOLE[:9], {}, DAMAGED),
    "damaged": (flipped(WHOLE, 50), {}, DAMAGED),
    "a damaged name": (flipped(WHOLE, len(WHOLE) - 5), {}, DAMAGED),
    "high lines": (WHOLE, {"mute": 1}, SILENT), "low lines": (WHOLE, {"mute": 2}, SILENT),
    "another chip": (WHOLE, {"id": 0xC84018}, "is a flash with another JEDEC identifier than those of the board file"),
    "two lines": (WHOLE, {"qe_writable": 0}, "is a flash that stays with two lines: its bit QE is 0 after it was set"),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if k % 2 else [])
                                  for k, name in enumerate(WRONG)])
def test_the_host_hears_what_is_wrong(name: str, tmp_path: Path, cache: Path) -> None:
    """And gets no result, whatever it asks for."""
    contents, numbers, message = WRONG[name]
    message = "the memory of the board on the simulated board must have the weights of the design, but " + message
    with SimulatedBoard(compiled(contents, tmp_path, cache), line=UartLine(DIVIDER), numbers=numbers) as simulated:
        host = linked(simulated)
        with pytest.raises(LinkFailed) as failed:
            host.wait_for_image(image(1)[1])
        assert str(failed.value).startswith(message)
        with pytest.raises(LinkFailed) as failed:
            host.exchange(noise(1))
        assert str(failed.value).startswith(message)


def test_a_check_that_does_not_end(tmp_path: Path, cache: Path) -> None:
    """A board that says for ever that it reads."""
    with SimulatedBoard(compiled(WHOLE, tmp_path, cache), line=UartLine(DIVIDER)) as simulated:
        host = linked(simulated)
        memory = host.use(image(1)[1])
        stuck = replace(memory, state=MemoryState.FILLING)
        host._handshake = lambda: SlowHandshake(simulated, stuck)
        host.use = lambda digest: stuck
        with pytest.raises(LinkFailed, match=r"must have read the \d+ bytes of weights in its flash in 0\.40\d s, but "
                                             r"has not; load the bitstream of the design again"):
            host.wait_for_image(image(1)[1])


class SlowHandshake:
    """Each answer takes a while."""

    def __init__(self, board: SimulatedBoard, memory):
        self.board, self.said = board, memory

    def memory(self, digest: bytes):
        self.board.wait(b"", 10_000)
        return self.said


def test_a_violation_of_the_data_sheet_ends_the_simulation(tmp_path: Path, cache: Path) -> None:
    """The chip wants more time between two commands than the controller was told."""
    with SimulatedBoard(compiled(WHOLE, tmp_path, cache), line=UartLine(DIVIDER),
                        numbers={"t_shsl": 10**6}) as simulated, pytest.raises(
            ToolFailed, match=r"the simulated board ended(.|\n)*the flash, \d+ ps: t_shsl"):
        linked(simulated).reset()


def test_a_flash_must_have_a_seal() -> None:
    with pytest.raises(ValueError, match="memory must have an image with a seal, or be one that can be written, not be "
                                         "a plain quad"):
        top_of(WeightMemory(part=QUAD, streams=STREAMS, technology=Generic()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["icebreaker", "icesugar", "upduino3", "tangnano9k"])
def test_the_netlist_of_a_board(name: str, tmp_path: Path, cache: Path) -> None:
    """What yosys makes of all of it, pads and PLL included, with the chip at the pins or those of the cell inside."""
    if locate("yosys") is None:
        pytest.skip("yosys must be installed for a netlist")
    board = load_board(name)
    weights = BoardWeights(board.memories[0], tuple(STREAMS))
    netlist = make_netlist_of(CoreOnBoard(Weighted(), board, identity=b"weighted", weights=weights), tmp_path)
    chip = flash_chip(weights.memory.part, with_seal(image(1)[0], weights.mark), words=WORDS + SEAL_WORDS)
    design = netlist_design(read_netlist(netlist, board.family), reset_active_low=board.reset_active_low, chip=chip)
    made = compile_board(design, folder=tmp_path / "board", cache=cache, jobs=2)
    talk(made, board.clock_mhz * 1e6 / board.transport.entry["baud"], button=board.reset is not None)
