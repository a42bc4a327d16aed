"""Bitstreams of an ECP5 read back: the file, the database of its bits, its wires and its cells."""

from .reader import read_back

__all__ = ["read_back"]
