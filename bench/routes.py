"""Routed designs: clock, frames a second and resources of each from several seeds, one command a row, resumable.

    python -m bench routes --models DIR [--only NAME] [--seeds N] [--folder build/bench]

One seed says little: clocks differ by a tenth and more.  So the median leads, and the best and the worst seed stand
beside it.  What fell since the last measurement by more than `FALL` is named below the table.  A row is kept in the
folder with its step caches, so that an interrupted run goes on where it was; `--only` measures one row anew and takes
the others from there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np

from bench.measurements import measurement, shown, tables
from bench.sections import Bench, Subject, table
from bench.synthetic import SYNTHETIC, write
from hwflow import onnx
from tests.quantize.net import Net, data

#: Where rows and everything that leads to them are kept unless the command line says otherwise.
FOLDER = Path("build") / "bench"


@dataclass(frozen=True)
class Row:
    """A design of the table: `model` is a shipped or third-party one, one of `SYNTHETIC`, or "conv" for one layer;
    `options` are of hwflow.  It is routed `seeds` times, each time the best looking of so many `placements`."""

    name: str
    model: str
    board: str = "ulx3s_85f"
    options: tuple[str, ...] = ()
    seeds: int = 3
    placements: int = 1

    @property
    def settings(self) -> str:
        placed = ("--seeds", str(self.placements), "--route", "1") if self.placements > 1 else ()
        return " ".join((*self.options, *placed))


#: Frames that calibrate the single layer.
FRAMES = 16
#: One stage of a ResNet, 16 x 16 x 32 -> 32 with 3 x 3 kernels, by 64 multipliers: 36 864 cycles.
STAGE_CYCLES = 36_864
ROWS = (
    Row("resnet8", "tiny_resnet8_int8"),
    Row("resnet8_w4", "tiny_resnet8_float", options=("--bits", "4")),
    Row("resnet8_logic", "tiny_resnet8_int8", options=("--interval", "49152")),
    Row("resnet8_full", "tiny_resnet8_int8", options=("--interval", "24576", "--logic-multipliers")),
    Row("resnet8_w4_full", "tiny_resnet8_float", options=("--bits", "4", "--interval", "12288", "--logic-multipliers")),
    Row("mobilenet", "mobilenet_v1_96"),
    Row("mobilenet_w4", "mobilenet_v1_96", options=("--bits", "4")),
    Row("mobilenet_25f", "mobilenet_v1_96", "ulx3s_25f"),
    Row("resnet8_wide", "resnet8_wide"),
    Row("kws", "tiny_kws_dscnn_int8"),
    Row("autoencoder", "tiny_ad_autoencoder_int8", seeds=5),
    Row("autoencoder_placed", "tiny_ad_autoencoder_int8", seeds=5, placements=3),
    Row("gru_64", "gru_64"),
    Row("conv_stage", "conv", options=("--interval", str(STAGE_CYCLES))),
    Row("colors_up5k", "colors_cnn", "icebreaker"),
    Row("digits_up5k", "digits_cnn (shipped)", "icebreaker"),
    Row("kws_up5k", "tiny_kws_dscnn_int8", "icebreaker"),
    Row("resnet8_up5k", "tiny_resnet8_int8", "icebreaker"),
    Row("mobilenet_up5k", "mobilenet_v1_96", "icebreaker"),
    Row("dense_wide_up5k", "dense_wide", "icebreaker"),
    Row("mnist_gw1n", "mnist_cntk", "tangnano9k"),
    Row("kws_gw1n", "tiny_kws_dscnn_int8", "tangnano9k"),
)
#: A row that lost so much since the last measurement is named.
FALL = 0.05
HEADER = ("design", "model", "board", "settings", "interval", "MHz, median", "MHz, worst", "MHz, best", "frames/s",
          "LUT", "FF", "DSP", "RAM", "longest path", "seeds: MHz", "seconds", "tools")  # fmt: skip


def routes(bench: Bench) -> str:
    """Routed designs: clock, frames a second and resources of each, with the settings and tools that made it."""
    folder = (bench.folder if bench.kept else FOLDER.resolve()) / "routes"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for row in ROWS:
        facts = measured(bench, row, folder)
        if facts is not None:
            rows.append(cells(row, facts))
    return f"{table(HEADER, rows)}\n\n{compared(rows)}"


def compared(rows: Sequence[Sequence[str]]) -> str:
    """What became of the rows of the last measurement, by the frames a second."""
    place = HEADER.index("frames/s")
    new = {row[0]: int(row[place]) for row in rows if row[place]}
    old = {str(row[0]): int(row[part["columns"].index("frames/s")]) for part in tables(measurement("routes"))
           for row in part["rows"] if "frames/s" in part["columns"]}
    texts = [f"{name} {shown(old[name])} -> {shown(new[name])} ({new[name] / old[name] - 1:+.1%})"
             for name in new if name in old and new[name] < (1 - FALL) * old[name]]
    gone = [f"{name} is not measured" for name in old if name not in new]
    return (f"Frames a second that fell by more than {FALL:.0%} since the last measurement: "
            f"{'; '.join([*texts, *gone]) or 'none'}.")


def measured(bench: Bench, row: Row, folder: Path) -> dict[str, Any] | None:
    """What `hwflow synth --json` says of a row, or said in an earlier run; None where the model is not there."""
    kept = folder / f"{row.name}.json"
    if bench.only is not None and row.name != bench.only:
        return dict(json.loads(kept.read_text())) if kept.is_file() else None
    subject = subject_of(bench, row, folder)
    if subject is None:
        return None
    words, seeds = ("--board", row.board, "--build", str(folder / row.name), *row.options), bench.seeds or row.seeds
    if row.placements == 1:
        answer = bench.hwflow("synth", subject, *words, "--seeds", str(seeds))
    else:
        firsts = range(1, 1 + seeds * row.placements, row.placements)
        answer = together([bench.hwflow("synth", subject, *words, "--seed", str(first), "--seeds", str(row.placements),
                                        "--route", "1") for first in firsts])
    if "error" not in answer:
        kept.write_text(json.dumps(answer, indent=1))
    return answer


def together(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The answer with the median clock, with the seeds and the seconds of all; the first failure where one failed."""
    failed = next((answer for answer in answers if "error" in answer), None)
    if failed is not None:
        return failed
    ranked = sorted(answers, key=lambda answer: answer["routed_mhz"])
    seconds = {step: sum(answer["seconds"].get(step, 0.0) for answer in answers) for step in ranked[0]["seconds"]}
    return {**ranked[(len(ranked) - 1) // 2], "seconds": seconds,
            "seeds": [seed for answer in answers for seed in answer["seeds"]]}


def subject_of(bench: Bench, row: Row, folder: Path) -> Subject | None:
    if row.model == "conv":
        return one_layer(folder / "conv_stage.onnx")
    if row.model in SYNTHETIC:
        return Subject(f"{row.model}, random weights", *write(row.model, folder))
    return next((subject for subject in bench.subjects([row.model]) if subject.name == row.model), None)


def one_layer(path: Path) -> Subject:
    """A convolution of 16 x 16 x 32 with 32 kernels of 3 x 3 and random weights, and frames to calibrate it."""
    net = Net((32, 16, 16))
    model = onnx.infer(net.model(net.relu(net.conv(net.x, 32, (3, 3)))))
    onnx.save(model, path)
    np.savez(path.with_suffix(".npz"), allow_pickle=False,
             **{f"in_{name}": values for name, values in data(model, FRAMES).items()})
    return Subject("conv 16x16x32 -> 32, 3x3", path, path.with_suffix(".npz"))


def cells(row: Row, answer: dict[str, Any]) -> list[str]:
    head = [row.name, row.model, row.board, row.settings]
    clocks = clocks_of(answer) if "error" not in answer else []
    if not clocks:
        return [*head, f"failed: {answer.get('error', 'no clock')}", *[""] * (len(HEADER) - len(head) - 1)]
    usage = [f"{answer[kind]['used']} of {answer[kind]['available']}" for kind in ("lut", "ff", "dsp", "ram")]
    path = next((clock["path"]["text"] for clock in answer["clocks"] if clock["is_core"] and clock["path"]), "")
    seeds = ", ".join(f"{each['seed']}: {each['routed_mhz'] or 0:.1f}" for each in answer["seeds"])
    median = median_low(clocks)
    return [*head, str(answer["interval"]), *(f"{mhz:.1f}" for mhz in (median, clocks[0], clocks[-1])),
            f"{median * 1e6 / answer['interval']:.0f}", *usage, path, seeds, f"{sum(answer['seconds'].values()):.0f}",
            ", ".join(answer["tools"].values())]


def clocks_of(answer: dict[str, Any]) -> list[float]:
    """The clock of each seed within the limits of the device, MHz, the slowest first."""
    routed = [each["routed_mhz"] for each in answer["seeds"] if each["routed_mhz"]]
    limited = answer["usable_mhz"] < answer["routed_mhz"]
    return sorted(min(mhz, answer["usable_mhz"]) if limited else mhz for mhz in routed)


ROUTE_SECTIONS = {"routes": routes}
