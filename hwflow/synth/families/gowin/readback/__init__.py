"""Bitstreams of Gowin chips read back: bits of the file, bits of tiles, switches, cells."""

from .reader import read_back

__all__ = ["read_back"]
