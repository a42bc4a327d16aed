"""How numbers are written."""

from __future__ import annotations

__all__ = ["counted", "decimal", "number", "percent"]


def number(value: int) -> str:
    """12345 as "12 345"."""
    return f"{value:,}".replace(",", " ")


def decimal(value: float, digits: int = 1) -> str:
    """12345.67 as "12 345.7"."""
    return f"{value:,.{digits}f}".replace(",", " ")


def percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"


def counted(count: int, thing: str) -> str:
    """"1 layer", "2 layers", "no layer"."""
    return f"{count or 'no'} {thing}{'s' if count > 1 else ''}"
