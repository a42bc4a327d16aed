"""How good outputs are, as plain functions of arrays whose first axis are rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array


def ranks(scores: Array, labels: Array) -> npt.NDArray[np.int64]:
    """How many classes of each row stand before its label: [n], 0 where the label has the largest score.

    `labels` are integers [n] from 0 to the number of scores of a row - 1.  Of equal scores the first one is in front.
    """
    rows = scores.reshape(len(scores), -1)
    own = rows[np.arange(len(rows)), labels][:, None]
    in_front = np.arange(rows.shape[1]) < labels.astype(np.int64)[:, None]
    return np.asarray(((rows > own) | ((rows == own) & in_front)).sum(axis=1), np.int64)


def area_under_curve(scores: Array, labels: Array) -> float | None:
    """Area under the ROC curve, 0 to 1: how often a row of label 1 scores higher than one of label 0, ties half.

    It is the rank statistic of Mann and Whitney (1947) over the number of pairs.  None without rows of both labels.
    """
    positive = np.asarray(labels, bool)
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        return None
    _, which, counts = np.unique(np.asarray(scores, np.float64), return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2  # the rank of equal scores is the mean of their places, from 1
    total = float(middle[which][positive].sum())
    return (total - ones * (ones + 1) / 2) / (ones * zeros)


def chance_of_share(first: Array, second: Array) -> float:
    """The effect of chance alone on the difference of two means over the same rows [n]: its standard error were both of
    equal worth, so that each row's difference is as likely to have the other sign."""
    apart = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    return float(np.sqrt(np.square(apart).sum())) / max(len(apart), 1)


def chance_of_area(first: Array, second: Array, labels: Array) -> float | None:
    """The same as `chance_of_share` for the areas under the ROC curves of two scores; None without rows of both labels.

    A row counts with its placement: the share of the other label's rows that it is on the right side of, ties half
    (DeLong, DeLong and Clarke-Pearson, 1988).
    """
    positive = np.asarray(labels, bool)
    if positive.all() or not positive.any():
        return None
    variance = 0.0
    for one in (positive, ~positive):
        placed = [_placements(np.asarray(scores, np.float64), one) for scores in (first, second)]
        variance += chance_of_share(*placed) ** 2
    return math.sqrt(variance)


def _placements(scores: npt.NDArray[np.float64], which: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """For each row of `which` the share of the other rows with a lower score, equal ones half."""
    others = np.sort(scores[~which])
    below, up_to = (np.searchsorted(others, scores[which], side) for side in ("left", "right"))
    return np.asarray((below + up_to) / (2 * len(others)))


def squared_errors(inputs: Array, outputs: Array) -> npt.NDArray[np.float64]:
    """Mean squared difference of each row: [n]."""
    apart = inputs.astype(np.float64) - outputs.astype(np.float64)
    return np.asarray(np.square(apart).reshape(len(apart), -1).mean(axis=1))


@dataclass(frozen=True)
class Deviation:
    """The deviation of values from expected ones: mean squared error, share of variance explained, largest error.

    `r2` weighs every element of a row by its variance over the rows; it is None where nothing varies.  `rows` are the
    shares of the variance that each row leaves unexplained: 1 - `r2` is their sum.
    """

    mse: float
    r2: float | None
    largest: float
    rows: npt.NDArray[np.float64]


def deviation(expected: Array, outputs: Array) -> Deviation:
    """`expected` and `outputs` have as many elements in each row; their shapes may differ beyond that."""
    want = expected.astype(np.float64).reshape(len(expected), -1)
    apart = outputs.astype(np.float64).reshape(want.shape) - want
    by_row, spread = np.square(apart).sum(axis=1), float(np.square(want - want.mean(axis=0)).sum())
    squares, largest = float(np.square(apart).sum()), float(np.abs(apart).max(initial=0.0))
    explained = 1 - squares / spread if spread > 0 else None
    return Deviation(squares / max(apart.size, 1), explained, largest, by_row / (spread or 1.0))


#: Integers of so many bytes are indices.
INDEX_BYTES = 4


def is_index(values: Array) -> bool:
    """Whether they are classes or other indices, as ArgMax and TopK give them: 8 and 16 bits are quantized numbers.

    Such numbers have no noise; they are equal or not.
    """
    return values.dtype.kind == "b" or (values.dtype.kind in "iu" and values.dtype.itemsize >= INDEX_BYTES)


def signal_to_noise(reference: Mapping[str, Array], outputs: Mapping[str, Array]) -> float | None:
    """Power of the reference over the power of the difference, in decibels, over all outputs together.

    None where nothing differs, where there is no signal, or where numbers are not finite.
    """
    signal = noise = 0.0
    for name, values in reference.items():
        if values.dtype.kind in "biuf":
            real = values.astype(np.float64)
            signal += float(np.sum(np.square(real)))
            noise += float(np.sum(np.square(real - outputs[name].astype(np.float64))))
    usable = noise > 0 and signal > 0 and np.isfinite(signal) and np.isfinite(noise)
    return 10 * float(np.log10(signal / noise)) if usable else None
