"""Pages for people: one self-contained HTML file that shows a whole design, and the pictures that it is made of."""

from __future__ import annotations

from .document import page_of
from .subject import Subject

__all__ = ["Subject", "page_of"]
