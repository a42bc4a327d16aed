"""Bitstreams of Gowin chips read back: bits of the file, bits of tiles, switches, cells."""

from .chip import require_chip
from .reader import read_back

__all__ = ["read_back", "require_chip"]
