"""The kinds of integer layers.  To add a kind, write a file in this folder and add one entry to `KINDS`."""

from __future__ import annotations

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.concat import Concat
from hwflow.layers.conv import Conv
from hwflow.layers.dense import Dense
from hwflow.layers.elementwise import Add, Multiply
from hwflow.layers.formats import Frame, IntArray, IntFormat, Tensor
from hwflow.layers.interpolate import Interpolate
from hwflow.layers.matmul import MatMul
from hwflow.layers.normalize import Normalize
from hwflow.layers.pixels import RunningSum, TopK
from hwflow.layers.pools import AveragePool, MaxPool
from hwflow.layers.rearrange import Rearrange
from hwflow.layers.recurrent import Recurrent
from hwflow.layers.rescale import Requantize
from hwflow.layers.segments import Segments
from hwflow.layers.softmax import Softmax
from hwflow.layers.tables import Embedding, Lookup
from hwflow.layers.trees import Trees
from hwflow.layers.write_row import WriteRow

__all__ = [
    "KINDS",
    "Add",
    "AveragePool",
    "Concat",
    "Conv",
    "Dense",
    "Embedding",
    "Frame",
    "IntArray",
    "IntFormat",
    "Interpolate",
    "Layer",
    "LayerGraph",
    "Lookup",
    "MatMul",
    "MaxPool",
    "Multiply",
    "Normalize",
    "Rearrange",
    "Recurrent",
    "Requantize",
    "RunningSum",
    "Segments",
    "Softmax",
    "Tensor",
    "TopK",
    "Trees",
    "WriteRow",
]

#: Every kind of layer.
KINDS: tuple[type[Layer], ...] = (
    Conv, Dense, MaxPool, AveragePool, Lookup, Segments, Embedding, Add, Multiply, Concat, Rearrange, TopK, RunningSum,
    MatMul, Softmax, Normalize,
    Recurrent,
    Trees,
    WriteRow,
    Interpolate,
)  # fmt: skip
