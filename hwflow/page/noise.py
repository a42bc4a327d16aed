"""Pictures and tables of the noise of layers: how far tensors are from reals, and what their values are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from ..accuracy import Histogram, LayerNoise, most_harmful
from ..report.accuracy import decibels_text, share_text, steps_text
from ..report.numbers import number
from ..report.texts import shortened
from .axis import Axis
from .bars import Piece, Row, bars
from .chart import Line, Rule, plot
from .svg import element
from .table import Cell, table

__all__ = ["histograms", "layer_bars", "layer_table"]

#: Characters of a name, and tensors whose histograms are drawn: a picture has some 6 kB.
LONGEST, MOST_HISTOGRAMS = 40, 64
#: So many histograms are seen at once; with more they are folded away.
MOST_OPEN = 12
#: Size of a histogram in pixels.
WIDTH, HEIGHT = 330.0, 230.0


def name_of(noise: LayerNoise) -> str:
    return noise.layer or f"input {noise.source or noise.tensor}"


def layer_bars(noises: Sequence[LayerNoise], links: Mapping[str, str]) -> Markup:
    """The signal to noise of each layer's output as a bar; `links` leads from layers to their stages.

    Nothing where no layer has noise that was measured.
    """
    known = [noise for noise in noises if noise.snr_db is not None]
    if not known:
        return Markup("")
    harmful = most_harmful(noises)
    rows = []
    for noise in known:
        marked, decibels = noise is harmful, noise.snr_db or 0.0
        hint = f"{name_of(noise)}: {decibels:.1f} dB{', adds most noise' if marked else ''}"
        piece = Piece(max(decibels, 0.0), "bad" if marked else "s1", hint)
        rows.append(Row(name_of(noise), [[piece]], [f"{decibels:.1f}{' adds most' if marked else ''}"],
                        links.get(noise.layer)))
    worst = min(known, key=lambda noise: noise.snr_db or 0.0)
    text = (f"Signal to noise of {len(known)} tensors in decibels; the lowest is {worst.snr_db:.1f} at "
            f"{name_of(worst)}")
    axis = Axis.of("signal to noise, dB", [max(noise.snr_db or 0.0, 0.0) for noise in known])
    return bars("Signal to noise of each layer's output: integers against reals", text, rows, axis,
                names={"s1": "layer", "bad": "the layer that adds most noise"} if harmful in known else None)


def layer_table(noises: Sequence[LayerNoise], rows: int) -> Markup:
    """The numbers of all tensors, on so many rows of the data."""
    harmful, mark = most_harmful(noises), element("b", " adds most noise")
    head = ("layer", "kind", "weights", "output", "SNR dB", "mean error", "largest error", "saturated", "range used",
            "smallest", "largest")
    lines: list[list[Cell | Markup | str]] = [[
        element("span", shortened(name_of(noise), LONGEST), mark if noise is harmful else None, class_="named",
                title=name_of(noise)),
        element("span", noise.kind, class_="whole"), noise.weights, noise.activations,
        Cell(decibels_text(noise), noise.snr_db), Cell(steps_text(noise, noise.bias), noise.bias),
        Cell(steps_text(noise, noise.largest), noise.largest),
        Cell("" if noise.saturated is None else share_text(noise.saturated), noise.saturated),
        *range_cells(noise.histogram)] for noise in noises]
    caption = f"Integers against reals, layer by layer, on {number(rows)} rows; errors in steps of the layer's output"
    return table(head, lines, caption=caption)


def range_cells(histogram: Histogram | None) -> tuple[Cell, Cell, Cell]:
    """How much of the integers is used, and the ends of the real values."""
    if histogram is None:
        return Cell(""), Cell(""), Cell("")
    ends = [Cell("" if end is None else f"{end:.4g}", end) for end in (histogram.smallest, histogram.largest)]
    return Cell(share_text(histogram.used), histogram.used), ends[0], ends[1]


def histograms(noises: Sequence[LayerNoise], rows: int) -> Markup:
    """The values of each tensor against what its format can hold; of many the ones with the most noise."""
    known = [noise for noise in noises if noise.histogram is not None and any(noise.histogram.integers)]
    noisiest = sorted(known, key=lambda noise: -(noise.ratio or 0.0))[:MOST_HISTOGRAMS]
    drawn = [noise for noise in known if noise in noisiest]
    pictures = element("div", *(histogram_of(noise, noise.histogram) for noise in drawn if noise.histogram),
                       class_="histograms")
    if not drawn:
        return Markup("")
    said = element("p", "The share of a tensor's elements in each range of values, on a logarithmic axis, on "
                   f"{number(rows)} rows. The upright lines are the smallest and the largest number that the format "
                   "can hold: real values beyond them saturate.", class_="note")
    if len(drawn) < len(known):
        said += element("p", f"Drawn are the {len(drawn)} tensors with the most noise, of {len(known)}.", class_="note")
    if len(drawn) > MOST_OPEN:
        pictures = element("details", element("summary", f"{len(drawn)} histograms"), pictures)
    return element("h3", "Activations against their formats") + said + pictures


def histogram_of(noise: LayerNoise, found: Histogram) -> Markup:
    """Integers as a line, reals as a dashed one; what saturates has a bin of its own beyond each end."""
    size = found.scale * found.width
    low = found.scale * (found.low - 0.5 - found.zero_point)
    high = low + size * len(found.integers)
    total = sum(found.integers)
    x = Axis(f"value ({noise.activations})", low - 2 * size, high + 2 * size)
    y = Axis.of("% of elements", [30 / max(total, sum(found.reals), 1), 100.0], log=True)
    outline = steps([0, *found.integers, 0], total, low - size, size)
    marks: list[Line | Rule] = [Line("integer model", outline, step=True)]
    if found.reals:
        counts = [found.below, *found.reals, found.above]
        marks.append(Line("model in reals", steps(counts, sum(counts), low - size, size), step=True, dashed=True))
    marks += [Rule("", x=low), Rule("", x=high)]
    saturated = "" if noise.saturated is None else f"; {share_text(noise.saturated)} of the real values saturate"
    text = (f"Values of {name_of(noise)} in {noise.activations}: the format holds {low + 0.5 * found.scale:.4g} to "
            f"{high - 0.5 * found.scale:.4g}, {share_text(found.used)} of it used{saturated}")
    return plot(shortened(name_of(noise), LONGEST), text, x, y, marks, width=WIDTH, height=HEIGHT)


def steps(counts: Sequence[int], total: int, start: float, size: float) -> list[tuple[float, float]]:
    """The outline of bins of one size from `start` on, as per cent of `total`."""
    shares = [100 * count / total if total else 0.0 for count in counts]
    return [*((start + k * size, share) for k, share in enumerate(shares)), (start + len(shares) * size, shares[-1])]
