"""Gowin GW1N and GW2A, with nextpnr-himbaechel and gowin_pack of apicula."""

from .family import GowinFamily

__all__ = ["GowinFamily"]
