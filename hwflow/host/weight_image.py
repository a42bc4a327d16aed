"""The image of the weights that a design has in a memory beside the FPGA: a file next to `identity.json`.

Into a flash it is written with a seal: what the design knows its images by in front (a mark of 8 bytes), and behind it
the digest and the CRC-32 of all that (docs/memory.md).
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import open_plain
from hwflow_base.files.target import write_atomically

#: Length of what names an image (docs/host-link.md).
DIGEST_BYTES = 16
#: What a seal adds: mark, digest and CRC.
SEAL_BYTES = 8 + DIGEST_BYTES + 4
#: The file in the folder of a board's bitstream.
IMAGE_FILE = "weights.bin"

#: In `identity.json`.
IMAGE_SCHEMA: Mapping[str, object] = {
    "type": "object", "required": ["file", "bytes", "digest", "model"], "additionalProperties": False,
    "properties": {"file": {"const": IMAGE_FILE}, "bytes": {"type": "integer", "minimum": 1},
                   "digest": {"type": "string", "pattern": f"^[0-9a-f]{{{2 * DIGEST_BYTES}}}$"},
                   "model": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
                   "mark": {"type": "string", "pattern": "^[0-9a-f]{16}$"}}}


def digest_of(image: bytes) -> bytes:
    """The first 16 bytes of its SHA-256."""
    return hashlib.sha256(image).digest()[:DIGEST_BYTES]


@dataclass(frozen=True)
class WeightImage:
    """`file` has an image of `size` bytes, the words of the memory with the low byte first, and `digest` names them.

    `model` is `identity_of` the integer model with all its weights.  `mark` is that of the design for an image in a
    flash, whose file has the seal as well; b"" for a memory that the host fills.
    """

    file: str
    size: int
    digest: bytes
    model: bytes
    mark: bytes = b""

    @staticmethod
    def write(folder: Path, image: bytes, model: bytes, *, mark: bytes = b"") -> WeightImage:
        """Write the file into `folder`."""
        write_atomically(folder / IMAGE_FILE, with_seal(image, mark))
        return WeightImage(IMAGE_FILE, len(image), digest_of(image), model, mark)

    @property
    def in_flash(self) -> bool:
        """It is written by a programmer, and not sent by the host."""
        return bool(self.mark)

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> WeightImage:
        """From what keeps to `IMAGE_SCHEMA`."""
        return WeightImage(facts["file"], int(facts["bytes"]), *(
            bytes.fromhex(facts.get(name, "")) for name in ("digest", "model", "mark")))

    def facts(self) -> dict[str, object]:
        """For JSON."""
        mark = {"mark": self.mark.hex()} if self.mark else {}
        return {"file": self.file, "bytes": self.size, "digest": self.digest.hex(), "model": self.model.hex(), **mark}

    def read(self, folder: Path) -> bytes:
        """The image.  HwflowError where its file is missing, cut, or of other weights."""
        path, remedy = folder / self.file, "make it again with `hwflow synth`"
        around = SEAL_BYTES if self.mark else 0
        try:
            with open_plain(path) as file:
                there = os.fstat(file.fileno()).st_size  # no file is read into more memory than it needs
                content = file.read(min(self.size + around, there) + 1)
        except OSError as error:
            raise HwflowError(f"'{path}' must hold the weights for the memory of the board: {error.strerror}",
                              remedy) from None
        if len(content) != self.size + around:
            has = f"is cut after {len(content)}" if len(content) < self.size + around else "has more"
            raise HwflowError(f"'{path}' must hold {self.size + around} bytes of weights, but {has}", remedy)
        image = content[len(self.mark):len(self.mark) + self.size]
        if digest_of(image) != self.digest:
            raise HwflowError(
                f"'{path}' must hold the weights of its design (digest {self.digest.hex()}), but holds others "
                f"({digest_of(image).hex()})", remedy)
        if content != with_seal(image, self.mark):
            raise HwflowError(f"'{path}' must have the seal of its design around its weights, but has another one",
                              remedy)
        return image


def with_seal(image: bytes, mark: bytes) -> bytes:
    """The bytes to write into the memory: with a mark what a flash holds, else the image alone."""
    if not mark:
        return image
    content = mark + image + digest_of(image)
    return content + zlib.crc32(content).to_bytes(4, "little")
