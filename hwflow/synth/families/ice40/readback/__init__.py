"""Bitstreams of iCE40 read back: the file, the chip database, and the cells that the bits configure."""

from .database import database_status, find_database
from .file import DEVICES
from .reader import read_back

__all__ = ["DEVICES", "database_status", "find_database", "read_back"]
