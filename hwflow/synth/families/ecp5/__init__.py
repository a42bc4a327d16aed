"""Lattice ECP5: LFE5U and LFE5UM, with nextpnr-ecp5 and ecppack of Project Trellis."""

from .family import ECP5Family

__all__ = ["ECP5Family"]
