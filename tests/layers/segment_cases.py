"""Random functions in straight segments: any blocks, lines whose ends are inside of the output's format."""

from __future__ import annotations

import numpy as np

from hwflow.layers import IntFormat, Segments


def random_segments(rng: np.random.Generator, name: str, source: str, output: str, x: IntFormat, y: IntFormat,
                    octaves: bool | None = None) -> Segments:
    """Any one from elements of format `x` to those of format `y`; with octaves where they say so, or at random."""
    octaves = bool(rng.integers(2)) if octaves is None else octaves
    index = int(rng.integers(0, min(4, x.bits) + 1))
    fraction = int(rng.integers(0, 13)) if octaves else x.bits - index
    origin = int(rng.integers(max(x.low, -9), min(x.high, 9) + 1)) if octaves else 0
    magnitude = max(x.high - origin, origin - 1 - x.low, 1).bit_length()
    count = 1 << index
    if octaves:
        count <<= magnitude.bit_length() + (x.low < origin)
    zooms = -np.sort(-rng.integers(0, min(4, fraction) + 1, count))
    starts = np.concatenate([[0], np.cumsum(1 << zooms)[:-1]])
    shift = int(rng.integers(0, 5))
    ends = rng.integers(y.low << shift, (y.high + 1) << shift, (int((1 << zooms).sum()), 2))
    order = rng.permutation(count)
    blocks = np.stack([starts[order], zooms[order]], axis=1)
    lines = np.stack([ends[:, 0], ends[:, 1] - ends[:, 0]], axis=1)
    return Segments(name, (source,), output, x, octaves, origin, index, fraction, blocks, lines, shift, 0)
