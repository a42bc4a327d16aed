"""Data files of the wrong kind, or with arrays of the wrong name, shape, type or content."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.command import Cli

ROWS = np.random.default_rng(0).standard_normal((6, 1, 2, 4, 4)).astype(np.float32)
LARGEST = float(np.abs(ROWS).max())


def spoiled(value: float) -> np.ndarray:
    rows: np.ndarray = ROWS.copy()
    rows[3, 0, 1, 2, 2] = value
    return rows


ARRAYS = {
    "name": ({"in_y": ROWS}, "there must be an array 'in_x' or 'x' for the model's input 'x'; it has 'in_y'"),
    "shape": ({"in_x": ROWS[..., :3]}, "array 'in_x' must have the shape [rows, 1, 2, 4, 4] for the model's input 'x', "
              "not [6, 1, 2, 4, 3]"),
    "text": ({"in_x": ROWS.astype("U3")}, "array 'in_x' must hold float32, not <U3"),
    "complex": ({"in_x": ROWS.astype(np.complex64)}, "array 'in_x' must hold float32, not complex64"),
    "too large": ({"in_x": ROWS.astype(np.float64) * 1e300},
                  f"array 'in_x' must fit float32, not hold values up to {LARGEST * 1e300:g}"),
    "nan": ({"in_x": spoiled(np.nan)}, "array 'in_x' must hold finite numbers, not nan at [3, 0, 1, 2, 2] "
            "(1 such entries); fill missing values in; only trees and an Imputer take them as they are"),
    "no rows": ({"in_x": ROWS[:0]}, "array 'in_x' must have at least one row, not none"),
    "labels": ({"in_x": ROWS, "labels": np.arange(3)}, "labels must be one integer or text per input row, int64[6], or "
               "real numbers for each, float32[6, ...], not int64[3]"),
    "outputs": ({"in_x": ROWS, "out_fc_out": np.zeros((2, 1, 3))}, "out_fc_out must have one row per input row (6), "
                "not float64[2, 1, 3]"),
    "calibration name": ({"in_x": ROWS, "calib_zz": ROWS}, "array 'calib_zz' must be named like an input of the model: "
                         "'calib_x'"),
    "calibration shape": ({"in_x": ROWS, "calib_x": ROWS[..., :1]}, "array 'calib_x' must have the shape [rows, 1, 2, "
                          "4, 4] for the model's input 'x', not [6, 1, 2, 4, 1]"),
    "calibration type": ({"in_x": ROWS, "calib_x": ROWS.astype("U3")}, "array 'calib_x' must hold float32, not <U3"),
    "calibration nan": ({"in_x": ROWS, "calib_x": spoiled(np.inf)}, "array 'calib_x' must hold finite numbers, not inf "
                        "at [3, 0, 1, 2, 2] (1 such entries); fill missing values in; only trees and an Imputer take "
                        "them as they are"),
}


@pytest.mark.parametrize("arrays, message", ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_do_not_fit(cli: Cli, model: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez("d.npz", allow_pickle=False, **arrays)
    assert cli.refuses("sim", model, "--data", "d.npz") == f"d.npz: {message}"


def test_objects_are_not_unpickled(cli: Cli, model: Path) -> None:
    np.savez("d.npz", in_x=np.array([None, 1], dtype=object), allow_pickle=True)
    assert cli.refuses("quantize", model, "--data", "d.npz") == (
        "d.npz: array 'in_x' must be a plain array of numbers (Object arrays cannot be loaded when "
        "allow_pickle=False); save no objects")


def test_a_file_that_is_not_there(cli: Cli, model: Path) -> None:
    assert cli.refuses("sim", model, "--data", "d.npz") == (
        "d.npz: the data file must exist; give an NPZ file made with numpy.savez")


@pytest.mark.parametrize("content", [b"", b"hello"])
def test_a_file_of_another_kind(cli: Cli, model: Path, content: bytes) -> None:
    Path("d.npz").write_bytes(content)
    assert cli.refuses("sim", model, "--data", "d.npz") == (
        "d.npz: the data must be an NPZ file made with numpy.savez (it is no zip archive)")


def test_a_single_array(cli: Cli, model: Path) -> None:
    with Path("d.npz").open("wb") as file:
        np.save(file, ROWS)
    assert cli.refuses("sim", model, "--data", "d.npz") == (
        "d.npz: the data must be an NPZ file with named arrays, not a single array; use numpy.savez")


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9])
def test_a_truncated_file(cli: Cli, model: Path, data: Path, kept: float) -> None:
    content = data.read_bytes()
    Path("d.npz").write_bytes(content[:int(kept * len(content))])
    message = cli.refuses("sim", model, "--data", "d.npz")
    assert message.startswith("d.npz: the data must be an NPZ file made with numpy.savez (")


def test_a_damaged_array(cli: Cli, model: Path) -> None:
    np.savez_compressed("whole.npz", in_x=ROWS)
    content = bytearray(Path("whole.npz").read_bytes())
    content[200:260] = bytes(60)
    Path("d.npz").write_bytes(content)
    message = cli.refuses("sim", model, "--data", "d.npz")
    assert message.startswith("d.npz: array 'in_x' must be a plain array of numbers (")


def test_golden_needs_data(cli: Cli, model: Path) -> None:
    assert cli.refuses("golden", model) == (
        "golden must have inputs to run on; give an NPZ file with --data (docs/data-files.md)")


def packed(header: str, name: str = "in_x.npy", body: bytes = b"") -> None:
    """`d.npz` with one array, whose header says whatever it says."""
    text = header.encode() + b"\n"
    with zipfile.ZipFile("d.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body)


HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': ({},)}}"


@pytest.mark.parametrize("header", [HEADER.format("<f4", "1" + 30 * "0"), HEADER.format("<f4", -1), "[" * 9000,
                                    "(" * 900 + ")" * 900, HEADER.format("hello", 1), "{'descr': '<f4'}"])
def test_headers_that_lie(cli: Cli, model: Path, header: str) -> None:
    packed(header)
    message = cli.refuses("sim", model, "--data", "d.npz")
    assert message.startswith("d.npz: array 'in_x' must be a plain array of numbers (")
    assert len(message) < 300


def test_a_header_that_asks_for_all_memory(cli: Cli, model: Path) -> None:
    packed(HEADER.format("<f4", 10**17))
    assert cli.refuses("sim", model, "--data", "d.npz") == (
        "d.npz: array 'in_x' must fit this machine's memory; give fewer rows")


def test_an_archive_of_other_things(cli: Cli, model: Path) -> None:
    with zipfile.ZipFile("d.npz", "w") as archive:
        archive.writestr("in_x", b"hello, there is no array here")
    assert cli.refuses("sim", model, "--data", "d.npz").startswith(
        "d.npz: array 'in_x' must be a plain array of numbers (")


def test_an_archive_that_unpacks_to_more_than_the_limit(cli: Cli, model: Path) -> None:
    packed(HEADER.format("<f4", 10**6), body=bytes(4 * 10**6))
    message = cli.refuses("golden", model, "--data", "d.npz", "--limit", "total_bytes=1000000")
    size = zipfile.ZipFile("d.npz").infolist()[0].file_size
    assert message == (f"d.npz: the arrays must have at most 1,000,000 bytes in all, not {size:,}; give fewer rows, or "
                       f"if you trust the file, --limit total_bytes={size}")


def test_what_is_of_no_use_is_not_unpacked(cli: Cli, model: Path) -> None:
    np.savez("d.npz", in_x=ROWS, other=np.array([None], dtype=object), allow_pickle=True)
    assert cli("golden", model, "--data", "d.npz").code == 0


def test_only_some_of_many_names_are_listed(cli: Cli, model: Path) -> None:
    np.savez("d.npz", allow_pickle=False, **{f"a{k:03}": ROWS[:1] for k in range(100)})
    assert cli.refuses("sim", model, "--data", "d.npz") == (
        "d.npz: there must be an array 'in_x' or 'x' for the model's input 'x'; it has "
        + ", ".join(f"'a{k:03}'" for k in range(12)) + ", ... (100 in all)")


def test_a_pipe_in_place_of_the_data(cli: Cli, model: Path) -> None:
    os.mkfifo("d.npz")
    assert cli.refuses("sim", model, "--data", "d.npz") == (
        "d.npz: the data must be an NPZ file made with numpy.savez (it is a pipe or a device; save it to a file first)")


def test_expected_values_of_no_output(cli: Cli, model: Path) -> None:
    np.savez("d.npz", allow_pickle=False, in_x=ROWS, out_y=ROWS)
    assert cli.refuses("golden", model, "--data", "d.npz") == (
        "d.npz: array 'out_y' must be named like an output of the model: 'out_fc_out'")


def test_expected_values_beyond_any_output(cli: Cli, model: Path) -> None:
    np.savez("d.npz", allow_pickle=False, in_x=ROWS, labels=np.full((6, 3), -1e300))
    for words in (("golden",), ("quantize", "--accuracy-drop", "1")):
        assert cli.refuses(*words, model, "--data", "d.npz") == (
            "d.npz: array 'labels' must hold numbers up to 3.4e+38, not 1e+300")
