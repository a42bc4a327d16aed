"""What the importer knows about a tensor of a QDQ graph while it walks through it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.window import Window
from hwflow.onnx.model import Node
from hwflow.quantize.constants import Quantity

__all__ = [
    "Average",
    "Broken",
    "Entry",
    "Held",
    "Matrix",
    "OnHost",
    "Pending",
    "State",
    "Table",
    "image_index",
]


@dataclass(frozen=True)
class OnHost:
    """Computed on the host: in front of the hardware (`behind` False) or behind it."""

    behind: bool


@dataclass(frozen=True)
class Entry:
    """The dequantized view of an integer tensor that the host makes; it enters the hardware where it is first used."""

    integers: str
    shape: tuple[int, ...]
    format: IntFormat
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Held:
    """A tensor of the layer graph.  `real` says whether ONNX sees its integers or their dequantized values.

    `index` has the ONNX tensor's shape; an entry is the element's place in the raster of the frame.
    """

    tensor: str
    index: IntArray
    real: bool


@dataclass(frozen=True)
class Pending:
    """A result that is not integer yet, of `frame`: it waits for its QuantizeLinear."""

    node: Node
    source: Held
    frame: Frame
    index: IntArray


@dataclass(frozen=True)
class Matrix(Pending):
    """Of a Conv (`window` and `groups` set, weights [cout, kh, kw, cin / groups]) or a dense layer ([cout, cin]).

    `weights` are integers without zero point, `scales` [cout] theirs; `biases` are added, then `low` and `high` limit.
    """

    weights: IntArray
    scales: npt.NDArray[np.float64]
    bits: int
    window: Window | None
    groups: int
    biases: tuple[Quantity, ...] = ()
    low: float = -np.inf
    high: float = np.inf

    def limited(self, low: float, high: float) -> Matrix:
        """Behind a Relu or Clip."""
        return replace(self, low=min(max(self.low, low), high), high=min(max(self.high, low), high))


@dataclass(frozen=True)
class Average(Pending):
    """Of an average pool."""

    window: Window
    low: float = -np.inf
    high: float = np.inf

    def limited(self, low: float, high: float) -> Average:
        """Behind a Relu or Clip."""
        return replace(self, low=min(max(self.low, low), high), high=min(max(self.high, low), high))


@dataclass(frozen=True)
class Table(Pending):
    """Of functions of one element, applied one after another; none at all for a change of scale."""

    functions: tuple[Node, ...]


@dataclass(frozen=True)
class Broken:
    """Behind a node that was reported; nothing more is said about it."""


State = OnHost | Entry | Held | Pending | Broken


def image_index(frame: Frame, rank: int) -> IntArray:
    """The index of a frame that ONNX sees as [1, C, H, W], [1, C, W] or [1, C], by rank."""
    raster = np.arange(frame.elements, dtype=np.int64).reshape(frame.height, frame.width, frame.channels)
    image = np.transpose(raster, (2, 0, 1))
    spatial = (frame.height, frame.width)[4 - rank :] if rank < 4 else (frame.height, frame.width)
    return image.reshape(1, frame.channels, *spatial)
