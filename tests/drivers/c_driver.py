"""The C driver in a process of its own, on a line of the test's."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
C_FOLDER = HERE.parents[1] / "drivers" / "c"
FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion")
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
#: Seconds for a compiler, and without a word of the program.
SECONDS = 120


@dataclass(frozen=True)
class Outcome:
    """What hwflow_open or hwflow_run returned last, the driver's counts, and the results."""

    status: int
    sent: int
    received: int
    resent: int
    repeated: int
    dropped: int
    polls: int
    results: bytes


def compiled_c(program: str, folder: Path, *flags: str) -> Path:
    """The driver with `program`.c of this folder, compiled with every warning an error, and with sanitizers."""
    # The program may be as it likes; the driver is as strict as a compiler can be.
    made, part = folder / program, folder / "hwflow_link.o"
    common = [*SANITIZERS, *flags, f"-I{C_FOLDER}"]
    for command in (["gcc", *FLAGS, *common, "-c", str(C_FOLDER / "hwflow_link.c"), "-o", str(part)],
                    ["gcc", *FLAGS[:5], *common, str(HERE / f"{program}.c"), str(part), "-o", str(made)]):
        subprocess.run(command, check=True, timeout=SECONDS)
    return made


def drive(program: Path, exchange: Callable[[bytes, int], bytes | None], milliseconds: Callable[[], int], *,
          frames: bytes, bytes_in: int, bytes_out: int, design: bytes, capacity: int, runs: int = 1) -> Outcome:
    """Let the driver run `frames` over `exchange`, which takes what it sends and the most that it wants, and gives
    what came, or None for a line that is gone."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(struct.pack("<5I", len(frames) // bytes_in, bytes_in, bytes_out, capacity, runs)
                            + design + frames)
        process.stdin.flush()
        while (word := process.stdout.read(1)) == b"X":
            size, wanted = struct.unpack("<2H", process.stdout.read(4))
            came = exchange(process.stdout.read(size), wanted)
            count = 0xFFFF if came is None else len(came)
            process.stdin.write(struct.pack("<HI", count, milliseconds() & 0xFFFFFFFF) + (came or b""))
            process.stdin.flush()
        assert word == b"E", "the driver ended by itself"
        facts = struct.unpack("<i6I", process.stdout.read(28))
        results = process.stdout.read(len(frames) // bytes_in * bytes_out)
    assert process.returncode == 0
    return Outcome(*facts, results)
