"""Rows as pictures, and pictures as PNG files, as Pillow reads them."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from hwflow.data.pictures import MOST_PIXELS, picture_of
from hwflow.views.page.sections.accuracy import data_uri, png


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 1), (4, 7, 3)])
def test_pillow_reads_the_same_pixels(shape: tuple[int, int, int]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    head, _, data = data_uri(pixels).partition(",")
    assert (head, base64.b64decode(data)) == ("data:image/png;base64", png(pixels))
    with Image.open(io.BytesIO(png(pixels))) as image:
        assert image.mode == {1: "L", 3: "RGB"}[shape[2]]
        np.testing.assert_array_equal(np.asarray(image).reshape(shape), pixels)


def test_no_pixels() -> None:
    with pytest.raises(ValueError, match=r"pixels must be uint8\[height, width, 1 or 3\], not uint8\[2, 2, 4\]"):
        png(np.zeros((2, 2, 4), np.uint8))


def test_a_row_is_shown_from_its_smallest_to_its_largest_element() -> None:
    row = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5) - 7
    found = picture_of(row)
    assert found is not None
    np.testing.assert_array_equal(found, np.rint(np.moveaxis(row[0] + 7, 0, -1) / 59 * 255).astype(np.uint8))
    last = picture_of(np.moveaxis(row, 1, -1))
    assert last is not None
    np.testing.assert_array_equal(last, found)
    grey = picture_of(row[:, 0])
    assert grey is not None
    assert (grey.shape, grey.min(), grey.max()) == ((4, 5, 1), 0, 255)
    bytes_ = np.full((1, 1, 4, 4), 9, np.uint8)
    assert picture_of(bytes_).tolist() == np.full((4, 4, 1), 9).tolist()  # type: ignore[union-attr]


def test_a_large_picture_is_made_of_means() -> None:
    row = np.zeros((1, 1, 100, 4 * MOST_PIXELS), np.uint8)
    row[0, 0, :4, :4] = np.arange(16).reshape(4, 4)
    found = picture_of(row)
    assert found is not None
    assert (found.shape, found[0, 0, 0]) == ((25, MOST_PIXELS, 1), 8)


@pytest.mark.parametrize("row", [
    np.zeros((1, 10)), np.zeros((1, 2, 8, 8)), np.zeros((1, 1, 1, 490)), np.zeros((2, 8, 8)),
    np.array([[["a"] * 8] * 8])])
def test_what_is_no_picture(row: np.ndarray) -> None:
    assert picture_of(row) is None


def test_numbers_that_are_none() -> None:
    for value in (np.nan, np.inf, 1e308):
        row = np.zeros((1, 1, 4, 4))
        row[0, 0, 0, :2] = value, -1e308
        assert picture_of(row) is not None
    assert picture_of(np.full((1, 1, 4, 4), np.nan)).max() == 127  # type: ignore[union-attr]
