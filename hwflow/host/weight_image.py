"""The image of the weights that a design has in a memory beside the FPGA: a file next to `identity.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import open_plain
from hwflow_base.files.target import write_atomically

__all__ = ["DIGEST_BYTES", "IMAGE_FILE", "WeightImage", "digest_of"]

#: Length of what names an image (docs/host-link.md).
DIGEST_BYTES = 16
#: The file in the folder of a board's bitstream.
IMAGE_FILE = "weights.bin"

#: In `identity.json`.
IMAGE_SCHEMA: Mapping[str, Any] = {
    "type": "object", "required": ["file", "bytes", "digest", "model"], "additionalProperties": False,
    "properties": {"file": {"type": "string", "pattern": "^[^/]+$"}, "bytes": {"type": "integer", "minimum": 1},
                   "digest": {"type": "string", "pattern": f"^[0-9a-f]{{{2 * DIGEST_BYTES}}}$"},
                   "model": {"type": "string", "pattern": "^[0-9a-f]{16}$"}}}


def digest_of(image: bytes) -> bytes:
    """The first 16 bytes of its SHA-256."""
    return hashlib.sha256(image).digest()[:DIGEST_BYTES]


@dataclass(frozen=True)
class WeightImage:
    """`file` has `size` bytes, the words of the memory with the low byte first, and `digest` names them.

    `model` is `identity_of` the integer model with all its weights.
    """

    file: str
    size: int
    digest: bytes
    model: bytes

    @staticmethod
    def write(folder: Path, image: bytes, model: bytes) -> WeightImage:
        """Write the file into `folder`."""
        write_atomically(folder / IMAGE_FILE, image)
        return WeightImage(IMAGE_FILE, len(image), digest_of(image), model)

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> WeightImage:
        """From what keeps to `IMAGE_SCHEMA`."""
        return WeightImage(facts["file"], int(facts["bytes"]), *(
            bytes.fromhex(facts[name]) for name in ("digest", "model")))

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {"file": self.file, "bytes": self.size, "digest": self.digest.hex(), "model": self.model.hex()}

    def read(self, folder: Path) -> bytes:
        """The image.  HwflowError where its file is missing, cut, or of other weights."""
        path, remedy = folder / self.file, "make it again with `hwflow synth`"
        try:
            with open_plain(path) as file:
                image = file.read(self.size + 1)
        except OSError as error:
            raise HwflowError(f"'{path}' must hold the weights for the memory of the board: {error.strerror}",
                              remedy) from None
        if len(image) != self.size:
            has = f"is cut after {len(image)}" if len(image) < self.size else "has more"
            raise HwflowError(f"'{path}' must hold {self.size} bytes of weights, but {has}", remedy)
        if digest_of(image) != self.digest:
            raise HwflowError(
                f"'{path}' must hold the weights of its design (digest {self.digest.hex()}), but holds others "
                f"({digest_of(image).hex()})", remedy)
        return image
