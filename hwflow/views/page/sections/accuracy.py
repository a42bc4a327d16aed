"""The section on accuracy: both models side by side, noise by layer, confused classes, the worst rows."""

from __future__ import annotations

import base64
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hwflow_base.files.facts import of_plain
from hwflow_base.printable import number, percent, shortened
from markupsafe import Markup

from hwflow.accuracy import Accuracy, Histogram, LayerNoise, OutputNoise, Pair, Task, WorstRow, most_harmful
from hwflow.data.pictures import MOST_PIXELS
from hwflow.outcome import OutcomeWarning
from hwflow.pipeline.records import ACCURACY, Record
from hwflow.quantize.chosen import Chosen

from ...console.accuracy import (
    apart_text,
    decibels_text,
    kind_text,
    lost_text,
    share_text,
    steps_text,
    value_text,
    whole_text,
)
from ..bars import Piece, Row, bars
from ..chart import Axis, Line, Rule, figure, picture, plot
from ..markup import (
    Cell,
    class_of,
    element,
    folded,
    label,
    measure,
    note,
    short,
    stage_anchor,
    table,
    text_width,
    tiles,
    verdict,
)
from ..subject import Section, Subject, found, when

# Pictures and tables of the noise of layers: how far tensors are from reals, and what their values are.


#: Characters of a name, and tensors whose histograms are drawn: a picture has some 6 kB.
LONGEST, MOST_HISTOGRAMS = 40, 64
#: So many histograms are seen at once; with more they are folded away.
MOST_OPEN = 12
#: Size of a histogram in pixels.
SIZE = 330.0, 230.0


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
    return (Cell(share_text(histogram.used), histogram.used), measure(histogram.smallest, ".4g"),
            measure(histogram.largest, ".4g"))


def histograms(noises: Sequence[LayerNoise], rows: int) -> Markup:
    """The values of each tensor against what its format can hold; of many the ones with the most noise."""
    known = [noise for noise in noises if noise.histogram is not None and any(noise.histogram.integers)]
    noisiest = sorted(known, key=lambda noise: -(noise.ratio or 0.0))[:MOST_HISTOGRAMS]
    drawn = [noise for noise in known if noise in noisiest]
    pictures = element("div", *(histogram_of(noise, noise.histogram) for noise in drawn if noise.histogram),
                       class_="histograms")
    if not drawn:
        return Markup("")
    said = note("The share of a tensor's elements in each range of values, on a logarithmic axis, on "
                f"{number(rows)} rows. The upright lines are the smallest and the largest number that the format "
                "can hold: real values beyond them saturate.")
    if len(drawn) < len(known):
        said += note(f"Drawn are the {len(drawn)} tensors with the most noise, of {len(known)}.")
    if len(drawn) > MOST_OPEN:
        pictures = folded(f"{len(drawn)} histograms", pictures)
    return element("h3", "Activations against their formats") + said + pictures


def histogram_of(noise: LayerNoise, histogram: Histogram) -> Markup:
    """Integers as a line, reals as a dashed one; what saturates has a bin of its own beyond each end."""
    size = histogram.scale * histogram.width
    low = histogram.scale * (histogram.low - 0.5 - histogram.zero_point)
    high = low + size * len(histogram.integers)
    total = sum(histogram.integers)
    x = Axis(f"value ({noise.activations})", low - 2 * size, high + 2 * size)
    y = Axis.of("% of elements", [30 / max(total, sum(histogram.reals), 1), 100.0], log=True)
    outline = steps([0, *histogram.integers, 0], total, low - size, size)
    marks: list[Line | Rule] = [Line("integer model", outline, step=True)]
    if histogram.reals:
        counts = [histogram.below, *histogram.reals, histogram.above]
        marks.append(Line("model in reals", steps(counts, sum(counts), low - size, size), step=True, dashed=True))
    marks += [Rule("", x=low), Rule("", x=high)]
    saturated = "" if noise.saturated is None else f"; {share_text(noise.saturated)} of the real values saturate"
    text = (f"Values of {name_of(noise)} in {noise.activations}: the format holds {low + 0.5 * histogram.scale:.4g} to "
            f"{high - 0.5 * histogram.scale:.4g}, {share_text(histogram.used)} of it used{saturated}")
    return plot(shortened(name_of(noise), LONGEST), text, x, y, marks, size=SIZE)


def steps(counts: Sequence[int], total: int, start: float, size: float) -> list[tuple[float, float]]:
    """The outline of bins of one size from `start` on, as per cent of `total`."""
    shares = [100 * count / total if total else 0.0 for count in counts]
    return [*((start + k * size, share) for k, share in enumerate(shares)), (start + len(shares) * size, shares[-1])]


# A matrix of counts, as a confusion matrix: the darker a cell, the larger its share of its row.


#: Sizes in pixels: of a cell between both, of the font.
LEAST, MOST, WHOLE, FONT = 9.0, 34.0, 560.0, 11.0
#: The smallest cell with a number in it, and characters of a name.
WITH_NUMBER, LONGEST_CLASS = 22.0, 16
#: Shares from which on a cell has the class `h1`, `h2`, ... `h9`.
SHADES = tuple(k / 10 for k in range(1, 10))


def heat_map(title: str, text: str, counts: Sequence[Sequence[int]], names: Sequence[str], *, rows: str, columns: str,
             ) -> Markup:
    """A figure of `counts[row][column]`, square: row and column k have `names[k]`; what is on the diagonal is right.

    `rows` and `columns` say what these are, as "label" and "answer"; `text` says in words what the picture shows.
    """
    count = len(names)
    size = min(MOST, max(LEAST, WHOLE / max(count, 1)))
    left = 40 + max((text_width(name[:LONGEST_CLASS], FONT) for name in names), default=0.0)
    top = left - 10
    labels = [element("text", columns, x=left + count * size / 2, y=14.0, text_anchor="middle", class_="name"),
              element("text", rows, x=13.0, y=top + count * size / 2, text_anchor="middle", class_="name",
                      transform=f"rotate(-90 13 {top + count * size / 2:.1f})")]
    for k, name in enumerate(names):
        middle = (k + 0.5) * size
        labels += [label(name, LONGEST_CLASS, x=left - 6, y=top + middle + 4, text_anchor="end"),
                   label(name, LONGEST_CLASS, x=left + middle + 4, y=top - 6,
                         transform=f"rotate(-90 {left + middle + 4:.1f} {top - 6:.1f})")]
    cells = [cell(value, sum(line), (left + column * size, top + row * size), size,
                  "right" if row == column else "wrong",
                  f"{rows} {names[row]}, {columns} {names[column]}: {value} of {sum(line)}")
             for row, line in enumerate(counts) for column, value in enumerate(line)]
    extent = left + count * size + 10, top + count * size + 10
    return figure(title, picture(text, *extent, element("g", *labels, class_="axes"),
                                 element("g", *cells, class_="heat")))


def cell(value: int, total: int, corner: tuple[float, float], size: float, tone: str, hint: str) -> Markup:
    (x, y), share = corner, value / total if total else 0.0
    shade = sum(share >= least for least in SHADES)
    number = None
    if size >= WITH_NUMBER and value:
        number = element("text", short(value), x=x + size / 2, y=y + size / 2 + 4, text_anchor="middle")
    return element("g", element("title", hint), element("rect", x=x, y=y, width=size - 1, height=size - 1), number,
                   class_=class_of(tone, f"h{shade}" if value else "none"))


# Which classes are taken for which: a matrix of the integer model, or the pairs that are confused most.


#: With more classes, the pairs that are confused most are shown instead of the matrix.
MOST_CLASSES, MOST_PAIRS = 40, 20


def confusion(accuracy: Accuracy) -> Markup:
    """Nothing where the data has no labels that name classes."""
    if not accuracy.confusion:
        return Markup("")
    there = sorted({name for pair in accuracy.confusion for name in (pair.label, pair.found)})
    names = list(range(accuracy.classes)) if 0 < accuracy.classes <= MOST_CLASSES else there
    wrong = [pair for pair in accuracy.confusion if pair.label != pair.found and (pair.real or pair.integer)]
    called = accuracy.class_name
    pairs = table(("label", "answer", "rows, integer", "rows, float"),
                  [(called(p.label), called(p.found), p.integer, p.real) for p in most(wrong)],
                  caption="Classes that are confused") if wrong else note(
                      "Neither model confuses any classes.")
    more = Markup("") if len(wrong) <= MOST_PAIRS else note(
        f"Shown are the {MOST_PAIRS} most frequent of {len(wrong)} pairs.")
    picture = matrix(accuracy, names) if len(names) <= MOST_CLASSES else Markup("")
    return element("h3", "Which classes are confused") + element("div", picture, element("div", pairs, more),
                                                                 class_="beside")


def most(wrong: list[Pair]) -> list[Pair]:
    """The most frequent ones of the integer model, then of the float model."""
    return sorted(wrong, key=lambda pair: (-pair.integer, -pair.real, pair.label, pair.found))[:MOST_PAIRS]


def matrix(accuracy: Accuracy, names: list[int]) -> Markup:
    cells: defaultdict[tuple[int, int], int] = defaultdict(int)
    cells.update({(pair.label, pair.found): pair.integer for pair in accuracy.confusion})
    counts = [[cells[label, answer] for answer in names] for label in names]
    right, total = sum(counts[k][k] for k in range(len(names))), sum(map(sum, counts))
    text = f"Confusion matrix of the integer model over {len(names)} classes: {right} of {total} rows are right"
    return heat_map("Answers of the integer model by label", text, counts, list(map(accuracy.class_name, names)),
                    rows="label", columns="answer")


# Pictures as PNG files inside of a page.  The standard library has all that it takes to write one (zlib, CRC-32), so a
# page needs no library for pictures.
# The form is that of the PNG specification, third edition (W3C, 2025): signature, IHDR, IDAT, IEND.


SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Colour types by number of channels: greyscale, and red, green and blue.
COLOURS = {1: 0, 3: 2}


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG file of uint8[height, width, 1 or 3], both at least 1.  ValueError for another array."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in COLOURS or not pixels.size:
        raise ValueError(f"pixels must be uint8[height, width, 1 or 3], not {pixels.dtype}{list(pixels.shape)}")
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # the byte before each line: filter 0, none
    lines[:, 1:] = pixels.reshape(height, -1)
    return SIGNATURE + b"".join((
        chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)), chunk(b"IEND", b"")))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def data_uri(pixels: npt.NDArray[np.uint8]) -> str:
    """The same as the source of an image in HTML; its characters are letters, digits and `:;,/+=`."""
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"


# The rows of the data on which the integer model is worst, with their inputs as pictures.


#: Pixels of the page that a picture takes at least, on its longer side: each of its own is then a square of several.
SHOWN = 96
#: What the answers of a task are called.
ANSWERS = {Task.CLASSES: "label", Task.SCORE: "label", Task.RECONSTRUCTION: "label", Task.VALUES: "expected"}


def worst_rows(accuracy: Accuracy, pictures: Sequence[Mapping[str, Any]]) -> Markup:
    """A picture for each row where there is one, with the answers of both models; nothing where no row is wrong."""
    if not accuracy.worst:
        return Markup("")
    sources = {int(picture["row"]): picture for picture in pictures}
    items = [element("li", element("figure", row_picture(sources.get(worst.row)), words(accuracy, worst)))
             for worst in accuracy.worst]
    how = ("First are rows that only the integer model gets wrong, then those where the models disagree, then those "
           "that both get wrong, then those with the largest error. " if accuracy.task is Task.CLASSES else "")
    shown = ("Pictures go from black, the smallest element of the row, to white, the largest; pixels of 8 bits are "
             "shown as they are.") if sources else ""
    said = f"{how}The error is the difference of the outputs, relative to the size of the float outputs. {shown}"
    return (element("h3", "The worst rows") + note(said)
            + element("ul", *items, class_="rows"))


def row_picture(source: Mapping[str, Any] | None) -> Markup | None:
    """The input of a row as an image.  ValueError where its pixels are not as many as it says."""
    if source is None:
        return None
    height, width, channels = (int(source[name]) for name in ("height", "width", "channels"))
    if not (0 < height <= MOST_PIXELS and 0 < width <= MOST_PIXELS):
        raise ValueError("a picture is too large")
    pixels = np.frombuffer(base64.b64decode(source["pixels"], validate=True), np.uint8).reshape(height, width, channels)
    factor = max(1, round(SHOWN / max(height, width)))
    said = f"Row {int(source['row'])} of input {source['input']}, {width} by {height} pixels"
    return element("img", src=data_uri(pixels), width=width * factor, height=height * factor, alt=said)


def words(accuracy: Accuracy, worst: WorstRow) -> Markup:
    """The value that is expected of the row, and what both models say."""
    lines = [element("b", f"Row {worst.row}")]
    expected = ANSWERS.get(accuracy.task)
    if expected and worst.expected is not None:
        lines.append(Markup(", {} {}").format(expected, answer(worst.expected)))
    if worst.real is not None or worst.integer is not None:
        lines.append(element("br"))
        lines.append(Markup("float {}, integer {}").format(answer(worst.real), answer(worst.integer)))
    lines.append(element("br"))
    lines.append(Markup("error {}").format("not finite" if worst.error is None else percent(worst.error, 1)))
    return element("figcaption", *lines)


def answer(value: float | None) -> str:
    """A class as it is, another number with four digits."""
    return "not finite" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}"


ANCHOR, TITLE = "accuracy", "Accuracy"


def section(subject: Subject) -> Section:
    """The integers against the float model: what `quantize`, `golden` or `sim` found on the data."""
    command = subject.command("golden") if subject.dataset else subject.command("golden", "--data", "FILE")
    record = found(subject.folder, ACCURACY, subject.integers)
    if record.other:
        return Section(ANCHOR, TITLE, note("The accuracy in the build folder was measured of other integers: of "
                                           "another model, other data for calibration, or other settings."), command)
    if record.usable is None:
        return Section(ANCHOR, TITLE, note("The accuracy of the integer model was not measured."), command)
    with record.read():
        data = record.usable.facts["data"]
        if subject.rows and data["digest"] != subject.rows:
            return Section(ANCHOR, TITLE, note("The accuracy in the build folder was measured on other rows."), command)
        body = body_of(subject, record.usable)
        layers = record.usable.facts["layers"]
    return Section(ANCHOR, TITLE, body, None if layers else subject.command("golden", "--layer-rows", "16"))


def body_of(subject: Subject, record: Record) -> Markup:
    """The whole section of a record of this model."""
    facts = record.facts
    accuracy = of_plain(facts["accuracy"], Accuracy)
    noises = of_plain(facts["layers"], tuple[LayerNoise, ...])
    links = {layer: f"#{stage_anchor(stage.name)}" for stage in subject.plan.stages for layer in stage.layers}
    source = f"{number(accuracy.rows)} rows of {facts['data']['file']}, measured on {when(record)}"
    parts = [note(source), accuracy_body(accuracy), warnings_of(facts), choices_of(subject.quantized.chosen),
             confusion(accuracy)]
    if noises:
        rows = int(facts["layer_rows"])
        parts += [element("h3", "Noise of the layers"), layer_bars(noises, links), layer_table(noises, rows),
                  histograms(noises, rows)]
    return Markup("").join([*parts, worst_rows(accuracy, facts["pictures"])])


def accuracy_body(accuracy: Accuracy) -> Markup:
    """The verdict, the measures of both models and the noise of the outputs; notebooks show the same."""
    parts = [headline_of(accuracy)]
    if accuracy.metrics:
        parts.append(table(("measure", "output", "float", "integer", "difference"), [
            (metric.name, metric.output, Cell(value_text(metric, metric.real), metric.real),
             Cell(value_text(metric, metric.integer), metric.integer), Cell(lost_text(metric), metric.lost))
            for metric in accuracy.metrics], caption=f"{accuracy.task.value} on {number(accuracy.rows)} rows"))
    for kind, caption in (("output", "Outputs"), ("state", "States and caches, none of the answers,")):
        noises = [noise for noise in accuracy.outputs if kind_text(noise) == kind]
        if noises:
            parts.append(table((kind, "against the float model", "largest error"), [
                (noise.output, Cell(apart_text(noise), noise.snr_db), _largest(noise)) for noise in noises],
                caption=f"{caption} of the integer model against those of the float model"))
    return Markup("").join(parts)


def choices_of(chosen: Chosen | None) -> Markup:
    """What quantization chose by itself; nothing where it compared nothing."""
    if chosen is None:
        return Markup("")
    lines = [(gain.choice, Cell(f"{gain.decibels:+.1f} dB", gain.decibels)) for gain in chosen.gains]
    caption = f"Choices of quantization, on {number(chosen.rows)} calibration rows held back"
    made = table(("choice", "gained"), lines, caption=caption) if lines else note(f"{caption}: the defaults stayed.")
    left = f" Not all was tried, because it takes long: {', '.join(chosen.omitted)}." if chosen.omitted else ""
    return made + note(f"What leaves the layers has {chosen.decibels:.1f} dB signal to noise there.{left}")


def _largest(noise: OutputNoise) -> Cell:
    largest = noise.largest_error
    return Cell("not finite" if largest is None else f"{largest:.4g}", largest)


def headline_of(accuracy: Accuracy) -> Markup:
    """The numbers that matter most."""
    headline, numbers = accuracy.headline, [("rows", number(accuracy.rows))]
    if headline is not None:
        numbers += [(f"{headline.name}, float", value_text(headline, headline.real)),
                    (f"{headline.name}, integer", value_text(headline, headline.integer)),
                    ("difference", lost_text(headline) or "not defined")]
    if accuracy.agreement is not None:
        numbers.append(("same class from both models", percent(accuracy.agreement, 2)))
    numbers.append(("outputs against the float model", whole_text(accuracy)))
    return tiles(numbers)


def warnings_of(facts: Mapping[str, Any]) -> Markup:
    """The warnings about these numbers."""
    warnings = of_plain(facts["warnings"], tuple[OutcomeWarning, ...])
    if not warnings:
        return Markup("")
    return verdict(f"{len(warnings)} warning{'s' if len(warnings) > 1 else ''}:", "warn") + element(
        "ul", *(element("li", str(warning)) for warning in warnings))
