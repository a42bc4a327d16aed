"""Files made to do harm: each is refused with a message of its own, at the latest by inference."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from hwflow.errors import HwflowError
from hwflow.onnx import infer, load

#: What must be refused, with a part of the message; in the order load, check, infer.
REFUSED = {
    "d02_subgraph_1500.onnx": "nested deeper than 100 messages",
    "e01_constantofshape_2e40.onnx": "a tensor must be at most 2,147,483,648 bytes (tensor_bytes), not 4,398,046,511,104",
    "e06_loop_forever.onnx": "not 'Loop'",
    "e07_scale_nan.onnx": "must be positive and finite, not nan",
    "e08_scale_zero.onnx": "must be positive and finite, not 0.0",
    "g01_dup_output.onnx": "[value-once]",
    "g02_cycle.onnx": "[value-order]",
    "g04_unsorted.onnx": "[value-order]",
    "g05_undefined.onnx": "[value-defined]",
    "g06_dup_init.onnx": "initializer 'w' must be there once, not twice",
    "g07_no_graph_name.onnx": "[graph-name]",
    "g12_unknown_op.onnx": "[op-known]",
    "g13_domain_not_imported.onnx": "[opset-import]",
    "g14_opset_0.onnx": "[opset-version]",
    "g15_opset_9999.onnx": "[opset-version]",
    "g16_no_opset.onnx": "[opset-import]",
    "g18_ir_0.onnx": "the IR version of the model must be 1 to 14, not 0",
    "g19_ir_9999.onnx": "the IR version of the model must be 1 to 14, not 9999",
    "g20_attr_two_values.onnx": "must have one value of type FLOAT, not `f` and `i`",
    "g21_attr_mismatch.onnx": "must have one value of type INT, not `f`",
    "g25_func_self.onnx": "functions of the model must be inlined",
    "g26_func_cycle.onnx": "functions of the model must be inlined",
    "g39_func_expand_bomb.onnx": "functions of the model must be inlined",
    "p01_empty.onnx": "not empty",
    "p02_truncated.onnx": "truncated after 40 bytes",
    "p03_random.onnx": "must be an ONNX model, not a file that starts with",
    "p05_wiretype_graph.onnx": "the model must have a graph, not none",
    "p07_len_2gb.onnx": "truncated after 11 bytes (2147483655 bytes announced)",
    "p09_not_utf8.onnx": "names must be UTF-8 text, not b'Re\\xff\\xfe'",
    "t01_dims_2e62.onnx": "must hold 18446744073709551616 bytes",
    "t02_dims_overflow.onnx": "must hold 295147905179352825856 bytes",
    "t03_neg_dim.onnx": "must not be negative, not [-2]",
    "t05_raw_short.onnx": "must hold 8 bytes for float32[2], not 4",
    "t06_raw_long.onnx": "must hold 8 bytes for float32[2], not 12",
    "t09_two_fields.onnx": "not in raw_data and float_data",
    "x01_dotdot.onnx": "must lie in the model's folder, not at '../secret_outside.bin'",
    "x02_dotdot_inner.onnx": "must lie in the model's folder, not at 'sub/../../secret_outside.bin'",
    "x03_absolute.onnx": "must lie in the model's folder, not at '/etc/hostname'",
    "x04_symlink.onnx": "must lie in the model's folder, not at 'link.bin'",
    "x05_symlink_dir.onnx": "must lie in the model's folder, not at 'linkdir/secret_outside.bin'",
    "x06_hardlink.onnx": "must be a plain file with a single name, not what 'hard.bin' is",
    "x07_neg_offset.onnx": "must be a number of bytes, not '-4'",
    "x09_huge_length.onnx": "must be 16 bytes long, not 1125899906842624",
    "x14_checksum_bad.onnx": "must have the checksum 0000000000000000000000000000000000000000",
    "x17_fifo.onnx": "must be a plain file with a single name, not what 'fifo.bin' is",
}

#: Strange but lawful.
ACCEPTED = ("g35_names_pytorch.onnx", "p13_unknown_fields.onnx", "t10_zero_dim.onnx")


@pytest.fixture
def folder(hostile_dir: Path, tmp_path: Path) -> Path:
    """A copy of the files with the links and the pipe that they name, and the secret that they are after."""
    (tmp_path / "secret_outside.bin").write_bytes(bytes(64))
    inside = tmp_path / "hostile"
    shutil.copytree(hostile_dir, inside, copy_function=shutil.copyfile)
    inside.chmod(0o755)
    (inside / "link.bin").symlink_to("../secret_outside.bin")
    (inside / "linkdir").symlink_to("..")
    os.link(tmp_path / "secret_outside.bin", inside / "hard.bin")
    os.mkfifo(inside / "fifo.bin")
    return inside


@pytest.mark.parametrize("name", REFUSED)
def test_refused(folder: Path, name) -> None:
    with pytest.raises(HwflowError) as caught:
        infer(load(folder / name))
    assert REFUSED[name] in str(caught.value)


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(folder: Path, name) -> None:
    infer(load(folder / name))


def test_every_file_is_in_one_of_the_lists(hostile_dir: Path) -> None:
    manifest = json.loads((hostile_dir / "manifest.json").read_text())
    assert {entry["file"] for entry in manifest["files"]} == set(REFUSED) | set(ACCEPTED)
