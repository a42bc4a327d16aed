"""Routed designs: the clock, the frames a second and the resources of each, one command a row, resumable.

    python -m bench routes --models DIR [--only NAME] [--seeds N] [--folder build/bench]

A row is kept in the folder with its step caches, so that an interrupted run goes on where it was; `--only` measures
one row anew and takes the others from there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.sections import Bench, Subject, table
from bench.synthetic import SYNTHETIC, write
from hwflow import onnx
from tests.quantize.net import Net, data

#: Where rows and everything that leads to them are kept unless the command line says otherwise.
FOLDER = Path("build") / "bench"


@dataclass(frozen=True)
class Row:
    """A design of the table: `model` is a shipped or third-party one, one of `SYNTHETIC`, or "conv" for one layer;
    `options` are of hwflow."""

    name: str
    model: str
    board: str = "ulx3s_85f"
    options: tuple[str, ...] = ()

    @property
    def settings(self) -> str:
        return " ".join(self.options)


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
    Row("resnet8_wide", "resnet8_wide"),
    Row("kws", "tiny_kws_dscnn_int8"),
    Row("autoencoder", "tiny_ad_autoencoder_int8"),
    Row("gru_64", "gru_64"),
    Row("conv_stage", "conv", options=("--interval", str(STAGE_CYCLES))),
    Row("colors_up5k", "colors_cnn", "icebreaker"),
    Row("digits_up5k", "digits_cnn (shipped)", "icebreaker"),
    Row("mnist_gw1n", "mnist_cntk", "tangnano9k"),
)


def routes(bench: Bench) -> str:
    """Routed designs: clock, frames a second and resources of each, with the settings and tools that made it."""
    folder = (bench.folder if bench.kept else FOLDER.resolve()) / "routes"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for row in ROWS:
        facts = measured(bench, row, folder)
        if facts is not None:
            rows.append(cells(row, facts))
    header = ("design", "model", "board", "settings", "interval", "routed MHz", "within the device's limits",
              "frames/s", "LUT", "FF", "DSP", "RAM", "longest path", "seeds: MHz", "seconds", "tools")  # fmt: skip
    return table(header, rows)


def measured(bench: Bench, row: Row, folder: Path) -> dict[str, Any] | None:
    """What `hwflow synth --json` says of a row, or said in an earlier run; None where the model is not there."""
    kept = folder / f"{row.name}.json"
    if bench.only is not None and row.name != bench.only:
        return dict(json.loads(kept.read_text())) if kept.is_file() else None
    subject = subject_of(bench, row, folder)
    if subject is None:
        return None
    answer = bench.hwflow("synth", subject, "--board", row.board, "--build", str(folder / row.name), *row.options,
                          *(("--seeds", str(bench.seeds)) if bench.seeds > 1 else ()))
    if "error" not in answer:
        kept.write_text(json.dumps(answer, indent=1))
    return answer


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
    if "error" in answer:
        return [row.name, row.model, row.board, row.settings, f"failed: {answer['error']}", *[""] * 11]
    usage = [f"{answer[kind]['used']} of {answer[kind]['available']}" for kind in ("lut", "ff", "dsp", "ram")]
    path = next((clock["path"]["text"] for clock in answer["clocks"] if clock["is_core"] and clock["path"]), "")
    seeds = ", ".join(f"{each['seed']}: {each['routed_mhz'] or 0:.1f}" for each in answer["seeds"])
    routed, usable = (answer[kind] or 0.0 for kind in ("routed_mhz", "usable_mhz"))
    return [row.name, row.model, row.board, row.settings, str(answer["interval"]), f"{routed:.1f}", f"{usable:.1f}",
            f"{usable * 1e6 / answer['interval']:,.0f}", *usage, path,
            seeds, f"{sum(answer['seconds'].values()):.0f}", ", ".join(answer["tools"].values())]


ROUTE_SECTIONS = {"routes": routes}
