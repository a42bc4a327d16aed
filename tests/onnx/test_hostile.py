"""Files made to do harm: each is refused with a message of its own or lawful, and none takes the process with it.

Each runs in a process with limits of memory and time, through every stage, even where an earlier one has refused it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.onnx.hostile_models import CASES
from tests.onnx.stages import Stages

#: Third-party files that must be refused: by which stage, with a part of its message.
REFUSED = {
    "d02_subgraph_1500.onnx": ("read", "LimitError", "must be nested at most 100 messages"),
    "e01_constantofshape_2e40.onnx": ("evaluate", "LimitError", "at most 2,147,483,648 bytes (tensor_bytes)"),
    "e06_loop_forever.onnx": ("evaluate", "LimitError", "must be at most 100,000 iterations"),
    "e07_scale_nan.onnx": ("check", "HW-01", "must be positive and finite, not nan"),
    "e08_scale_zero.onnx": ("check", "HW-01", "must be positive and finite, not 0.0"),
    "g01_dup_output.onnx": ("check", "NM-06", "must be written once"),
    "g02_cycle.onnx": ("check", "GR-01", "the graph must have no cycle, not a -> b -> a"),
    "g04_unsorted.onnx": ("check", "GR-04", "must be written before it is read"),
    "g05_undefined.onnx": ("check", "NM-14", "must be a value of the graph, not undefined"),
    "g06_dup_init.onnx": ("check", "GR-11", "'w' must be one initializer, not two"),
    "g07_no_graph_name.onnx": ("strict", "GR-02", "the graph must have a name"),
    "g12_unknown_op.onnx": ("check", "OS-08", "not 'NoSuchOp'"),
    "g13_domain_not_imported.onnx": ("check", "OS-08", "operator set 'com.acme' must be imported"),
    "g14_opset_0.onnx": ("check", "OS-05", "the version must be 1 to 28, not 0"),
    "g15_opset_9999.onnx": ("check", "OS-05", "the version must be 1 to 28, not 9999"),
    "g16_no_opset.onnx": ("check", "IR-06", "the model must import an operator set, not none"),
    "g18_ir_0.onnx": ("check", "IR-03", "the IR version must be 1 to 14, not 0"),
    "g19_ir_9999.onnx": ("check", "IR-03", "the IR version must be 1 to 14, not 9999"),
    "g20_attr_two_values.onnx": ("check", "AT-05", "an attribute must have one value, not 2 in f and i"),
    "g21_attr_mismatch.onnx": ("check", "AT-04", "must be in i, not f"),
    "g25_func_self.onnx": ("check", "FN-03", "a function must not call itself"),
    "g26_func_cycle.onnx": ("check", "FN-03", "not as 'loc.Foo' -> 'loc.Bar' -> 'loc.Foo' do"),
    "g39_func_expand_bomb.onnx": ("check", "FN-12", "nodes must be at most 10,000,000 after inlining"),
    "p01_empty.onnx": ("read", "FormatError", "not empty"),
    "p02_truncated.onnx": ("read", "FormatError", "truncated after 40 bytes"),
    "p03_random.onnx": ("read", "FormatError", "must be an ONNX model, not a file that starts with"),
    "p05_wiretype_graph.onnx": ("check", "IR-11", "the model must have a graph, not none"),
    "p07_len_2gb.onnx": ("read", "FormatError", "truncated after 11 bytes (2147483655 bytes announced)"),
    "p09_not_utf8.onnx": ("check", "TY-03", "names must be UTF-8 text, not b'Re\\xff\\xfe'"),
    "t01_dims_2e62.onnx": ("check", "TD-04", "must make fewer than 2^63 bytes, not 18446744073709551616"),
    "t02_dims_overflow.onnx": ("check", "TD-04", "must make fewer than 2^63 bytes, not 295147905179352825856"),
    "t03_neg_dim.onnx": ("check", "TD-04", "the dims must be 0 or more, not [-2]"),
    "t05_raw_short.onnx": ("check", "TD-03", "the data must be 8 bytes for float[2], not 4"),
    "t06_raw_long.onnx": ("check", "TD-03", "the data must be 8 bytes for float[2], not 12"),
    "t09_two_fields.onnx": ("check", "TD-02", "not in raw_data and float_data"),
    "x01_dotdot.onnx": ("check", "EX-02", "must lie in the model's folder, not at '../secret_outside.bin'"),
    "x02_dotdot_inner.onnx": ("check", "EX-02", "not at 'sub/../../secret_outside.bin'"),
    "x03_absolute.onnx": ("check", "EX-02", "must lie in the model's folder, not at '/etc/hostname'"),
    "x04_symlink.onnx": ("check", "EX-02", "must lie in the model's folder, not at 'link.bin'"),
    "x05_symlink_dir.onnx": ("check", "EX-02", "not at 'linkdir/secret_outside.bin'"),
    "x06_hardlink.onnx": ("check", "EX-02", "must be a plain file with a single name, not what 'hard.bin' is"),
    "x07_neg_offset.onnx": ("check", "EX-05", "must be a number of bytes, not '-4'"),
    "x09_huge_length.onnx": ("check", "EX-06", "'length' must be 16 for float[4], not 1125899906842624"),
    "x14_checksum_bad.onnx": ("check", "EX-07", "must have the checksum 0000000000000000000000000000000000000000"),
    "x17_fifo.onnx": ("check", "EX-02", "must be a plain file with a single name, not what 'fifo.bin' is"),
}

#: Strange but lawful; with the warning that they get.
ACCEPTED = {
    "g35_names_pytorch.onnx": "[NM-01 W-name]",
    "p13_unknown_fields.onnx": "[LM-03 W-unknown-field]",
    "t10_zero_dim.onnx": "",
}

#: Everything that a caller may use without `infer`, which wants static shapes.
CALLED = ("read", "check", "load", "evaluate")

#: A model that needs what the limits allow and not much more; in megabytes.
MEMORY = 3500


#: These fill the memory that the limits allow before they are refused, or are as large as a file may be; others reach
#: the same limits sooner.
LONG = ("e06_loop_grows", "e22_concat_chain", "g40_func_chain_5000", "g41_func_ring_3000", "t12_rank_1000000")


@pytest.fixture(scope="module")
def stages() -> Iterator[Stages]:
    with Stages() as process:
        yield process


@pytest.fixture(scope="module")
def folder(hostile_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files with the links and the pipe that they name, and the secret that they are after."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret_outside.bin").write_bytes(bytes(64))
    inside = outside / "hostile"
    shutil.copytree(hostile_dir, inside, copy_function=shutil.copyfile)
    inside.chmod(0o755)
    (inside / "link.bin").symlink_to("../secret_outside.bin")
    (inside / "linkdir").symlink_to("..")
    os.link(outside / "secret_outside.bin", inside / "hard.bin")
    os.mkfifo(inside / "fifo.bin")
    return inside


def require_refused(found: dict[str, Any], stage: str, *texts: str) -> None:
    assert "bug" not in found, found["bug"]
    assert found[stage] != "ok"
    for text in texts:
        assert text in found[stage]
    if stage == "evaluate":
        assert found["structure"] == "ok", "inference alone may see it earlier"
    assert found["megabytes"] < MEMORY


def require_accepted(found: dict[str, Any]) -> None:
    assert "bug" not in found, found["bug"]
    assert {name: found[name] for name in CALLED} == dict.fromkeys(CALLED, "ok")


@pytest.mark.parametrize("name", REFUSED)
def test_refused(stages: Stages, folder: Path, name: str) -> None:
    require_refused(stages.run(folder / name), *REFUSED[name])


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(stages: Stages, folder: Path, name: str) -> None:
    found = stages.run(folder / name)
    require_accepted(found)
    assert ACCEPTED[name] in found["warnings"]


def test_the_outcome_is_that_of_the_manifest(hostile_dir: Path) -> None:
    outcomes = {e["file"]: e["outcome"] for e in json.loads((hostile_dir / "manifest.json").read_text())["files"]}
    assert {name for name, outcome in outcomes.items() if outcome == "reject"} == set(REFUSED)
    assert {name for name, outcome in outcomes.items() if outcome == "warn"} == {n for n, w in ACCEPTED.items() if w}
    assert {name for name, outcome in outcomes.items() if outcome == "accept"} == {
        n for n, w in ACCEPTED.items() if not w
    }


@pytest.mark.rule("LM-01", "LM-02", "LM-04")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
                                  for name in CASES])
def test_made_in_code(stages: Stages, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside.bin").write_bytes(bytes(64))
    found = stages.run(case.write(inside))
    if case.stage is None:
        require_accepted(found)
    else:
        require_refused(found, case.stage, case.text)


@pytest.mark.rule("LM-04")
def test_a_process_that_does_not_end_is_ended(stages: Stages, tmp_path: Path) -> None:
    """What the other tests rely on: a bug would be seen."""
    pipe = tmp_path / "missing" / "model.onnx"
    found = stages.run(pipe)
    assert found["read"].startswith("HwflowError: ")
