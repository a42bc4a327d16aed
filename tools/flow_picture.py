"""The picture of the landing page: one digit of the example data on its way through all steps, as inline SVG.

The pixels are a row of models/digits_cnn.npz, and the bars are the scores that the golden model gives for it.  Colours
are the variables of the site, so the picture follows its light and its dark theme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

import hwflow

ROOT = Path(__file__).parent.parent

#: The row of the data that is shown: a 7.
ROW = 3
WIDTH, HEIGHT = 960, 290
#: Height of the boxes, and the upper edges of the two lanes.
BOX, TOP, BOTTOM = 76, 8, 178

#: The steps: left edge, width, name, and what they make.
STEPS = (
    (136, 112, "quantize", ("integers of", "1 to 8 bits")),
    (276, 112, "plan", ("a folding for", "each stage")),
    (416, 112, "generate", ("RTL, weights", "in ROMs")),
    (556, 112, "simulate", ("Verilator,", "with stalls")),
    (696, 112, "synthesize", ("yosys, nextpnr,", "bitstream")),
)
BOARD = (836, 112, "board", ("answers over", "USB, UDP, SPI"))
#: Where results are compared: the middle of the box, and what is compared.
COMPARED = ((612, "every stage"), (752, "the netlist"), (892, "every row"))


def picture() -> str:
    """The SVG, without an empty line, as Markdown wants it."""
    pixels, scores = example()
    parts = [
        f'<svg class="flow" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="flow-title flow-text">',
        '<title id="flow-title">From an ONNX model to a board</title>',
        '<desc id="flow-text">A digit goes through quantize, plan, generate, simulate, synthesize and the board. '
        "The golden model in numpy computes the same integers; simulation, netlist and board are compared with it."
        "</desc>",
        '<defs><marker id="flow-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>',
        *digit(pixels, 16, TOP - 4, 84), text(58, TOP + 98, "one row of data", "small"),
        *arrow(108, TOP + 38, 134, TOP + 38),
        *(part for step in (*STEPS, BOARD) for part in box(*step, y=TOP, kind="step")),
        *(part for left, *_ in STEPS for part in arrow(left + 112, TOP + 38, left + 138, TOP + 38)),
        *box(136, 252, "golden model", ("the same integers, in numpy",), y=BOTTOM, kind="golden"),
        *arrow(192, TOP + BOX, 192, BOTTOM - 2),
        *bars(scores, 416, BOTTOM + 6, 112, 60), text(472, BOTTOM + 94, "its ten scores", "small"),
        *arrow(388, BOTTOM + 38, 414, BOTTOM + 38),
        f'<path class="line" d="M540 {BOTTOM + 38}H892"/>',
        *(part for place in COMPARED for part in comparison(*place)),
        "</svg>",
    ]
    return "\n".join(parts)


def example() -> tuple[np.ndarray, np.ndarray]:
    """Pixels [8, 8] from 0 to 1, and the ten scores of the golden model."""
    model = hwflow.load(ROOT / "models" / "digits_cnn.onnx")
    data = hwflow.read_data(ROOT / "models" / "digits_cnn.npz", model)
    quantized = hwflow.quantize_model(model, data)
    row = data.inputs["image"][ROW:ROW + 1]
    scores = hwflow.run_golden(quantized, {"image": row})["logits"]
    return row.reshape(8, 8) / row.max(), scores.reshape(-1)


def digit(pixels: np.ndarray, x: float, y: float, size: float) -> Iterator[str]:
    """The pixels as squares; the ink is as opaque as the pixel is bright."""
    side = size / len(pixels)
    yield f'<rect class="paper" x="{x}" y="{y}" width="{size}" height="{size}" rx="4"/>'
    for (row, column), value in np.ndenumerate(pixels):
        if value:
            yield (f'<rect class="ink" x="{x + column * side:g}" y="{y + row * side:g}" width="{side:g}" '
                   f'height="{side:g}" opacity="{value:.2f}"/>')


def bars(scores: np.ndarray, x: float, y: float, width: float, height: float) -> Iterator[str]:
    """The scores as bars from the lowest to the highest one, the highest one marked."""
    step, low, high = width / len(scores), scores.min(), scores.max()
    for k, score in enumerate(scores):
        tall = 2 + (height - 2) * float((score - low) / (high - low))
        kind = "best" if score == high else "bar"
        yield (f'<rect class="{kind}" x="{x + k * step + 1:g}" y="{y + height - tall:.1f}" width="{step - 2:g}" '
               f'height="{tall:.1f}"/>')
        yield text(x + (k + 0.5) * step, y + height + 11, str(k), "tiny")


def box(x: float, width: float, name: str, lines: Sequence[str], *, y: float, kind: str) -> Iterator[str]:
    yield f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{BOX}" rx="8"/>'
    first = y + BOX / 2 - 4 - 8 * (len(lines) - 1)
    yield text(x + width / 2, first, name, f"name on-{kind}")
    yield from (text(x + width / 2, first + 20 + 16 * k, line, f"small on-{kind}") for k, line in enumerate(lines))


def comparison(x: float, what: str) -> Iterator[str]:
    """From a step down to the line of the golden model, with the sign of equality on it."""
    yield from arrow(x, BOTTOM + 38, x, TOP + BOX + 2)
    middle = (TOP + BOX + BOTTOM + 38) / 2
    yield f'<circle class="golden" cx="{x}" cy="{middle}" r="17"/>'
    yield text(x, middle + 7, "=", "name on-golden")
    yield text(x, BOTTOM + 62, what, "small")


def arrow(x1: float, y1: float, x2: float, y2: float) -> Iterator[str]:
    yield f'<path class="line" d="M{x1} {y1}L{x2} {y2}" marker-end="url(#flow-tip)"/>'


def text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="middle">{escape(words)}</text>'
