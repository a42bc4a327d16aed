"""ImageDecoder: pictures written here, byte by byte, so that every element is known."""

from __future__ import annotations

import struct
import sys
import zlib

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx.errors import LimitError, Unsupported
from hwflow.onnx.limits import Limits
from tests.onnx.single import evaluated

PICTURE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 13


def png(pixels: np.ndarray, height: int | None = None) -> bytes:
    """A PNG without filters; `height` overrides that in the header."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows, columns, _ = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows if height is None else height, 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def ppm(pixels: np.ndarray) -> bytes:
    return b"P6 %d %d 255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()


def bmp(pixels: np.ndarray) -> bytes:
    """Rows from the bottom up, blue first, padded to four bytes."""
    rows, columns, _ = pixels.shape
    lines = b"".join(row[:, ::-1].tobytes().ljust(-(-columns * 3 // 4) * 4, b"\0") for row in pixels[::-1])
    info = struct.pack("<IiiHHIIiiII", 40, columns, rows, 1, 24, 0, len(lines), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(lines), 0, 0, 54) + info + lines


def stream(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("written", [png, ppm, bmp])
def test_colours(written) -> None:
    pytest.importorskip("PIL")
    assert np.array_equal(evaluated("ImageDecoder", stream(written(PICTURE))), PICTURE)
    assert np.array_equal(evaluated("ImageDecoder", stream(written(PICTURE)), pixel_format="BGR"), PICTURE[:, :, ::-1])


def test_gray() -> None:
    """Luma by ITU-R BT.601."""
    pytest.importorskip("PIL")
    found = evaluated("ImageDecoder", stream(png(PICTURE)), pixel_format="Grayscale")
    wanted = PICTURE.astype(np.float64) @ [0.299, 0.587, 0.114]
    assert found.shape == (2, 3, 1)
    np.testing.assert_allclose(found[:, :, 0], wanted, atol=1)


@pytest.mark.parametrize("data", [b"", b"no picture", png(PICTURE)[:40], b"GIF89a" + bytes(40)])
def test_what_cannot_be_decoded(data: bytes) -> None:
    """No error: the operator gives an empty tensor."""
    pytest.importorskip("PIL")
    found = evaluated("ImageDecoder", stream(data))
    assert (found.shape, found.dtype) == ((0, 0, 3), np.uint8)


def test_a_picture_that_claims_to_be_huge() -> None:
    pytest.importorskip("PIL")
    line = np.zeros((1, 10_000, 3), np.uint8)
    with pytest.raises(LimitError, match=r"at most 1,000,000 .*, not 400,000,000"):
        evaluated("ImageDecoder", stream(png(line, height=10_000)), limits=Limits(tensor_bytes=1_000_000))
    assert evaluated("ImageDecoder", stream(png(line, height=1 << 30))).size == 0


def test_without_pillow(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(Unsupported) as caught:
        evaluated("ImageDecoder", stream(png(PICTURE)))
    assert str(caught.value) == (
        "graph/node[0] 'n' (ImageDecoder): the package 'pillow' must be installed to decode pictures, not be missing; "
        "`pip install hwflow[images]`, or decode them in front of the model"
    )


def test_a_stream_of_two_axes() -> None:
    with pytest.raises(HwflowError) as caught:
        evaluated("ImageDecoder", np.zeros((1, 2), np.uint8))
    assert str(caught.value) == (
        "graph/node[0] 'n' (ImageDecoder): the stream must have one axis and 'pixel_format' be RGB, BGR or Grayscale, "
        "not [1, 2] and 'RGB'"
    )
