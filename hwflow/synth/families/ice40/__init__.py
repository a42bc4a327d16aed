"""Lattice iCE40: UP5K and HX8K, with nextpnr-ice40 and icepack of Project IceStorm."""

from .family import ICE40Family

__all__ = ["ICE40Family"]
