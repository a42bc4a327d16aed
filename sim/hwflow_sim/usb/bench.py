"""A simulated device with a USB host: the program, and its commands."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hwflow_base.files.target import create_folder

from ..builder import run_arguments
from ..child import Child
from ..program import Program

HERE = Path(__file__).parent
#: What the drivers include.
HEADERS = ("packets.h", "host.h", "bench.h", "full_speed.h", "ulpi_phy.h")
#: The program of each kind of port; the design's module is `top`.
BENCHES = {kind: Program(f"usb_{kind}", top="top", driver=HERE / f"{kind}.cpp",
                         parts=tuple(HERE / name for name in HEADERS)) for kind in ("full_speed", "ulpi")}
LOG = "usb.log"
FACTS = struct.Struct("<3d13Q")
NEVER = (1 << 64) - 1


@dataclass(frozen=True)
class CompiledBench:
    """`executable` is in the cache, `folder` has the log and what memories hold."""

    executable: Path
    folder: Path


@dataclass(frozen=True)
class Faults:
    """Probabilities: of a packet in either direction to be lost or to have a wrong bit, of data to come twice."""

    loss: float = 0.0
    damage: float = 0.0
    twice: float = 0.0


@dataclass(frozen=True)
class HostFacts:
    """Since the start.

    `seconds` of the bus; `first_answer` and `last_answer`, the least and the most time that the device took, in bit
    times; `frames` or microframes; packets of data `out` and `in_`; those `refused` with NAK; `empty` ones;
    transactions without a right answer, packets that came once more, faults that were made, STALLs; cycles in which
    host and device drove the bus; packets of the device that did not end as packets do; bytes that wait to be sent.
    """

    seconds: float = 0.0
    first_answer: float = 0.0
    last_answer: float = 0.0
    frames: int = 0
    out: int = 0
    in_: int = 0
    refused: int = 0
    empty: int = 0
    unanswered: int = 0
    repeated: int = 0
    faults: int = 0
    stalled: int = 0
    contention: int = 0
    bad_endings: int = 0
    waiting: int = 0


def compile_bench(kind: str, verilog: str, *, folder: Path, cache: Path, sources: Sequence[Path] = ()
                  ) -> CompiledBench:
    """The program for a design, Verilog with the module `top`; `kind` is one of `BENCHES`.

    Its pins are those of a `FullSpeedUsb` or an `UlpiUsb` without pads.  At full speed there is clk, the clock of the
    line, and perhaps usb_sample_clk, of 48 MHz.

    Raises MissingTool, and ToolFailed with the path of the log.
    """
    folder = folder.resolve()
    create_folder(folder)
    built, _ = BENCHES[kind].compile(verilog, sources=sources, cache=cache.resolve(), log=folder / "compile.log")
    return CompiledBench(built, folder)


class UsbBench:
    """A device that runs while its host does something; use it in a `with` statement.

    Parameters
    ----------
    compiled
        From `compile_bench`.
    line_mhz
        The clock of the line, at full speed.
    ppm
        Parts per million by which the host's clock is slow; the specification allows 2 500 at full speed (7.1.11).
    seed
        Of all that is undefined at first, of the phases of the host's packets, and of the faults.
    high_speed
        Whether the host knows high speed, behind an ULPI PHY.
    """

    def __init__(self, compiled: CompiledBench, *, line_mhz: float = 25.0, ppm: float = 0.0, seed: int = 1,
                 high_speed: bool = True):
        self.compiled = compiled
        self.arguments = [repr(float(line_mhz)), repr(float(ppm)), str(seed), str(int(high_speed)),
                          *run_arguments(seed)]
        self.facts = HostFacts()
        self._child = Child(compiled.executable, compiled.folder, log=LOG, what="the simulated device", user="UsbBench")

    def __enter__(self) -> UsbBench:
        self._child.start(self.arguments)
        return self

    def __exit__(self, *_error: object) -> None:
        self._child.stop()

    def reset(self, milliseconds: float = 1.0) -> int:
        """A reset of the bus: 0 where no device is there, 1 of one at full speed, 2 at high speed."""
        answer = self._command(b"R" + struct.pack("<d", milliseconds))
        return answer[0]

    def idle(self, bits: float) -> None:
        """Nothing on the bus for so many bit times."""
        self._command(b"I" + struct.pack("<d", bits))

    def transact(self, pid: int, address: int, endpoint: int, data_pid: int = 0, payload: bytes = b"") -> bytes:
        """A token, the packet of data behind it where there is one, and the packet that comes back, if one does."""
        return self._command(b"T" + bytes((pid, address, endpoint, data_pid)) + sized(payload))

    def packet(self, octets: bytes, *, flips: Sequence[int] = (), cut: int = NEVER) -> bytes:
        """Any bytes as a packet; `flips` are bits on the wire that are wrong, and only `cut` of them go out.  Answers
        as `transact`."""
        return self._command(b"P" + sized(octets) + struct.pack(f"<Q{len(flips)}QQ", len(flips), *flips, cut))

    def inject(self, faults: Faults) -> None:
        """From now on."""
        self._command(b"F" + struct.pack("<3d", faults.loss, faults.damage, faults.twice))

    def configured(self, address: int, packet: int, *, reading: bool = True) -> None:
        """The device has this address now; its data endpoint takes packets of so many bytes.  Its toggles are 0.

        Without `reading` the host asks for no data."""
        self._command(b"C" + struct.pack("<3Q", address, packet, reading))

    def exchange(self, data: bytes, count: int, seconds: float) -> bytes:
        """Send data in frames; what has come as soon as it is `count` bytes, or when `seconds` of the bus have passed.

        What was not sent by then goes on in the next call."""
        return self._command(b"X" + sized(data) + struct.pack("<Qd", count, seconds))

    def _command(self, text: bytes) -> bytes:
        self._child.write(text)
        seconds, first, last, count, *rest = FACTS.unpack(self._child.read(FACTS.size))
        self.facts = HostFacts(seconds, first, last, *rest)
        return self._child.read(count)


def sized(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


#: Seconds of a driver in one of the bus.  The more, the less of the bus is simulated while a driver waits for an answer
#: that does not come; a full packet takes 5 ms.
SECONDS_A_SECOND = 10
#: Of the bus: the shortest wait, three frames.
SHORTEST = 3e-3


class UsbPort:
    """A `hwflow.host.wire.BytePort` on a device that was enumerated, and the clock that goes with it."""

    def __init__(self, bench: UsbBench, name: str = "the simulated board"):
        self.bench = bench
        self.name = name
        self._waiting = b""

    def clock(self) -> float:
        """Seconds since the start, as the driver counts them."""
        return self.bench.facts.seconds * SECONDS_A_SECOND

    def read(self, timeout: float) -> bytes:
        """Read what has arrived; waits at most `timeout` seconds for the first byte, and at least three frames."""
        data, self._waiting = self._waiting, b""
        return self.bench.exchange(data, 1, max(timeout / SECONDS_A_SECOND, SHORTEST))

    def write(self, data: bytes) -> None:
        self._waiting += data

    def close(self) -> None:
        """The device belongs to its own `with` statement."""
