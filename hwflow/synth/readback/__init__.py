"""Bitstreams read back: what the bits of a device configure, as a netlist of its cells."""

from .fabric import Fabric, Wire

__all__ = ["Fabric", "Wire"]
