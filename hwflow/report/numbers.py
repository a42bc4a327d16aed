"""How numbers are written."""

from __future__ import annotations

__all__ = ["number", "percent"]


def number(value: int) -> str:
    """12345 as "12 345"."""
    return f"{value:,}".replace(",", " ")


def percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"
