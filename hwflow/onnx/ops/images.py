"""ImageDecoder: pictures in files become tensors.  The decoders are those of Pillow, an optional dependency."""

from __future__ import annotations

import importlib
import io
import warnings
from types import ModuleType

import numpy as np

from hwflow.onnx.errors import Unsupported
from hwflow.onnx.ops.base import Arr, Call, Operator, Table

#: The formats that the operator has, as Pillow calls them; no other decoder sees the data.
_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")


def _pillow(call: Call) -> ModuleType:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise Unsupported(
            f"{call.path} {call.node.label}: the package 'pillow' must be installed to decode pictures, "
            "not be missing", "`pip install hwflow[images]`, or decode them in front of the model"
        ) from None


def _image_decoder(call: Call, stream: Arr) -> Arr:
    """uint8 [height, width, channels].  What cannot be decoded gives a tensor without elements, as the text has it."""
    layout = call.text("pixel_format")
    if stream.ndim != 1 or layout not in ("RGB", "BGR", "Grayscale"):
        raise call.error(
            f"the stream must have one axis and 'pixel_format' be RGB, BGR or Grayscale, "
            f"not {list(stream.shape)} and {layout!r}"
        )
    pillow, channels = _pillow(call), 1 if layout == "Grayscale" else 3
    data = io.BytesIO(stream.astype(np.uint8).tobytes())
    try:
        # Pillow warns of large pictures; here the limits judge them.
        with warnings.catch_warnings(action="ignore"), pillow.open(data, formats=_FORMATS) as picture:
            width, height = picture.size
            # The size stands in the header: it is compared before the elements are decoded.
            call.check_size((height, width, 4), np.dtype(np.uint8))
            call.work(height * width * channels)
            decoded = np.asarray(picture.convert("L" if channels == 1 else "RGB"))
    except (OSError, ValueError, SyntaxError, EOFError, pillow.DecompressionBombError):
        return np.empty((0, 0, channels), np.uint8)
    if channels == 1:
        return decoded.reshape(height, width, 1)
    return decoded[:, :, ::-1] if layout == "BGR" else decoded


OPERATORS: Table = {
    ("", "ImageDecoder"): (Operator(20, _image_decoder, None),),
}
