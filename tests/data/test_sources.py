"""`hwflow data`: rows of pictures, recordings, tables and arrays, each against numbers that numpy makes of the same."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from hwflow import onnx
from hwflow.data.dataset import load_dataset
from hwflow.onnx.build import Builder
from tests.e2e.command import Cli

RANDOM = np.random.default_rng(0)


def model(*shape: int | str, dtype: Any = np.float32, names: tuple[str, ...] = ("x",), scores: int = 4) -> str:
    """A model with such inputs in model.onnx; only its interface matters."""
    b = Builder("data")
    for name in names:
        b.input(name, dtype, shape)
    b.output(b.constant("scores", np.zeros((1, scores), np.float32)), np.float32, (1, scores))
    onnx.save(b.model(), Path("model.onnx"))
    return "model.onnx"


def made(cli: Cli, *words: str) -> dict[str, np.ndarray]:
    """The arrays that a command writes; `load_dataset` takes the file."""
    done = cli("data", *words)
    assert done.code == 0, done.err
    load_dataset("data.npz", onnx.load("model.onnx"))
    with np.load("data.npz") as arrays:
        return dict(arrays)


def pictures(folder: str, count: int, *size: int) -> dict[str, np.ndarray]:
    """Random pictures uint8 [height, width, channels] in PNG files, in a folder for each of two classes."""
    found = {}
    for k in range(count):
        name = f"{'cat' if k % 3 else 'ant'}/{k}.png"
        pixels = RANDOM.integers(0, 256, size, np.uint8)
        (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(pixels.squeeze()).save(Path(folder) / name)
        found[name] = pixels
    return found


def by_name(arrays: dict[str, np.ndarray], files: dict[str, Any]) -> list[Any]:
    """What the files hold, in the order of the rows."""
    return [files[str(name)] for name in arrays["files"]]


def test_pictures_for_pytorch(cli: Cli) -> None:
    files = pictures("shots", 20, 4, 6, 3)
    Path("shots/readme.txt").write_text("no picture")
    mean, std = np.array([0.5, 0.25, 0.125], np.float32), np.array([0.2, 0.5, 1], np.float32)
    arrays = made(cli, model("n", 3, 4, 6), "shots", "--scale", "255", "--mean", "0.5,0.25,0.125", "--std", "0.2,.5,1")
    assert arrays["in_x"].shape == (16, 1, 3, 4, 6)
    assert arrays["calib_x"].shape == (4, 1, 3, 4, 6)
    expected = [((p.astype(np.float32) / 255 - mean) / std).transpose(2, 0, 1) for p in by_name(arrays, files)]
    np.testing.assert_allclose(arrays["in_x"][:, 0], expected, rtol=1e-6)
    assert arrays["labels"].tolist() == [int(name.startswith("cat")) for name in arrays["files"]]
    assert arrays["classes"].tolist() == ["ant", "cat"]
    assert set(arrays["labels"][:8]) == {0, 1}, "the first rows are of all classes"
    rest = [p for name, p in files.items() if name not in arrays["files"]]
    left = {((p.astype(np.float32) / 255 - mean) / std).transpose(2, 0, 1).sum().round(2) for p in rest}
    assert {row.sum().round(2) for row in arrays["calib_x"]} == left, "no row is run and calibrates"


@pytest.mark.parametrize("shape, order", [(("n", 4, 6, 3), (0, 1, 2)), ((1, 3, "h", "w"), (2, 0, 1))])
def test_pictures_in_the_layout_of_the_model(cli: Cli, shape: Any, order: Any) -> None:
    files = pictures("shots", 5, 4, 6, 3)
    arrays = made(cli, model(*shape), "shots", "--scale", "1", "--bgr", "--calibration", "0", "--classes", "cat,ant")
    assert np.array_equal(arrays["in_x"][:, 0], [p[:, :, ::-1].transpose(order) for p in by_name(arrays, files)])
    assert arrays["labels"].tolist() == [int(name.startswith("ant")) for name in arrays["files"]]
    assert "calib_x" not in arrays


@pytest.mark.parametrize("shape", [(1, 1, 4, 6), (1, 4, 6, 1), (1, 4, 6), (1, 24)])
def test_grey_pictures_for_integers(cli: Cli, shape: Any) -> None:
    files = pictures("shots", 5, 4, 6, 1)
    arrays = made(cli, model(*shape, dtype=np.int8), "shots", "--mean", "128")
    assert arrays["in_x"].dtype == np.int8
    assert np.array_equal(arrays["in_x"].reshape(-1, 4, 6, 1), [p.astype(int) - 128 for p in by_name(arrays, files)])


def test_resized_and_cut(cli: Cli) -> None:
    """To twice the size, each pixel is there four times; the middle of it is what numpy cuts."""
    files = pictures("shots", 5, 4, 6, 3)
    twice = {name: p.repeat(2, axis=0).repeat(2, axis=1) for name, p in files.items()}
    words = ("shots", "--scale", "1", "--interpolation", "nearest")
    arrays = made(cli, model(1, 8, 12, 3), *words, "--resize", "12x8")
    assert np.array_equal(arrays["in_x"][:, 0], by_name(arrays, twice))
    arrays = made(cli, model(1, 8, 8, 3), *words, "--resize", "8", "--crop")
    assert np.array_equal(arrays["in_x"][:, 0], [p[:, 2:10] for p in by_name(arrays, twice)])


def test_which_rows(cli: Cli) -> None:
    x = np.arange(40, dtype=np.float32).reshape(20, 2)
    np.savez("rows.npz", x=x, labels=np.arange(20) % 4)
    np.save("train.npy", -x)
    first = made(cli, model(1, 2), "rows.npz", "--rows", "7", "--seed", "3")
    content = Path("data.npz").read_bytes()
    made(cli, model(1, 2), "rows.npz", "--rows", "7", "--seed", "3")
    assert Path("data.npz").read_bytes() == content
    assert (len(first["in_x"]), len(first["calib_x"])) == (7, 4)
    both = np.concatenate((first["in_x"], first["calib_x"]))[:, 0]
    assert len({tuple(row) for row in both}) == 11
    assert np.array_equal(first["labels"], first["in_x"][:, 0, 0] / 2 % 4)
    arrays = made(cli, model(1, 2), "rows.npz", "--in-order", "--calibration-data", "train.npy", "--calibration", "6")
    assert np.array_equal(arrays["in_x"][:, 0], x)
    assert np.array_equal(arrays["calib_x"][:, 0], -x[:6])


def test_arrays_get_the_layout_of_the_model(cli: Cli) -> None:
    x = RANDOM.integers(0, 256, (5, 4, 6, 3), np.uint8)
    np.savez("rows.npz", shots=x, digit=np.array(["b", "a", "b", "c", "a"]))
    words = ("rows.npz:shots", "--labels", "digit", "--in-order", "--calibration", "0", "--scale", "2")
    arrays = made(cli, model(1, 3, 4, 6), *words)
    assert np.array_equal(arrays["in_x"][:, 0], x.transpose(0, 3, 1, 2) / np.float32(2))
    assert arrays["labels"].tolist() == [1, 0, 1, 2, 0]
    assert "its axes are changed: x.transpose(0, 3, 1, 2), which turns NHWC into NCHW" in cli(
        "data", "model.onnx", *words).out


@pytest.mark.parametrize("text, words, labels", [
    ("a,b,kind\n1,2,x\n3,4,y\n5,6,x\n", ("--labels", "kind"), [0, 1, 0]),
    ("\ufeff,0,1,y\n0,1,2,0.5\n1,3,4,1.5\n2,5,6,2.5\n", ("--labels", "last"), [0.5, 1.5, 2.5]),
    ("3;1;2\r\n0;3;4\r\n1;5;6\r\n", ("--labels", "1"), [3, 0, 1]),
    ("0\t1\n1\t2\n3\t4\n5\t6\n", (), None),
    ("1,2\n\n3,4\n5,6", ("--labels", "labels.npy"), [2, 1, 0]),
])
def test_tables(cli: Cli, text: str, words: tuple[str, ...], labels: list[float] | None) -> None:
    Path("rows.csv").write_text(text)
    np.save("labels.npy", [2, 1, 0])
    arrays = made(cli, model("n", 2), "rows.csv", "--in-order", "--calibration", "0", *words)
    assert arrays["in_x"][:, 0].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert (arrays["labels"].tolist() if "labels" in arrays else None) == labels


def test_several_inputs(cli: Cli) -> None:
    Path("rows.csv").write_text("b,a,y\n1,2,0\n3,4,1\n")
    words = ("--in-order", "--calibration", "0")
    arrays = made(cli, model(1, 1, names=("a", "b")), "rows.csv", "--labels", "y", *words)
    assert (arrays["in_a"].tolist(), arrays["in_b"].tolist()) == ([[[2]], [[4]]], [[[1]], [[3]]])
    np.save("b.npy", [[7], [8]])
    Path("a.csv").write_text("5\n6\n")
    arrays = made(cli, "model.onnx", "a=a.csv", "b=b.npy", *words)
    assert (arrays["in_a"].ravel().tolist(), arrays["in_b"].ravel().tolist()) == ([5, 6], [7, 8])


def recording(name: str, samples: np.ndarray, rate: int) -> None:
    """int16 [samples, channels] in a WAV file, written by the standard library."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    with wave.open(name, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


@pytest.mark.parametrize("shape", [(1, 1, 100), (1, 100), (1, 100, 1), (1, 1, "n")])
def test_recordings(cli: Cli, shape: Any) -> None:
    waves = {f"{k}.wav": RANDOM.integers(-(1 << 15), 1 << 15, (length, 1 + k % 2)) for k, length in
             enumerate((100, 100, 70, 130))}
    for name, samples in waves.items():
        recording(f"words/{name}", samples, 16000)
    Path("words/labels.csv").write_text("".join(f"{name},{name[0]}\n" for name in waves))
    arrays = made(cli, model(*shape), "words", "--calibration", "0", "--labels", "words/labels.csv", "--mean", "0.25")
    for row, name, label in zip(arrays["in_x"], arrays["files"], arrays["labels"], strict=True):
        expected = np.pad(waves[str(name)].mean(axis=1)[:100] / 32768, (0, max(0, 100 - len(waves[str(name)]))))
        np.testing.assert_allclose(row.ravel(), expected - 0.25, atol=1e-6)
        assert label == int(name[0])


def test_resampled_recordings(cli: Cli) -> None:
    """A sine at 44 100 Hz is one of the same frequency at 16 000 Hz."""
    tone = 16000 * np.sin(2 * np.pi * 440 * np.arange(22050) / 44100)
    recording("words/a.wav", tone[:, None], 44100)
    row = made(cli, model(1, 8000), "words", "--rate", "16000")["in_x"].ravel()
    expected = 16000 / 32768 * np.sin(2 * np.pi * 440 * np.arange(8000) / 16000)
    np.testing.assert_allclose(row[200:-200], expected[200:-200], atol=1e-3)
