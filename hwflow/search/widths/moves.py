"""Steps of the search from one design to others, as places in the knobs' widths: one width narrower, and repairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwflow.search.widths.knobs import Knob
from hwflow.search.widths.surrogate import Floats, Indices, Surrogate

#: A repair ends at the noise at which accuracy passes the limit, times these: the odds are even, or worse.
REPAIRED_TO = (1.0, 1.25, 1.6, 2.0)


def narrower(knobs: Sequence[Knob], places: Indices) -> tuple[Indices, Indices]:
    """Every design with one width narrower than at `places` [knobs]: [n, knobs], and which knob it was: [n]."""
    rows, turned = [], []
    for k, knob in enumerate(knobs):
        for place in range(int(places[k]) + 1, len(knob.widths)):
            row = places.copy()
            row[k] = place
            rows.append(row)
            turned.append(k)
    return np.array(rows, np.int64).reshape(len(rows), len(knobs)), np.array(turned, np.int64)


def steps_from(knobs: Sequence[Knob], surrogate: Surrogate, places: Indices, allowed: float) -> Indices:
    """[n, knobs]: designs with one width narrower, those with another one or two bits wider, and those repaired.

    `allowed` is the noise of the surrogate at which accuracy passes the limit.
    """
    plain, turned = narrower(knobs, places)
    rows = [plain]
    for k in range(len(knobs)):
        for wider in (1, 2):
            if places[k] >= wider:
                also = plain[turned != k]
                also[:, k] -= wider
                rows.append(also)
    highest = float(surrogate.price(places[None])[0])
    if allowed > 0:
        rows += [_repaired(surrogate, plain, turned, allowed * share, highest) for share in REPAIRED_TO]
    return np.concatenate(rows)


def _repaired(surrogate: Surrogate, rows: Indices, turned: Indices, allowed: float, highest: float) -> Indices:
    """`rows` with widths other than the `turned` ones made wider until the noise is `allowed`.

    Each time the bit that takes most noise away for what it costs.  Rows that come to cost `highest` are given up.
    """
    done: list[Indices] = []
    while len(rows):
        noise, price = surrogate.noise(rows), surrogate.price(rows)
        good, hopeless = noise <= allowed, price >= highest
        done.append(rows[good & ~hopeless])
        open_ = ~good & ~hopeless
        rows, turned = rows[open_], turned[open_]
        chosen = _widened(surrogate, rows, turned, noise[open_], price[open_])
        changed = (chosen != rows).any(axis=1)
        rows, turned = chosen[changed], turned[changed]
    return np.concatenate(done) if done else rows


def _widened(surrogate: Surrogate, rows: Indices, turned: Indices, noise: Floats, price: Floats) -> Indices:
    """Each row with the bit that is worth most; as it was where there is none."""
    count, knobs = rows.shape
    wider = np.repeat(rows[:, None], knobs, axis=1)
    each = np.arange(knobs)
    wider[:, each, each] -= 1
    barred = (wider[:, each, each] < 0) | (turned[:, None] == each)
    wider = np.maximum(wider, 0).reshape(count * knobs, knobs)
    less = noise[:, None] - surrogate.noise(wider).reshape(count, knobs)
    more = surrogate.price(wider).reshape(count, knobs) - price[:, None]
    worth = np.where(barred | (less <= 0), -1.0, less / np.maximum(more, 1e-12))
    best = worth.argmax(axis=1)
    found = wider.reshape(count, knobs, knobs)[np.arange(count), best]
    return np.where((worth.max(axis=1) > 0)[:, None], found, rows)
