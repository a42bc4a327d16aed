"""A memory of weights in a flash, the simulated chip behind it, and a compiled program that takes its beats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_rtl.memory import AnyFlash, WeightMemory

from ..sdram.weights import Taken, WeightTraffic, WeightTrafficResult, traffic_program
from .chip import write_cells
from .kinds import flash_at, flash_model, flash_of, flash_violations


@dataclass(frozen=True)
class FlashTraffic:
    """A compiled program for the flash `part`."""

    part: AnyFlash
    traffic: WeightTraffic

    def run(self, contents: npt.NDArray[np.uint8], streams: Sequence[Taken], *, seed: int = 0,
            restart: float = 0.0) -> WeightTrafficResult:
        """Read the streams, as `WeightTraffic.run`; `contents` are the bytes from the part's offset on."""
        write_cells(self.traffic.folder / "cells.hex", contents, self.part.offset)
        return self.traffic.run([np.zeros(0, dtype=np.int64)], streams, seed=seed, restart=restart,
                                numbers={"cells": "cells.hex"})


def compile_flash_traffic(memory: WeightMemory, *, folder: Path, cache: Path,
                          say: Callable[[str], None] = print) -> FlashTraffic:
    """The program for `memory`, in one clock domain.  Raises MissingTool, and ToolFailed with the path of the log."""
    part = flash_of(memory.part)
    made = traffic_program(memory, flash_at(part), flash_model(part), streams=len(memory.streams), folder=folder,
                           cache=cache, say=say)
    return FlashTraffic(part, WeightTraffic(made, folder, crossed=False, violations=flash_violations(part)))
