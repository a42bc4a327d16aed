"""What a hostile model is: its bytes, the stage that refuses it, and a part of what that stage says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx


@dataclass(frozen=True)
class Case:
    """A hostile file.  `prepare` makes other files in its folder."""

    make: Callable[[], onnx.ModelProto | bytes]
    stage: str | None
    text: str = ""
    prepare: Callable[[Path], object] = lambda folder: None

    def write(self, folder: Path) -> Path:
        self.prepare(folder)
        made = self.make()
        path = folder / "model.onnx"
        path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
        return path
