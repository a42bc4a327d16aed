"""Random windows: kernel, stride, dilation and pads of one axis, free or such that a wanted size comes out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.strategies.numbers import Rng


@dataclass(frozen=True)
class Axis:
    """A window along one axis."""

    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    behind: int = 0

    def positions(self, size: int) -> int:
        """How many windows fit; 0 or less where not one does."""
        return (size + self.before + self.behind - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    def sees(self, size: int) -> bool:
        """Whether every window holds an element that is no padding."""
        return min(self.counts(size)) > 0

    def counts(self, size: int) -> list[int]:
        """For each window, how many of its elements are no padding."""
        taps = np.arange(self.kernel) * self.dilation - self.before
        starts = np.arange(self.positions(size))[:, None] * self.stride
        found: list[int] = ((starts + taps >= 0) & (starts + taps < size)).sum(axis=1).tolist()
        return found


def any_axis(rng: Rng, size: int, *, pads: bool = True, most: int = 5) -> Axis:
    """Any window that fits at least once and sees elements from everywhere; most often of 1 or 3 taps."""
    for _ in range(30):
        kernel = int(rng.choice([1, 3])) if rng.random() < 0.5 else int(rng.integers(1, most + 1))
        dilation = int(rng.integers(1, 4)) if rng.random() < 0.2 else 1
        stride = int(rng.integers(1, 4)) if rng.random() < 0.4 else 1
        before, behind = (int(n) for n in rng.integers(0, dilation * (kernel - 1) + 1, 2)) if pads else (0, 0)
        if pads and rng.random() < 0.3:
            before = behind = dilation * (kernel - 1) // 2
        axis = Axis(kernel, stride, dilation, before, behind)
        if axis.positions(size) >= 1 and axis.sees(size):
            return axis
    return Axis(1)


def axis_to(rng: Rng, size: int, wanted: int, *, pads: bool = True) -> Axis:
    """A window that fits `wanted` times.  ValueError where only padding could do it and there is none."""
    found = []
    for _ in range(60):
        axis = any_axis(rng, size, pads=pads)
        if axis.positions(size) == wanted:
            found.append(axis)
            if len(found) == 3:
                break
    if found:
        return found[int(rng.integers(len(found)))]
    if wanted <= size:
        return Axis(size - wanted + 1)
    if not pads:
        raise ValueError(f"{wanted} windows over {size} elements need padding")
    missing = wanted - size
    return Axis(1, before=missing // 2, behind=missing - missing // 2)


def classes_of(axis: Axis, size: int) -> tuple[int, ...]:
    """For each window its class: those of one class count as many elements that are no padding."""
    counts = axis.counts(size)
    order = sorted(set(counts), reverse=True)
    return tuple(order.index(count) for count in counts)


def both(rows: Axis, columns: Axis) -> dict[str, tuple[int, ...]]:
    """The fields of a layer with a window."""
    return {
        "strides": (rows.stride, columns.stride), "dilations": (rows.dilation, columns.dilation),
        "pads": (rows.before, columns.before, rows.behind, columns.behind)}
