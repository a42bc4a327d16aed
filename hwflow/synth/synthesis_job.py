"""One run of synthesis: the board, the folder and the tools that all its steps share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hwflow_base.work import Watch, Work, unwatched

from .board_weights import BoardWeights
from .boards import Board
from .toolchain import PREPARING, Running, Tool, run_tool

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """The board, folder and tools that every step needs.  `weights` are those in a memory of the board.  `watch` shows
    the tools that take long.  `running` holds the tools that run now, and can end them all."""

    board: Board
    folder: Path
    tools: dict[str, Tool]
    progress: Progress
    weights: BoardWeights | None = None
    watch: Watch = unwatched
    running: Running = field(default_factory=Running)

    def log(self, step: str) -> Path:
        return self.folder / "logs" / f"{step.replace(',', '').replace(' ', '_')}.log"

    def run(self, name: str, arguments: list[str], folder: Path, step: str, source: Path | None = None,
            listen: Callable[[str], None] = lambda line: None) -> None:
        """Run one tool in the folder of a step, which also gets a note of the time it took.

        `source`, a file of the step before, is put there for the time of the run: the tools in WebAssembly see only the
        folder that they are started in.  `listen` hears every line that the tool says.
        """
        if source is not None:
            shutil.copyfile(source, folder / source.name)
        seconds = run_tool(self.tools[name], arguments, folder=folder, log=self.log(step), step=step,
                           progress=self.progress, listen=listen, running=self.running)
        if source is not None:
            (folder / source.name).unlink()
        (folder / "seconds.json").write_text(json.dumps(round(seconds, 2)))


def nextpnr_of(job: Job) -> Tool:
    return next(tool for name, tool in job.tools.items() if name.startswith("nextpnr"))


def first_run(work: Work) -> Callable[[str], None]:
    """A listener that sorts out runs in which a tool in WebAssembly was prepared first."""
    def listen(line: str) -> None:
        if line.startswith(PREPARING):
            work.unlike_others()

    return listen
