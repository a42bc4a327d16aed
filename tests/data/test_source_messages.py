"""What `hwflow data` refuses: one message with the file and what it must be, and no data file is left."""

from __future__ import annotations

import os
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hwflow_base.errors import HwflowError, MissingTool

from hwflow import onnx
from hwflow.data.sources.making import Choice, made_data
from hwflow.data.sources.source import Preparation
from tests.data.test_sources import model, pictures, recording
from tests.e2e.command import Cli


def picture(*size: int) -> Callable[[], None]:
    return lambda: PIL.Image.fromarray(np.zeros(size, np.uint8)).save("shot.png")


def huge() -> None:
    """A PNG file of a few bytes whose header asks for 60 000 x 60 000 pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    end = b"IEND"
    Path("shot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (header, end)))


def torn() -> None:
    PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)).save("shot.png")
    Path("shot.png").write_bytes(Path("shot.png").read_bytes()[:80])


def table(text: str) -> Callable[[], None]:
    return lambda: Path("rows.csv").write_text(text) and None


def loose() -> None:
    pictures("shots", 2, 4, 6, 3)
    PIL.Image.fromarray(np.zeros((4, 6, 3), np.uint8)).save("shots/loose.png")


def two_rates() -> None:
    for k in (1, 2):
        recording(f"words/{k}.wav", np.zeros((10, 1)), 8000 * k)


def empty_folder() -> None:
    Path("nothing").mkdir()
    (Path("nothing") / "notes.doc").write_text("")


SHOT, ROWS = ("shot.png", "--scale", "1"), ("rows.csv",)
NCHW, FLAT = (1, 3, 4, 6), (1, 2)

#: What is there, the shape of the model's input, the words of the command, and the message.
REFUSED: dict[str, tuple[Callable[[], Any], tuple[Any, ...], tuple[str, ...], str]] = {
    "no scale": (picture(4, 6, 3), NCHW, ("shot.png",), "--scale must be given for pictures, as in the training of the "
                 "model; --scale 255 for pixels from 0 to 1; --scale 1 for pixels from 0 to 255, "),
    "another size": (picture(8, 6, 3), NCHW, SHOT, "shot.png: the picture must be 6x4 for the model's input, not 6x8; "
                     "give --resize 6x4, which stretches it, or --crop, which keeps its middle"),
    "a small one": (picture(3, 6, 3), NCHW, SHOT, "shot.png: the picture must be 6x4 for the model's input, not 6x3; "
                    "give --resize 6x4, which stretches it, or --resize 6 --crop, which keeps its middle"),
    "either layout": (picture(3, 5, 3), (1, 3, 5, 3), SHOT, "--layout must say where the model's input 'x' [1, 3, 5, "
                      "3] has its channels; --layout nchw, as PyTorch has it, or --layout nhwc, as Keras"),
    "no picture": (picture(3, 5, 3), (1, 2, 49, 10, 1), SHOT, "the model's input 'x' [1, 2, 49, 10, 1] must have the "
                   "shape of a picture with 1, 3 or 4 channels to take a folder of pictures; compute what it "),
    "flat channels": (picture(2, 2, 3), (1, 12), SHOT, "--layout must say in which order the model's input 'x' [1, 12] "
                      "has the 3 channels; "),
    "means": (picture(4, 6, 3), NCHW, (*SHOT, "--mean", "1,2"), "shot.png: --mean must have one number, or one for "
              "each of the 3 channels, not 2"),
    "torn": (torn, NCHW, SHOT, "shot.png: the picture must be a file that Pillow reads ("),
    "huge": (huge, NCHW, SHOT, "shot.png: the picture must be a file that Pillow reads (Image size (3600000000 pixels) "
             "exceeds limit of "),
    "beyond a limit": (picture(40, 60, 3), NCHW, (*SHOT, "--limit", "total_bytes=9000"), "shot.png: 1 rows of [40, 60, "
                       "4] must have at most 9,000 bytes, not 9,600; "),
    "no class": (loose, NCHW, ("shots", "--scale", "1"), "shots: the pictures must all be in a folder for each class, "
                 "or none, not 'loose.png' beside folders; move it, or give --labels none"),
    "other classes": (lambda: pictures("shots", 3, 4, 6, 3), NCHW, ("shots", "--scale", "1", "--classes", "cat,dog"),
                      "shots: the classes must be those of --classes (cat, dog), not 'ant'"),
    "no kind": (empty_folder, NCHW, ("nothing",), "nothing: the source of rows must be a table (.csv, .tsv, .txt), a "
                "NumPy file (.npy, .npz), or a folder of pictures or recordings"),
    "nothing": (lambda: None, NCHW, ("none.csv",), "none.csv: the source of rows must exist; name a table, "),
    "rates": (two_rates, (1, 1, 10), ("words",), "words/2.wav: the recording must have 8000 samples a second like the "
              "first one, not 16000; give --rate 8000 to resample those that differ"),
    "spectra": (two_rates, (1, 49, 10), ("words",), "the model's input 'x' [1, 49, 10] must be samples, with one axis "
                "that is not 1, to take a folder of recordings; compute its features as in the training, "),
    "labels left in": (table("a,b,kind\n1,2,0\n"), FLAT, ROWS, "rows.csv: the table must have 2 columns for the "
                       "model's input 'x' [1, 2], not 3; name the column of labels: --labels kind"),
    "no number": (table("a,b\n1,2\n3,four\n"), FLAT, ROWS, "rows.csv: line 3, column 'b' must be a number, not 'four'"),
    "a short line": (table("1,2\n3\n"), FLAT, ROWS, "rows.csv: line 2 must have 2 cells like the first one, not 1"),
    "no column": (table("a,b,kind\n1,2,0\n"), FLAT, (*ROWS, "--labels", "type"), "rows.csv: --labels must name a "
                  "column of the table, as 'a', 'b', 'kind', or be 'last', not 'type'"),
    "too many classes": (table("1,2,9\n1,2,0\n"), FLAT, (*ROWS, "--labels", "last"), "labels must be 0 to 3 for the 4 "
                         "scores of the model's output 'scores', not up to 9; "),
    "nan": (table("1,nan\n1,2\n"), FLAT, ROWS, "rows.csv: array 'in_x' must hold finite numbers, not nan at "),
    "no text": (lambda: Path("rows.csv").write_bytes(b"\xff\xfe1,2"), FLAT, ROWS, "rows.csv: the table must be text in "
                "UTF-8"),
    "a pipe": (lambda: os.mkfifo("rows.csv"), FLAT, ROWS, "rows.csv: the table must be a readable file: it is a pipe"),
    "objects": (lambda: np.save("rows.npy", np.array([{}]), allow_pickle=True), FLAT, ("rows.npy",), "rows.npy: the "
                "file must be a plain array as numpy.save writes it ("),
    "two orders": (lambda: np.save("rows.npy", np.zeros((2, 72))), NCHW, ("rows.npy",), "rows.npy: array 'rows.npy' "
                   "must have the shape [rows, 3, 4, 6] for the model's input 'x', not [2, 72]; give x.reshape(-1, 3, "
                   "4, 6), or x.reshape(-1, 4, 6, 3).transpose(0, 3, 1, 2) if channels come last in each row"),
    "several arrays": (lambda: np.savez("rows.npz", a=1, b=2), FLAT, ("rows.npz",), "rows.npz: the archive must have "
                       "one array besides labels, or one with the name of the model's input 'x', not 'a', 'b'; name "
                       "it: rows.npz:ARRAY"),
    "all calibrate": (table("1,2\n3,4\n"), FLAT, (*ROWS, "--calibration", "2"), "--calibration must leave rows to "
                      "run, and be less than the 2 rows that there are, not 2"),
    "itself": (table("1,2\n3,4\n"), FLAT, (*ROWS, "--output", "rows.csv"), "rows.csv: must not be the model or a "),
    "too large": (lambda: np.save("rows.npy", np.zeros((2, 2))), FLAT, ("rows.npy", "--limit", "total_bytes=99"),
                  "rows.npy: the array must have at most 99 bytes, not "),
}  # fmt: skip


@pytest.mark.parametrize("there, shape, words, message", REFUSED.values(), ids=REFUSED)
def test_refused(cli: Cli, there: Callable[[], Any], shape: Any, words: tuple[str, ...], message: str) -> None:
    there()
    said = cli.refuses("data", model(*shape), *words)
    assert said.startswith(message), said
    assert not Path("data.npz").exists()


def test_a_scaled_number_must_be_an_integer_of_the_input(cli: Cli) -> None:
    table("1,2\n3,400\n")()
    said = cli.refuses("data", model(1, 2, dtype=np.uint8), "rows.csv")
    assert said.startswith("rows.csv: the numbers must be whole ones that fit uint8, the type of the model's input ")


@pytest.mark.parametrize("words, message", [
    (("--scale", "0"), "'0' must not have a 0"), (("--mean", "a"), "'a' must be a number, or one for each channel"),
    (("--resize", "32x"), "'32x' must be WIDTHxHEIGHT"), (("--classes", "a,a"), "'a,a' must be the names of the "),
])
def test_wrong_options(cli: Cli, words: tuple[str, str], message: str) -> None:
    assert message in cli.refuses("data", "model.onnx", "rows.csv", *words)


def test_names_of_hostile_files_cannot_move_the_cursor(cli: Cli) -> None:
    Path("shots/\x1b[2J</script>").mkdir(parents=True)
    PIL.Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save("shots/\x1b[2J</script>/a.png")
    refused = cli("data", model(*NCHW), "shots", "--scale", "1")
    assert "\x1b" not in refused.out + refused.err
    done = cli("data", model(*NCHW), "shots", "--scale", "1", "--resize", "6x4")
    assert "\x1b" not in done.out + done.err
    assert done.code == 0


def test_a_package_that_is_not_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(4, 6, 3)()
    monkeypatch.delitem(sys.modules, "hwflow.data.sources.sounds", raising=False)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingTool, match="the Python package 'soundfile' must be installed to read pictures and "
                                          r"recordings; run `pip install 'hwflow\[data\]'`"):
        made_data(onnx.load(model(*NCHW)), ["shot.png"], Preparation(scale=1), Choice())


def test_a_source_for_each_input(cli: Cli) -> None:
    table("1\n")()
    Path("two.csv").write_text("1\n2\n")
    loaded = onnx.load(model(1, 1, names=("a", "b")))
    with pytest.raises(HwflowError, match="must be one for each input of the model, a=SOURCE b=SOURCE, not a=rows"):
        made_data(loaded, ["a=rows.csv"], Preparation(), Choice())
    with pytest.raises(HwflowError, match="same number of rows; 'a' has 1, 'b' has 2"):
        made_data(loaded, ["a=rows.csv", "b=two.csv"], Preparation(), Choice())
