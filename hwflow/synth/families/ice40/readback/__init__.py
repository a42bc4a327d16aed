"""Bitstreams of iCE40 read back: the file, the chip database, and the cells that the bits configure."""

from .reader import read_back

__all__ = ["read_back"]
