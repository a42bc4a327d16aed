"""The frames that a simulation plays: rows of the data, or random integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from hwflow_base.files.cache import content, digest

from .. import golden
from ..data.dataset import Dataset
from ..layers.base import LayerGraph
from ..layers.formats import Tensor
from ..quantize import Quantized

#: int64[n, height, width, channels].
Frames = npt.NDArray[np.int64]


def stimuli(quantized: Quantized, dataset: Dataset | None, count: int, seed: int,
            say: Callable[[str], None]) -> dict[str, Frames]:
    """`count` frames of each input of the integer graph by name: of the first rows of the data, repeated where there
    are fewer; without data random ones that `seed` decides.  `say` hears of both."""
    if dataset is None:
        say(f"no data: {count} frames of random integers are simulated; give real ones with --data")
        random, graph = np.random.default_rng(seed), quantized.graph
        return {name: noise(graph.tensors[name], count, random) for name in graph.inputs}
    rows = golden.run_prologue(quantized, dataset.first(count).inputs)
    there = min(map(len, rows.values()))
    if there < count:
        say(f"the data has {there} of the {count} frames to simulate; they are repeated")
    return {name: array[np.arange(count) % there] for name, array in rows.items()}


def frames_digest(frames: Mapping[str, npt.NDArray[Any]]) -> str:
    """SHA-256 over frames [n, height, width, channels] of integers by tensor, whatever their type in memory is."""
    return digest(*(part for name, array in frames.items()
                    for part in (name, content(np.ascontiguousarray(array, np.dtype("<i8"))))))


def ends_digests(graph: LayerGraph, frames: Mapping[str, npt.NDArray[Any]]) -> tuple[str, str]:
    """The digests of what goes into `graph`, and of what comes out of it."""
    played, results = (frames_digest({name: frames[name] for name in names}) for names in (graph.inputs, graph.outputs))
    return played, results


def noise(tensor: Tensor, count: int, random: np.random.Generator) -> Frames:
    """Integers of the tensor's format."""
    shape, step = (count, tensor.frame.height, tensor.frame.width, tensor.frame.channels), tensor.format.step
    codes = random.integers(0, (tensor.format.high - tensor.format.low) // step, shape, dtype=np.int64, endpoint=True)
    return codes * step + tensor.format.low
