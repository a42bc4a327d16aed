"""Data files: the layouts that are read, and the message for each that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.data.dataset import accuracy, classes, load_dataset
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model


def model(dtype: Any = np.float32, shape: tuple[Any, ...] = ("batch", 1, 4, 4), name: str = "input") -> Model:
    b = Builder("data")
    b.output(b.node("Relu", b.input(name, dtype, shape), output="output"), dtype, shape)
    return b.model()


IMAGES = np.arange(3 * 16, dtype=np.float32).reshape(3, 1, 1, 4, 4)


def write(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def test_the_whole_layout(tmp_path: Path) -> None:
    file = write(tmp_path, in_input=IMAGES, calib_input=IMAGES[:2], out_output=IMAGES, labels=np.array([0, 1, 2]))
    data = load_dataset(file, model())
    np.testing.assert_array_equal(data.inputs["input"], IMAGES)
    np.testing.assert_array_equal(data.calibration["input"], IMAGES[:2])
    np.testing.assert_array_equal(data.outputs["output"], IMAGES)
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 2]
    assert (data.rows, data.calibration_is_input) == (3, False)
    assert (data.first(2).rows, len(data.first(2).calibration["input"])) == (2, 2)


@pytest.mark.parametrize("shape", [("batch", 1, 4, 4), (1, 1, 4, 4), (None, 1, None, None)])
def test_plain_names_and_rows_without_the_batch(tmp_path: Path, shape: tuple[Any, ...]) -> None:
    data = load_dataset(write(tmp_path, input=IMAGES[:, 0]), model(shape=shape))
    np.testing.assert_array_equal(data.inputs["input"], IMAGES)
    np.testing.assert_array_equal(data.calibration["input"], IMAGES)
    assert data.calibration_is_input
    assert data.labels is None


def test_without_calibration_arrays_the_first_rows_are_used(tmp_path: Path) -> None:
    data = load_dataset(write(tmp_path, in_input=np.repeat(IMAGES, 60, axis=0)), model())
    assert len(data.calibration["input"]) == 100


def test_a_slash_may_be_an_underscore(tmp_path: Path) -> None:
    data = load_dataset(write(tmp_path, in_gpu_0_data=IMAGES), model(name="gpu_0/data"))
    assert list(data.inputs) == ["gpu_0/data"]


def test_other_numbers_are_converted_where_nothing_is_lost(tmp_path: Path) -> None:
    data = load_dataset(write(tmp_path, in_input=IMAGES.astype(np.int64)), model(np.int8))
    assert data.inputs["input"].dtype == np.int8
    data = load_dataset(write(tmp_path, in_input=IMAGES.astype(np.uint8)), model())
    assert data.inputs["input"].dtype == np.float32


def refused(file: Path, message: str, m: Model | None = None) -> None:
    with pytest.raises(HwflowError) as caught:
        load_dataset(file, m or model())
    assert str(caught.value).startswith(f"{file}: {message}"), str(caught.value)
    assert "Traceback" not in str(caught.value)


NO_ARCHIVE = "the data must be an NPZ file made with numpy.savez"


def whole_archive(folder: Path) -> bytes:
    return write(folder, in_input=IMAGES).read_bytes()


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 but no archive", None])
def test_not_an_archive(tmp_path: Path, content: bytes | None) -> None:
    """None: one that is cut off."""
    (tmp_path / "data.npz").write_bytes(whole_archive(tmp_path)[:-30] if content is None else content)
    refused(tmp_path / "data.npz", f"{NO_ARCHIVE} (")


def test_no_file_of_named_arrays(tmp_path: Path) -> None:
    refused(tmp_path / "none.npz", "the data file must exist; give an NPZ file made with numpy.savez")
    refused(tmp_path, NO_ARCHIVE)
    np.save(tmp_path / "data.npy", IMAGES)
    refused(
        tmp_path / "data.npy", "the data must be an NPZ file with named arrays, not a single array; use numpy.savez")


def changed(value: float) -> np.ndarray:
    images = IMAGES.copy()
    images[1, 0, 0, 2, 3] = value
    return images


def filled(values: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values.reshape(3, 1, 1, 1, 1), (3, 1, 1, 4, 4))


def shapes(name: str, shape: tuple[int, ...]) -> str:
    return f"array '{name}' must have the shape [rows, 1, 1, 4, 4] for the model's input 'input', not {list(shape)}"


def labels(text: str) -> str:
    return ("labels must be one integer or text per input row, int64[3], or real numbers for each, float32[3, ...], "
            f"not {text}")


def two(*shape: int) -> Model:
    b = Builder("two")
    left, right = (b.input(name, np.float32, shape) for name in ("left", "right"))
    b.output(b.node("Add", left, right, output="output"), np.float32, shape)
    return b.model()


ONES, INT8 = np.ones((3, 1, 4), np.float32), model(np.int8)
NOT_FINITE = "must hold finite numbers, not {} at [1, 0, 0, 2, 3] (1 such entries)"
#: Arrays, how the message begins, and the model where it is another one.
BAD: list[tuple[dict[str, Any], str, Model | None]] = [
    ({"in_input": np.array([{}, {}], dtype=object)},
     "array 'in_input' must be a plain array of numbers (Object arrays cannot be loaded when allow_pickle=False); "
     "save no objects", None),
    ({"in_image": IMAGES, "labels": np.arange(3)},
     "there must be an array 'in_input' or 'input' for the model's input 'input'; it has 'in_image', 'labels'", None),
    *(({"in_input": np.zeros(shape, np.float32)}, shapes("in_input", shape), None)
      for shape in ((3, 1, 4, 5), (3, 2, 1, 4, 4), (3, 16), (3, 1, 1, 1, 4, 4))),
    ({"in_input": IMAGES, "calib_input": np.zeros((3, 4), np.float32)}, shapes("calib_input", (3, 4)), None),
    ({"in_left": ONES, "in_right": ONES, "calib_left": ONES},
     "there must be an array 'calib_right' for the model's input 'right'; it has 'calib_left', 'in_left', ", two(1, 4)),
    ({"in_left": ONES, "in_right": ONES, "calib_left": ONES, "calib_right": ONES[:1]},
     "all inputs must have the same number of rows; 'left' has 3, 'right' has 1", two(1, 4)),
    ({"in_left": ONES, "in_right": ONES[:2]},
     "all inputs must have the same number of rows; 'left' has 3, 'right' has 2", two(1, 4)),
    ({"in_input": IMAGES, "calib_input": IMAGES[:0]}, "array 'calib_input' must have at least one row, not none", None),
    ({"in_input": IMAGES[:0]}, "array 'in_input' must have at least one row, not none", None),
    ({"in_input": IMAGES},
     "array 'in_input' must hold int8 like the model's input 'input', not float32; quantize the values first", INT8),
    ({"in_input": IMAGES.astype(np.int64) + 100}, "array 'in_input' must fit int8, not hold values from 100 to 147",
     INT8),
    *(({"in_input": filled(values)}, f"array 'in_input' must hold float32, not {values.dtype}", None)
      for values in (np.array(["a", "b", "c"]), np.zeros(3, np.complex64))),
    *(({"in_input": changed(value)}, "array 'in_input' " + NOT_FINITE.format(value), None)
      for value in (np.nan, np.inf)),
    *(({"in_input": IMAGES, "calib_input": changed(value)}, "array 'calib_input' " + NOT_FINITE.format(value), None)
      for value in (np.nan, np.inf)),
    *(({"in_input": IMAGES, "labels": values}, labels(text), None) for values, text in (
        (np.arange(2), "int64[2]"), (np.zeros(2), "float64[2]"), (np.float32(1), "float32[]"),
        (np.zeros((3, 10), np.int64), "int64[3, 10]"), (np.array([b"a", b"b", b"c"]), "|S1[3]"),
        (np.array([True, False, True]), "bool[3]"))),
    ({"in_input": IMAGES, "labels": np.array([1.0, np.nan, np.inf], np.float32)},
     "array 'labels' must hold finite numbers, not nan at [1] (2 such entries)", None),
    ({"in_input": IMAGES, "out_output": IMAGES[..., :3]},
     "array 'out_output' must have the shape [rows, 1, 1, 4, 4] for the model's output 'output', not [3, 1, 1, 4, 3]",
     None),
    ({"in_input": IMAGES, "out_output": IMAGES.astype("U3")}, "array 'out_output' must hold float32, not <U3", None),
    ({"in_input": IMAGES, "out_output": IMAGES + np.inf},
     "array 'out_output' must hold finite numbers, not inf at [0, 0, 0, 0, 0] (48 such entries)", None),
    ({"in_input": IMAGES, "out_output": IMAGES[:2]},
     "out_output must have one row per input row (3), not float32[2, 1, 1, 4, 4]", None),
]


@pytest.mark.parametrize(("arrays", "message", "read_for"), BAD, ids=[message[:60] for _, message, _ in BAD])
def test_refused(tmp_path: Path, arrays: dict[str, Any], message: str, read_for: Model | None) -> None:
    refused(write(tmp_path, **arrays), message, read_for)


def test_constant_calibration_data(tmp_path: Path) -> None:
    data = load_dataset(write(tmp_path, in_input=IMAGES, calib_input=np.zeros_like(IMAGES)), model())
    assert not data.calibration["input"].any()


def test_labels_of_a_regression(tmp_path: Path) -> None:
    data = load_dataset(write(tmp_path, in_input=IMAGES, labels=np.arange(6.0).reshape(3, 2)), model())
    assert data.labels is not None
    assert data.labels.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_outputs_of_rows_without_the_batch(tmp_path: Path) -> None:
    data = load_dataset(write(tmp_path, in_input=IMAGES, out_output=IMAGES[:, 0]), model())
    assert data.outputs["output"].shape == (3, 1, 1, 4, 4)


def test_classes_and_accuracy() -> None:
    scores = np.array([[[0.1, 0.9]], [[0.8, 0.2]], [[0.3, 0.7]]])
    named = np.array([[1], [0], [0]])
    labels = np.array([1, 0, 1])
    assert classes(scores) is not None
    assert accuracy({"scores": scores}, labels) == 1.0
    assert accuracy({"class": named}, labels) == pytest.approx(2 / 3)
    assert accuracy({"value": np.zeros((3, 1), np.float32), "class": named}, labels) == pytest.approx(2 / 3)
    assert accuracy({"value": np.zeros((3, 1), np.float32)}, labels) is None
