"""Data files of the wrong kind, or with arrays of the wrong name, shape, type or content."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np

from tests.e2e.command import Cli
from tests.errors.refusals import Refusal, npz, table

ROWS = np.random.default_rng(0).standard_normal((6, 1, 2, 4, 4)).astype(np.float32)
LARGEST = float(np.abs(ROWS).max())


def zipped(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def packed(header: str, body: bytes = b"") -> bytes:
    """One array, whose header says whatever it says."""
    text = header.encode() + b"\n"
    return zipped("in_x.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body)


def single_array() -> bytes:
    file = io.BytesIO()
    np.save(file, ROWS)
    return file.getvalue()


def damaged_array() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, in_x=ROWS)
    content = bytearray(file.getvalue())
    content[200:260] = bytes(60)
    return bytes(content)


def spoiled(value: float) -> np.ndarray:
    rows: np.ndarray = ROWS.copy()
    rows[3, 0, 1, 2, 2] = value
    return rows


ARRAYS = {
    "name": ({"in_y": ROWS}, "there must be an array 'in_x' or 'x' for the model's input 'x'; it has 'in_y'"),
    "shape": ({"in_x": ROWS[..., :3]}, "array 'in_x' must have the shape [rows, 1, 2, 4, 4] for the model's input 'x', "
              "not [6, 1, 2, 4, 3]"),
    "too large": ({"in_x": ROWS.astype(np.float64) * 1e300},
                  f"array 'in_x' must fit float32, not hold values up to {LARGEST * 1e300:g}"),
    "nan": ({"in_x": spoiled(np.nan)}, "array 'in_x' must hold finite numbers, not nan at [3, 0, 1, 2, 2] "
            "(1 such entries); fill missing values in; only trees and an Imputer take them as they are"),
    "calibration name": ({"in_x": ROWS, "calib_zz": ROWS}, "array 'calib_zz' must be named like an input of the model: "
                         "'calib_x'"),
    "calibration shape": ({"in_x": ROWS, "calib_x": ROWS[..., :1]}, "array 'calib_x' must have the shape [rows, 1, 2, "
                          "4, 4] for the model's input 'x', not [6, 1, 2, 4, 1]"),
    "calibration type": ({"in_x": ROWS, "calib_x": ROWS.astype("U3")}, "array 'calib_x' must hold float32, not <U3"),
    "calibration nan": ({"in_x": ROWS, "calib_x": spoiled(np.inf)}, "array 'calib_x' must hold finite numbers, not inf "
                        "at [3, 0, 1, 2, 2] (1 such entries); fill missing values in; only trees and an Imputer take "
                        "them as they are"),
}

HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': ({},)}}"
OBJECT = np.array([None, 1], dtype=object)
NO_ZIP = "the data must be an NPZ file made with numpy.savez (it is no zip archive)"
NO_NUMBERS = "array 'in_x' must be a plain array of numbers (..."
#: What `d.npz` holds and what is said of it.
FILES = {
    "nothing": (b"", NO_ZIP), "hello": (b"hello", NO_ZIP),
    "objects are not unpickled": (npz(in_x=OBJECT), "array 'in_x' must be a plain array of numbers (Object arrays "
                                  "cannot be loaded when allow_pickle=False); save no objects"),
    "a single array": (single_array(), "the data must be an NPZ file with named arrays, not a single array; use "
                       "numpy.savez"),
    "a damaged array": (damaged_array(), NO_NUMBERS),
    "other things": (zipped("in_x", b"hello, there is no array here"), NO_NUMBERS),
    "all memory": (packed(HEADER.format("<f4", 10**17)),
                   "array 'in_x' must fit this machine's memory; give fewer rows"),
    "many names": (npz(**{f"a{k:03}": ROWS[:1] for k in range(100)}), "there must be an array 'in_x' or 'x' for the "
                   f"model's input 'x'; it has {str([f'a{k:03}' for k in range(12)])[1:-1]}, ... (100 in all)"),
    "a pipe": (os.mkfifo, "the data must be an NPZ file made with numpy.savez (it is a pipe or a device; save it to a "
               "file first)"),
    **{f"truncated at {kept}": (npz(in_x=ROWS)[:int(kept * len(npz(in_x=ROWS)))],
                                "the data must be an NPZ file made with numpy.savez (...") for kept in (0.2, 0.5, 0.9)},
    **{f"header {number}": (packed(header), NO_NUMBERS) for number, header in enumerate((
        HEADER.format("<f4", "1" + 30 * "0"), HEADER.format("<f4", -1), "[" * 9000, "(" * 900 + ")" * 900,
        HEADER.format("hello", 1), "{'descr': '<f4'}"))},
    **{name: (npz(**arrays), message) for name, (arrays, message) in ARRAYS.items()},
}
LARGE = packed(HEADER.format("<f4", 10**6), bytes(4 * 10**6))
SIZE = 4 * 10**6 + 10 + len(HEADER.format("<f4", 10**6)) + 1
NO_OUTPUT = {"d.npz": npz(in_x=ROWS, labels=np.full((6, 3), -1e300))}
BEYOND = "d.npz: array 'labels' must hold numbers up to 3.4e+38, not 1e+300"
#: Of other commands, or without a file.
OTHERS = {
    "no file": Refusal("sim small.onnx --data d.npz", "d.npz: the data file must exist; give an NPZ file made with "
                       "numpy.savez"),
    "golden needs data": Refusal("golden small.onnx", "golden must have inputs to run on; give an NPZ file with --data "
                                 "(docs/data-files.md)"),
    "more than the limit": Refusal(
        "golden small.onnx --data d.npz --limit total_bytes=1000000",
        f"d.npz: the arrays must have at most 1,000,000 bytes in all, not {SIZE:,}; give fewer rows, or if you trust "
        f"the file, --limit total_bytes={SIZE}", {"d.npz": LARGE}),
    "expected values of no output": Refusal(
        "golden small.onnx --data d.npz",
        "d.npz: array 'out_y' must be named like an output of the model: 'out_fc_out'",
        {"d.npz": npz(in_x=ROWS, out_y=ROWS)}),
    "expected values beyond any output": Refusal("golden small.onnx --data d.npz", BEYOND, NO_OUTPUT),
    "labels to search for": Refusal("quantize --accuracy-drop 1 small.onnx --data d.npz", BEYOND, NO_OUTPUT),
}


@table({**{name: Refusal("sim small.onnx --data d.npz", f"d.npz: {message}", {"d.npz": content})
           for name, (content, message) in FILES.items()}, **OTHERS})
def test_data_that_cannot_be_read(cli: Cli, model: Path, refusal: Refusal) -> None:
    assert len(refusal.check(cli)) < 300


def test_what_is_of_no_use_is_not_unpacked(cli: Cli, model: Path) -> None:
    Path("d.npz").write_bytes(npz(in_x=ROWS, other=OBJECT))
    assert cli("golden", model, "--data", "d.npz").code == 0
