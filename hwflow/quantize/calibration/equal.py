"""Calibration data that shows one row only."""

from __future__ import annotations

from collections.abc import Mapping

from hwflow.onnx.model import Array
from hwflow.outcome import OutcomeCode, OutcomeWarning

__all__ = ["equal_rows"]


def equal_rows(calibration: Mapping[str, Array]) -> tuple[OutcomeWarning, ...]:
    """A warning where the rows [n, ...] of every input are equal, or are one row of a single value.

    An input that is the same in every row is fine where another one is not.
    """
    flat = [array.reshape(len(array), -1) for array in calibration.values() if array.dtype.kind == "f" and array.size]
    if not flat or not all((rows == rows[:1]).all() for rows in flat):
        return ()
    everywhere = all((rows == rows[0, 0]).all() for rows in flat)
    if not everywhere and len(flat[0]) == 1:
        return ()
    what = "one number everywhere" if everywhere else f"{len(flat[0])} equal rows"
    remedy = "ranges come from it: give some hundred rows like those of the data (calib_ arrays)"
    return (OutcomeWarning(OutcomeCode.EQUAL_CALIBRATION, "calibration data", f"has {what}", remedy),)
