"""`hwflow program`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import is_whole
from hwflow_base.later import later
from hwflow_base.options import Option, Range, Section, command_line

from ..options import BOARD, BUILD, BoardName, ModelFile, Project

with later():
    from ..host import identity
    from ..host.design import find_designs
    from ..host.identity import DesignFacts
    from ..host.open_board import open_board
    from ..host.ports.serial import ports_text
    from ..host.weight_image import WeightImage
    from ..pipeline.build_folders import other_model
    from ..synth import Board, families, load_board
    from ..synth import program as programmer
    from ..views.console.terminal import Console

Result = Mapping[str, object]

#: How long what was written lasts.
LASTS = {"sram": "until the power is switched off; --flash keeps it", "flash": "for good"}


@dataclass(frozen=True)
class ProgramRequest:
    """The request of `hwflow program`."""

    model: ModelFile
    board: BoardName = BOARD
    flash: Annotated[bool, Option(
        "Write the flash from which the board starts, not only the FPGA itself.", Section.BOARD)] = False
    weights: Annotated[bool, Option(
        "Write the weights after the bitstream into the flash of the board, or send them over --port into another "
        "memory of a board that has the bitstream already.", Section.BOARD)] = False
    port: Annotated[str | None, Option(
        "With --weights: the board's serial port, or socket://HOST:PORT.", Section.BOARD, "PORT", needs="weights",
        common=True)] = None
    baud: Annotated[int | None, Option(
        "With --weights: the bit rate, if it is not the design's.", Section.BOARD, parse=Range(1), needs="weights",
        common=True)] = None
    build: Annotated[Path, Option("Where `hwflow synth` wrote its results.", common=True)] = BUILD


def program(console: Console, request: ProgramRequest) -> Result:
    """Load the bitstream that `hwflow synth` made of MODEL into a board.

    With --weights: its weights into the memory beside the FPGA.  Those in a flash need this once; into another memory
    `hwflow run` sends them by itself.

    Exit codes: 0 written; 1 if the programmer fails; 2 if the programmer, the bitstream or the weights are missing, or
    the board does not answer.
    """
    board = load_board(request.board)
    folder = design_folder(console, request, board.name)
    bitstream = folder / "bitstream" / f"top.{families.FAMILIES[board.family].bitstream_suffix}"
    if request.weights:
        facts = facts_with_weights(folder)
        if facts.weights is not None and facts.weights.in_flash:
            return write_weights(console, request, board, folder, facts.weights, bitstream)
        return fill(console, request, folder, facts)
    if bitstream.is_file() and not is_whole(bitstream.parent):
        raise HwflowError(
            f"'{bitstream}' must be as `hwflow synth` left it, but it was changed or cut since",
            f"run `hwflow synth` for {board.name} again",
        )
    done = programmer.program(board, bitstream, flash=request.flash, progress=console.progress)
    if done.memory == "flash" and not request.flash:
        console.say(f"{board.name} accepts bitstreams only in its flash")
    console.say(f"{board.name} runs {bitstream}: in its {done.memory}, {LASTS[done.memory]}")
    if has_weights_in_flash(folder):
        console.say("its weights are in the flash as well: write them with --weights, once")
    console.next(command_line("run", Project(request.model, build=request.build), options=["--port", "PORT"]))
    return {"board": board.name, "bitstream": str(bitstream), "memory": done.memory, "tool": done.tool,
            "version": done.version, "command": list(done.command)}


def facts_with_weights(folder: Path) -> DesignFacts:
    """The facts of the design in `folder`.  HwflowError where it has no weights in a memory of the board."""
    facts = DesignFacts.read(folder)
    if facts.weights is None:
        raise HwflowError(f"the design in '{folder}' must have weights in a memory of the board, but all are in its "
                          "bitstream", "leave --weights out")
    return facts


def has_weights_in_flash(folder: Path) -> bool:
    """Whether its weights are known to be in flash; False for a design that was not finished."""
    if not (folder / identity.IDENTITY_FILE).is_file():
        return False
    facts = DesignFacts.read(folder)
    return facts.weights is not None and facts.weights.in_flash


def write_weights(console: Console, request: ProgramRequest, board: Board, folder: Path, weights: WeightImage,
                  bitstream: Path) -> Result:
    """The weights of the design in `folder`, with their seal, into the flash of `board`, behind the bitstream."""
    if request.port is not None:
        raise HwflowError(f"--port must be left out: the programmer of {board.name} writes the weights into its flash")
    weights.read(folder)  # HwflowError for a file that is not whole
    done = programmer.program_weights(board, folder / weights.file, bitstream=bitstream, progress=console.progress)
    console.say(f"the flash of {board.name} has the {weights.size} bytes of weights of '{request.model}', for good")
    return {"board": board.name, "weights": weights.facts(), "memory": done.memory, "tool": done.tool,
            "version": done.version, "command": list(done.command)}


def fill(console: Console, request: ProgramRequest, folder: Path, facts: DesignFacts) -> Result:
    """The weights of the design in `folder` over the serial line into the memory of the board that runs it."""
    assert facts.weights is not None
    if request.port is None:
        raise HwflowError("--weights needs the board's serial port: name it with --port", ports_text())
    started = time.perf_counter()
    with console.rows("weights to the board") as progress, open_board(
            request.port, design=folder, baud=request.baud, refill=True, progress=progress):
        seconds = time.perf_counter() - started
    console.say(f"the memory of {facts.board} has the {facts.weights.size} bytes of weights of {facts.model}, until "
                "the power is switched off")
    return {"board": facts.board, "weights": facts.weights.facts(), "port": request.port, "seconds": seconds}


def design_folder(console: Console, request: ProgramRequest, board: str) -> Path:
    """build/<model>/<board>/synth, or where `hwflow reweight` put the model; of both the newer one."""
    name = request.model.stem
    folders = [folder for folder, _ in find_designs(request.build, name, board)]
    if len(folders) > 1:
        console.say(f"{name} has {len(folders)} designs for {board}; the newest one is taken")
    folder = folders[0] if folders else request.build / name / board / "synth"
    other = other_model(folder.parent.parent, request.model)
    if other is not None:
        raise HwflowError(
            f"'{folder}' must hold the design of '{request.model}', but is the design of another model of the same "
            f"name, '{other}'",
            f"run `hwflow synth {request.model} --board {board}` first, or name the folder of its results with --build",
        )
    return folder
