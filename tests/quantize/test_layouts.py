"""The call that a message about a wrong layout suggests puts every element where it belongs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hwflow.data.layouts import changes_for, remedy_for

PICTURES = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)  # rows, channels, height, width
SQUARE = np.arange(2 * 4 * 4 * 3).reshape(2, 4, 4, 3)  # rows, height, width, channels

#: The rows as they are, the shape of the input, and the rows as they must be.
CASES = {
    "NHWC": (PICTURES.transpose(0, 2, 3, 1), (1, 3, 4, 5), PICTURES),
    "NCHW": (PICTURES, (1, 4, 5, 3), PICTURES.transpose(0, 2, 3, 1)),
    "open sizes": (PICTURES.transpose(0, 2, 3, 1), (1, 3, None, None), PICTURES),
    "with a batch": (PICTURES.transpose(0, 2, 3, 1)[:, None], (1, 3, 4, 5), PICTURES[:, None]),
    "square": (SQUARE, (1, 3, 4, 4), SQUARE.transpose(0, 3, 1, 2)),
    "time and features": (PICTURES[:, 0], (1, 5, 4), PICTURES[:, 0].transpose(0, 2, 1)),
    "flat": (PICTURES[:, 0].reshape(2, -1), (1, 1, 4, 5), PICTURES[:, :1]),
    "no channel axis": (PICTURES[:, 0], (1, 4, 5, 1), PICTURES[:, 0, :, :, None]),
    "a picture for a flat input": (PICTURES[:, 0], (1, 20), PICTURES[:, 0].reshape(2, -1)),
    "numbers": (np.arange(7), (1, 1), np.arange(7)[:, None]),
    "a single row": (PICTURES[0, 0], (1, 1, 4, 5), PICTURES[:1, :1]),
    "a single flat row": (PICTURES[0, 0].ravel(), (1, 1, 4, 5), PICTURES[:1, :1]),
}


@pytest.mark.parametrize("x, wanted, rows", CASES.values(), ids=CASES)
def test_the_call_makes_the_rows_that_fit(x: np.ndarray, wanted: tuple[int | None, ...], rows: np.ndarray) -> None:
    call = re.match(r"give (x\.[a-z]+\([-0-9, ]+\))", remedy_for(x.shape, wanted))
    assert call is not None
    change, = changes_for(x.shape, wanted)
    assert np.array_equal(eval(call[1]), rows)
    assert np.array_equal(change.apply(x), rows)


def test_flat_rows_of_several_channels_may_be_in_two_orders() -> None:
    x = PICTURES.reshape(2, -1)
    first, last = re.findall(r"x\.reshape[^a-z]+(?:transpose[^a-z]+)?(?= |,|$)", remedy_for(x.shape, (1, 3, 4, 5)))
    assert np.array_equal(eval(first.rstrip(", ")), PICTURES)
    x = PICTURES.transpose(0, 2, 3, 1).reshape(2, -1)
    assert np.array_equal(eval(last), PICTURES)


@pytest.mark.parametrize("found, wanted", [
    ((2, 3, 8, 8), (1, 3, 4, 5)), ((2, 4, 6), (1, 2, 12)), ((), (1, 3)), ((2, 7), (1, 3)), ((2, 3), ()),
    ((5, 0), (1, 2)), ((2, 1, 2, 3, 4, 5, 6), (1, 6, 5, 4, 3, 2, 1)), ((2, 3, 9), (None, 4)),
])
def test_nothing_is_suggested_where_nothing_fits(found: tuple[int, ...], wanted: tuple[int | None, ...]) -> None:
    assert remedy_for(found, wanted) == ""
