"""Warnings about a result that is computed as asked, and that nobody wants.

The exit code of a command stays 0: the answer is right, the question is perhaps not.  `hwflow.accuracy.warnings` finds
most of them; docs/quantization-guide.md says of each code what it means.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class OutcomeCode(enum.StrEnum):
    """The subjects of warnings: the data, then the outputs, the accuracy and the plan."""

    EQUAL_CALIBRATION = "equal-calibration"
    RANGE_EXCEEDED = "range-exceeded"
    RANGE_UNUSED = "range-unused"
    ONE_HOT_LABELS = "one-hot-labels"
    SHIFTED_LABELS = "shifted-labels"
    NOT_FINITE = "not-finite"
    CONSTANT_OUTPUT = "constant-output"
    ONE_CLASS = "one-class"
    LOW_SNR = "low-snr"
    ACCURACY_LOST = "accuracy-lost"
    BOARD_EXCEEDED = "board-exceeded"


@dataclass(frozen=True)
class OutcomeWarning:
    """`where` names the layer, tensor or array, `seen` what is the matter with its numbers, `remedy` what to do."""

    code: OutcomeCode
    where: str
    seen: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where} {self.seen}; {self.remedy} [{self.code}]"
