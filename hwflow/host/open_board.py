"""A board with a model in it: arrays in, arrays out, equal to what the golden model gives."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self, TypeAlias, TypeVar, Union

from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.host.design import Design, find_designs, load_design
from hwflow.host.elements import pack, rows_of, unpack
from hwflow.host.host_link import HostLink
from hwflow.host.identity import DesignFacts, TransportFacts
from hwflow.host.line_rate import raise_rate, rates_of, start_safe
from hwflow.host.packets import Identity
from hwflow.host.ports import is_serial, open_port
from hwflow.host.session import Patience, Progress
from hwflow.host.stream import Stream
from hwflow.host.wire import BytePort, Line, LinkFailed, Statistics
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Array

Clock = Callable[[], float]
#: What the model takes, and what its integer graph takes.
Rows: TypeAlias = Union[Array, Mapping[str, Array]]
Frames: TypeAlias = Union[IntArray, Mapping[str, IntArray]]
Given = TypeVar("Given")
Made = TypeVar("Made")


class OpenBoard:
    """The model `design` on the board at the other end of `link`, over `transport`.

    `filled` says that opening it put the design's weights into the board's memory; they may have been there already.
    A context manager; one call at a time.
    """

    def __init__(self, link: HostLink, design: Design, transport: TransportFacts, *,
                 filled: bool = False) -> None:
        self.filled = filled
        self.link = link
        self.design = design
        self.transport = transport
        #: States that the host keeps, after the last row; empty at the beginning of a sequence.
        self.host_states: dict[str, Array] = {}

    @property
    def statistics(self) -> Statistics:
        """The traffic on the line since it was opened, and what of it was lost."""
        return self.link.statistics

    def run(self, x: Rows, progress: Progress | None = None) -> dict[str, Array]:
        """The model's outputs by name, in the shapes that `hwflow.run_golden` gives, for rows of its inputs,
        [n, *input shape].

        `x` are the inputs by name, or the array of the only one.  The host computes what stands around the integer
        graph; `progress` hears of (frames done, frames in all).  LinkFailed where the board does not give all results.
        """
        quantized = self.design.quantized
        rows = rows_of(quantized, x)
        frames = self.run_integers(golden.run_prologue(quantized, rows), progress)
        return golden.as_batch(golden.run_epilogue(quantized, frames, rows, self.host_states))

    def run_integers(self, frames: Frames, progress: Progress | None = None) -> dict[str, IntArray]:
        """The integer graph's outputs by name for frames by name, or of the only input; both [n, h, w, c]."""
        graph, size = self.design.quantized.graph, self.design.facts.bytes_out
        data = pack(graph, self._checked(frames))

        def frames_done(done: int, total: int) -> None:
            if progress is not None:
                progress(done // size, total // size)

        return unpack(graph, self.link.exchange(data, frames_done))

    def stream(self, source: Iterable[Rows | None]) -> Stream[Rows, dict[str, Array]]:
        """The outputs of each item of `source`, in order, while further items are on their way.

        An item is what `run` takes, with any number of rows, and its result is what `run` gives.  It is taken when the
        board has room for it; None says that there is none at the moment, and the source is asked again soon.  A source
        that waits for its next item holds results back: they are given when it has it.  The board belongs to the stream
        until that ends: at the end of the source, by `close`, or by an exception.  LinkFailed as of `run`.
        """
        quantized, under_way = self.design.quantized, deque[dict[str, Array]]()

        def packed(x: Rows) -> bytes:
            rows = rows_of(quantized, x)
            data = pack(quantized.graph, self._checked(golden.run_prologue(quantized, rows)))
            under_way.append(golden.feeds_of_epilogue(quantized, rows))
            return data

        def unpacked(data: bytes) -> dict[str, Array]:
            frames = unpack(quantized.graph, data)
            return golden.as_batch(golden.run_epilogue(quantized, frames, under_way.popleft(), self.host_states))

        return self._stream(source, packed, unpacked)

    def stream_integers(self, source: Iterable[Frames | None]) -> Stream[Frames, dict[str, IntArray]]:
        """The same as `stream`, with what `run_integers` takes and gives."""
        graph = self.design.quantized.graph
        return self._stream(source, lambda frames: pack(graph, self._checked(frames)),
                            lambda data: unpack(graph, data))

    def stream_bytes(self, source: Iterable[bytes | None]) -> Stream[bytes, bytes]:
        """The same as `stream`, with whole frames as they are on the line (docs/host-link.md)."""
        return self._stream(source, lambda data: data, lambda data: data)

    def _stream(self, source: Iterable[Given | None], packed: Callable[[Given], bytes],
                unpacked: Callable[[bytes], Made]) -> Stream[Given, Made]:
        return Stream(self.link, self.design.facts, self.transport.bytes_per_second, source, packed, unpacked)

    def _checked(self, frames: Frames) -> Mapping[str, IntArray]:
        """Frames by the names of the inputs, as many of each."""
        named = golden.checked(self.design.quantized.graph, frames)
        counts = {len(array) for array in named.values()}
        if len(counts) > 1:
            raise HwflowError(f"all inputs must have the same number of frames, not {sorted(counts)}")
        return named

    def reset_state(self) -> None:
        """Begin a new sequence: the next frame finds the states that a board has after power-up.

        For designs that keep a state from frame to frame (docs/streaming.md); without that, every `run` goes on where
        the one before ended.  Takes a round trip.  It ends a stream that was not read to its end; what of its frames
        was on the way is lost.  LinkFailed where the board does not answer.
        """
        self.host_states.clear()
        self.link.restart()

    def close(self) -> None:
        """Let the port go.  The board keeps its design; what was on its way is lost."""
        self.link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def open_board(port: str | BytePort | Line, *, design: str | Path | None = None, build: str | Path = "build",
               model: str | None = None, board: str | None = None, baud: int | None = None,
               patience: Patience | None = None, clock: Clock = time.monotonic, refill: bool = False,
               progress: Progress | None = None) -> OpenBoard:
    """Open the board on `port` (a device, a `socket://` URL, or any `BytePort`) and see that it holds the design.

    `design` is a folder that `hwflow synth` filled, build/<model>/<board>/synth; without it the design that the board
    names is looked for below `build`, of `model` and for `board` alone where they are given.  `baud` is the line's
    rate, by default the highest that the board, its bridge and the line carry (`hwflow.host.line_rate`).  `clock` gives
    seconds; a port that is simulated has its own.

    Where the design has weights in the board's memory, they are sent if others are there, or none, as after power off;
    with `refill` in any case.  Those in a flash must be there.  `progress` hears of (bytes that arrived, bytes in all).
    HwflowError where nothing answers, where the board holds another design, where its design is not found, or where the
    file of its weights is not whole.
    """
    named = load_design(Path(design)) if design is not None else None
    known = find_designs(Path(build), model, board) if named is None else ((named.folder, named.facts),)
    if not known:
        raise HwflowError(
            f"there must be a design below '{build}', but there is none",
            "make one with `hwflow synth`, or name the folder of one",
        )
    link, identity, rate = _connect(port, _rates(port, known, baud), patience, clock)
    try:
        place = Path(build) if model is None else Path(build) / model
        chosen = named or _the_one(known, identity, place, link.port.name)
        _require(chosen, identity, link.port.name)
        transport = _raised(link, chosen.facts.transport, baud, rate)
        return OpenBoard(link, chosen, transport, filled=_fill(link, chosen, refill, progress))
    except BaseException:
        link.close()
        raise


def _raised(link: HostLink, facts: TransportFacts, baud: int | None, rate: int | None) -> TransportFacts:
    """The line, after it went up to the rate `baud`, or to the highest one; it was opened at `rate`."""
    safe = facts.options.get("baud")
    if "fastest" in facts.options and rate in (None, safe):
        rate = (None if baud == safe else raise_rate(link, facts.options, baud)) or int(facts.options["baud"])
    return facts if rate is None else TransportFacts.of_serial_line(rate)


def _fill(link: HostLink, design: Design, refill: bool, progress: Progress | None) -> bool:
    """See that the board's memory has the weights of the design; whether they were sent."""
    weights = design.facts.weights
    if weights is None:
        return False
    if weights.in_flash:
        if refill:
            raise HwflowError("refill must be left out: the weights of this design are in a flash",
                              "write them with `hwflow program --weights`")
        link.wait_for_image(weights.digest)
        return False
    memory = link.use(weights.digest)
    if memory.image_bytes != weights.size:
        raise HwflowError(
            f"the memory of the board on {link.port.name} must take the {weights.size} bytes of weights of "
            f"'{design.folder}', not {memory.image_bytes}",
            f"load the bitstream of '{design.folder}'",
        )
    if memory.holds(weights.digest) and not refill:
        return False
    link.fill(weights.read(design.folder), weights.digest, progress)
    return True


def _rates(port: str | BytePort | Line, known: tuple[tuple[Path, DesignFacts], ...], baud: int | None
           ) -> list[int | None]:
    """The bit rates of the line to try: those of the designs unless `baud` is given; None for a line without one."""
    if not isinstance(port, str) or not is_serial(port):
        if baud is not None and isinstance(port, str):
            raise HwflowError(f"--baud must be left out: the port '{port}' is no serial line")
        return [baud]
    lines = [facts.transport.options for _, facts in known if "baud" in facts.transport.options]
    if baud is not None:  # the line is opened at the rate of the board file, where it goes up to that one
        lines = [options for options in lines if baud in rates_of(options)]
    rates = [options["baud"] for options in lines] or ([] if baud is None else [baud])
    if not rates:
        names = ", ".join(sorted({facts.transport.kind for _, facts in known}))
        raise HwflowError(f"the port '{port}' is a serial line, but the design is one for {names}",
                          "name the port of that kind with --port, or the bit rate of the line with --baud")
    return [int(rate) for rate in dict.fromkeys(rates)]


def _connect(port: str | BytePort | Line, rates: list[int | None], patience: Patience | None, clock: Clock
             ) -> tuple[HostLink, Identity, int | None]:
    """The link at the first of the rates at which a board answers, and that rate.  LinkFailed where none does."""
    failures = []
    for baud in rates:
        link = HostLink(open_port(port, baud or 0) if isinstance(port, str) else port, patience=patience, clock=clock)
        try:
            start_safe(link.port)
            return link, link.reset(), baud
        except LinkFailed as error:
            failures.append(error)
            link.close()
        except BaseException:
            link.close()
            raise
    tried = ", ".join(str(rate) for rate in rates if rate is not None)
    raise LinkFailed(f"{failures[0]} (tried {tried} baud)" if isinstance(port, str) and tried else str(failures[0]))


def _the_one(known: tuple[tuple[Path, DesignFacts], ...], identity: Identity, place: Path, port: str) -> Design:
    """The design that the board names, of those below `place`."""
    for folder, facts in known:
        if facts.identity == identity.design:
            return load_design(folder)
    there = ", ".join(f"{facts.identity.hex()} ({facts.model} for {facts.board})" for _, facts in known[:5]) or "none"
    raise HwflowError(
        f"the board on {port} holds the design {identity.design.hex()}, which must be one of those below '{place}' "
        f"({there})",
        "load the bitstream of one of them, or name the folder of its design",
    )


def _require(design: Design, identity: Identity, port: str) -> None:
    """Refuse a board that holds another design, or whose frames have other sizes."""
    facts = design.facts
    if identity.design != facts.identity:
        raise HwflowError(
            f"the board on {port} must hold the design {facts.identity.hex()} ({facts.model}, '{design.folder}'), not "
            f"{identity.design.hex()}",
            f"load the bitstream of '{design.folder}'",
        )
    if (identity.bytes_in, identity.bytes_out) != (facts.bytes_in, facts.bytes_out):
        raise HwflowError(
            f"the board on {port} must take {facts.bytes_in} bytes and give {facts.bytes_out} for a frame of "
            f"'{facts.model}', not {identity.bytes_in} and {identity.bytes_out}",
            "make its bitstream again with `hwflow synth`",
        )


#: As users call it: `hwflow.host.open`.
open = open_board
