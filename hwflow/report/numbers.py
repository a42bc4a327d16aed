"""How numbers are written: 12,345 everywhere, without a space at which a line could break."""

from __future__ import annotations

__all__ = ["counted", "decimal", "number", "percent", "rate_text"]


def number(value: int) -> str:
    """12345 as "12,345"."""
    return f"{value:,}"


def decimal(value: float, digits: int = 1) -> str:
    """12345.67 as "12,345.7"."""
    return f"{value:,.{digits}f}"


def rate_text(value: float) -> str:
    """Frames a second: whole numbers from 100 on, else three digits."""
    return number(round(value)) if value >= 100 else f"{value:.3g}"


def percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"


def counted(count: int, thing: str) -> str:
    """"1 layer", "2 layers", "no layer"."""
    return f"{number(count) if count else 'no'} {thing}{'s' if count > 1 else ''}"
