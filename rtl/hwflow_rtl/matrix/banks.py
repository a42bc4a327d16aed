"""How many rows of a matrix stage may share words of weights and a register of activations."""

from __future__ import annotations

#: The most rows of a bank: so many rows one activation register can drive without limiting the clock.
BANK_ROWS = 8


def banks_of(rows: int, out_lanes: int) -> list[int]:
    """The numbers of rows that a bank can have, ascending."""
    return [bank for bank in range(1, min(rows, BANK_ROWS) + 1)
            if rows % bank == 0 and (bank % out_lanes == 0 or out_lanes % bank == 0)]


def pairs_rows(rows: int, out_lanes: int, together: int) -> bool:
    """Whether two rows always share their elements: `together` rows do, and a bank has an even number of rows."""
    return together % 2 == 0 and any(bank % 2 == 0 for bank in banks_of(rows, out_lanes))
