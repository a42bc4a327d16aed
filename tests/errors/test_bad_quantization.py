"""Calibration data, labels, settings, widths and targets of an export that do not fit, and what they leave behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import yaml

from hwflow import onnx
from hwflow.onnx.build import Builder
from tests.e2e.command import Cli
from tests.e2e.networks import rows_for, small_network
from tests.errors.refusals import Refusal, npz, table
from tests.errors.test_bad_outputs import big_network

ROWS = rows_for(small_network(), 6)["x"]
FILL_IN = "; fill missing values in; only trees and an Imputer take them as they are"
BITS = ("must be the bits of weights, 1 to 8, or of weights and activations, 1 to 16, like 4 or 4,8; see `hwflow "
        "quantize --help`")
FORM = "labels must be one integer or text per input row, int64[6], or real numbers for each, float32[6, ...], not"


def two_inputs() -> onnx.Model:
    b = Builder("two")
    x, y = (b.input(name, np.float32, (1, 4)) for name in ("x", "y"))
    b.output(b.node("Add", x, y, name="add"), np.float32, (1, 4))
    return b.model()


def test_calibration_that_does_not_cover_an_input(cli: Cli) -> None:
    onnx.save(two_inputs(), "two.onnx")
    rows = np.zeros((3, 1, 4), np.float32)
    np.savez("d.npz", in_x=rows, in_y=rows, calib_x=rows)
    for command in ("quantize", "golden"):
        assert cli.refuses(command, "two.onnx", "--data", "d.npz") == (
            "d.npz: there must be an array 'calib_y' for the model's input 'y'; it has 'calib_x', 'in_x', 'in_y'")
    assert not Path("build/two/quantized").exists()


@pytest.mark.parametrize("value", [0.0, 2.5, -1e-30])
def test_constant_calibration_works(cli: Cli, model: Path, value: float) -> None:
    """A range of one value is a range, and what other rows do beyond it saturates."""
    np.savez("d.npz", in_x=ROWS, calib_x=np.full_like(ROWS, value))
    done = cli("golden", model, "--data", "d.npz", "--json")
    assert done.code == 0, done
    assert done.json["accuracy"]["rows"] == 6


#: What stands for the calibration rows and for the labels, and what is said of it.
CALIBRATIONS = {
    "empty": (ROWS[:0], "must have at least one row, not none"),
    "nan": (ROWS * np.float32(np.nan),
            f"must hold finite numbers, not nan at [0, 0, 0, 0, 0] (192 such entries){FILL_IN}"),
    "infinite": (np.where(ROWS[2, 0, 1, 3, 3] == ROWS, -np.inf, ROWS),
                 f"must hold finite numbers, not -inf at [2, 0, 1, 3, 3] (1 such entries){FILL_IN}"),
}
LABELS = {
    "length": (np.arange(5), f"{FORM} int64[5]"),
    "one-hot": (np.zeros((6, 3), np.int64), f"{FORM} int64[6, 3]"),
    "text": (np.array(list("abcabc")), "labels must be integers, as no output of the model names classes by texts; "
             "store the number of each class: np.unique(labels, return_inverse=True)[1]"),
    "complex": (np.zeros(6, np.complex64), f"{FORM} complex64[6]"),
    "nan": (np.full(6, np.nan), "array 'labels' must hold finite numbers, not nan at [0] (6 such entries)"),
    "real": (np.arange(6.0), "labels must have one real number per element of an output (3 for 'fc_out'), or be "
             "integers that name classes, not float64[6]"),
    "beyond": (np.arange(1, 7), "labels must be from 0 to 2, because output 'fc_out' has 3 scores, not from 1 to 6; "
               "number the classes in the order of the scores"),
}
SETTINGS = {
    "layer": ("layers: {cinv: {weights: {bits: 4}}}",
              "settings s.yaml: layers/cinv must name a node of the model; did you mean 'conv'?"),
    "input": ("inputs: {y: {bits: 4}}", "settings s.yaml: inputs/y must name an input of the model; there are x"),
    "width 0": ("default: {weights: {bits: 0}}",
                "settings s.yaml: default/weights/bits must be a whole number from 1 to 16, not 0"),
    "width 17": ("layers: {conv: {output: {bits: 17}}}",
                 "settings s.yaml: layers/conv/output/bits must be a whole number from 1 to 16, not 17"),
    "key": ("defualt: {}", "settings s.yaml: the file must have no key 'defualt', only default, equalize, "
            "hardware_argmax, inputs, joint_steps, layers; did you mean 'default'?"),
    "width as text": ("default: {weights: {bits: '8'}}",
                      "settings s.yaml: default/weights/bits must be a whole number from 1 to 16, not '8'"),
    "endless": ("inputs: {x: {range: [0, 1e400]}}",
                "settings s.yaml: inputs/x/range/1 must be a finite number, not inf"),
    "control": ("default: {}\x07", "settings s.yaml: must be plain YAML: special characters are not allowed"),
    "no YAML": ("a: [1,", "settings s.yaml, line 2: must be plain YAML: expected the node content, but found "
                "'<stream end>'"),
    "a list": ("[1, 2]", "settings s.yaml: the file must be a mapping with the keys default, equalize, "
               "hardware_argmax, inputs, joint_steps and layers, not [1, 2]"),
    "an object": ("default: !!python/object:os.system {}", "settings s.yaml, line 1: must be plain YAML: could not "
                  "determine a constructor for the tag 'tag:yaml.org,2002:python/object:os.system'"),
}


READABLE = "must be a readable text file:"
NO_FILE = f"{READABLE} it is a pipe or a device; save it to a file first"
QUANTIZE = "quantize small.onnx --data small.npz"


@table({
    **{f"calibration {name}": Refusal("quantize small.onnx --data d.npz", f"d.npz: array 'calib_x' {message}",
                                      {"d.npz": npz(in_x=ROWS, calib_x=rows)})
       for name, (rows, message) in CALIBRATIONS.items()},
    **{f"labels {name}": Refusal("golden small.onnx --data d.npz", f"d.npz: {message}",
                                 {"d.npz": npz(in_x=ROWS, labels=labels)})
       for name, (labels, message) in LABELS.items()},
    **{f"settings {name}, {command}": Refusal(f"{command} small.onnx --data small.npz --settings s.yaml", message,
                                              {"s.yaml": f"{text}\n"})
       for name, (text, message) in SETTINGS.items() for command in ("quantize", "sim")},
    "no settings": Refusal(f"{QUANTIZE} --settings none.yaml", f"'none.yaml' {READABLE} No such file or directory"),
    "no text": Refusal(f"{QUANTIZE} --settings s.yaml", f"'s.yaml' {READABLE} it is not text",
                       {"s.yaml": b"\xff\xfe\x00"}),
    "a folder": Refusal(f"{QUANTIZE} --settings .", f"'.' {READABLE} Is a directory"),
    **{f"{words} {name}": Refusal(f"{words} {name}", f"'{name}' {NO_FILE}", files)
       for words in ("quantize small.onnx --settings", "build small.onnx --plan")
       for name, files in (("/dev/zero", {}), ("pipe.yaml", {"pipe.yaml": os.mkfifo}))},
    **{f"bits {bits}": Refusal(f"quantize small.onnx --bits {bits}", f"Invalid value for '--bits': {bits!r} {BITS}")
       for bits in ("0", "9", "4,17", "0,8", "4,4,4", "four", "4,", "-4", "4.5")},
    "widths twice": Refusal("build small.onnx --bits 4 --settings s.yaml", "--bits must not be given together with "
                            "--settings: leave one of them out; see `hwflow build --help`", {"s.yaml": ""}),
})
def test_refused_before_anything_is_kept(cli: Cli, model: Path, data: Path, refusal: Refusal) -> None:
    refusal.check(cli)
    assert not Path("build/small/golden").exists()
    assert refusal.words.startswith("golden") or not Path("build/small/quantized").exists()


def test_no_widths(cli: Cli, model: Path) -> None:
    assert cli.refuses("quantize", model, "--bits", "") == f"Invalid value for '--bits': '' {BITS}"


@pytest.mark.parametrize("text", ["[0, 1e2]", "[-1e-3, .5e+2]", "[-1E2, 2.e0]"])
def test_ranges_as_people_write_numbers(cli: Cli, model: Path, data: Path, text: str) -> None:
    Path("s.yaml").write_text(f"inputs: {{x: {{range: {text}}}}}\n")
    assert cli("quantize", model, "--data", data, "--settings", "s.yaml").code == 0
    low, high = (float(end) for end in text.strip("[]").split(","))
    assert yaml.safe_load(Path("build/small/quantize.yaml").read_text())["inputs"]["x"]["range"] == [low, high]


def exports(model: Path | str, target: Path | str) -> tuple[str, ...]:
    return ("quantize", str(model), "--export", str(target))


def test_the_export_does_not_take_the_place_of_the_model(cli: Cli, model: Path) -> None:
    before = model.read_bytes()
    Path("link.onnx").symlink_to("small.onnx")
    os.link("small.onnx", "hard.onnx")
    for target in ("small.onnx", "link.onnx", "hard.onnx", "./small.onnx"):
        assert cli.refuses(*exports(model, target)) == (
            f"{Path(target)}: must not be the model itself; choose another name with --export")
    assert model.read_bytes() == before


def test_the_export_does_not_take_the_place_of_the_weights(cli: Cli) -> None:
    onnx.save(big_network(), "a.onnx", external="weights.bin")
    before = Path("weights.bin").read_bytes()
    assert cli.refuses(*exports("a.onnx", "weights.bin")) == (
        "weights.bin: must not be the file that has the weights of a.onnx; choose another name")
    assert Path("weights.bin").read_bytes() == before


def test_the_export_does_not_take_the_place_of_what_was_read(cli: Cli, model: Path, data: Path) -> None:
    Path("s.yaml").write_text("default: {weights: {bits: 4}}\n")
    Path("link").symlink_to("small.npz")
    Path("new").mkdir()
    before = {path: path.read_bytes() for path in (model, data, Path("s.yaml"))}
    targets = {"new/../small.onnx": "the model", "small.npz": "the data", "link": "the data", "s.yaml": "the settings"}
    for target, what in targets.items():
        assert cli.refuses(*exports(model, target), "--data", data, "--settings", "s.yaml") == (
            f"{target}: must not be {what} itself; choose another name with --export")
    assert {path: path.read_bytes() for path in before} == before


def test_ends_of_a_clip_that_are_no_numbers(cli: Cli) -> None:
    b = Builder("clip")
    scale, zero = b.constant("scale", np.float32(0.1)), b.constant("zero", np.int8(0))
    x = b.node("QuantizeLinear", b.input("x", np.float32, (1, 2)), scale, zero)
    ends = (b.constant("low", np.array([-8, -8], np.int8)), b.constant("high", np.array([7, 7], np.int8)))
    b.output(b.node("DequantizeLinear", b.node("Clip", x, *ends, name="clip"), scale, zero), np.float32, (1, 2))
    onnx.save(b.model(), "clip.onnx")
    assert cli.refuses("quantize", "clip.onnx").startswith(
        "clip.onnx: graph/node[1] 'clip' (Clip): input 'min' must be one number, not have the shape [2]")


def test_a_place_where_nothing_can_be_written(cli: Cli, model: Path) -> None:
    os.mkfifo("pipe")
    Path("folder").mkdir()
    messages = {
        "small.onnx/q.onnx": "small.onnx/q.onnx: the folder 'small.onnx' must exist and be writable; make it, or "
                             "choose another place with --export",
        "pipe": "pipe: must be the name of a file to write, not a pipe or a device; choose another name",
        "folder": "folder: must be the name of a file to write, not a folder; add the file's name",
    }
    for target, message in messages.items():
        assert cli.refuses(*exports(model, target)) == message
    assert sorted(os.listdir()) == ["folder", "pipe", "small.onnx"], "refused before anything was computed"


@pytest.mark.parametrize(("words", "option"), [
    (("quantize", "small.onnx", "--export", "new/x"), " with --export"),
    (("info", "small.onnx", "--svg", "new/x"), " with --svg"),
    (("onnx", "convert", "small.onnx", "new/x"), ""), (("onnx", "extract", "small.onnx", "new/x"), "")])
def test_no_command_makes_the_folder_of_a_file(cli: Cli, model: Path, words: tuple[str, ...], option: str) -> None:
    """What a command names itself is below --build; a file that the user names is in a folder that is there."""
    assert model.name == "small.onnx"
    assert cli.refuses(*words) == (
        f"new/x: the folder 'new' must exist and be writable; make it, or choose another place{option}")
    assert os.listdir() == ["small.onnx"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(cli: Cli, model: Path) -> None:
    Path("locked").mkdir(mode=0o555)
    assert cli.refuses(*exports(model, "locked/q.onnx")) == (
        "locked/q.onnx: the folder 'locked' must exist and be writable; make it, or choose another place with --export")


def test_an_export_that_fails_leaves_the_old_file(cli: Cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk when the finished file takes the place of the old one."""
    replace_ = Path.replace
    Path("q.onnx").write_text("old")

    def full(self: Path, target: Path) -> Path:
        if Path(target).name == "q.onnx":
            raise OSError(errno.ENOSPC, "No space left on device", "q.onnx")
        return replace_(self, target)

    monkeypatch.setattr(Path, "replace", full)
    assert cli.refuses(*exports(model, "q.onnx")) == (
        "q.onnx: the folder must exist and be writable (No space left on device); choose another place for the model")
    assert Path("q.onnx").read_text() == "old"
    assert sorted(os.listdir()) == ["build", "q.onnx", "small.onnx"]


@pytest.mark.parametrize(
    ("scale", "zero", "axis", "message"),
    [
        ([0.1, 0.2], [0, 0], 1, "scale and zero point must have the shape [3] of axis 1, not [2]"),
        ([0.1] * 3, [0, 0], 1, "scale and zero point must have the shape [3] of axis 1, not [2]"),
        ([], [], 0, "scale and zero point must have the shape [4] of axis 0, not [0]"),
        ([0.1] * 3, [0] * 3, 7, "the axis must be -2 to 1, not 7"),
    ],
)
def test_scales_of_the_wrong_length(cli: Cli, scale: list[float], zero: list[int], axis: int, message: str) -> None:
    b = Builder("scales")
    parts = [b.constant("w", np.ones((4, 3), np.int8)), b.constant("scale", np.array(scale, np.float32)),
             b.constant("zero", np.array(zero, np.int8))]
    w = b.node("DequantizeLinear", *parts, name="weights", axis=axis)
    b.output(b.node("MatMul", b.input("x", np.float32, (1, 4)), w, name="fc"), np.float32, (1, 3))
    onnx.save(b.model(), "scales.onnx")
    assert cli.refuses("quantize", "scales.onnx") == (
        f"scales.onnx: graph/node[0] 'weights' (DequantizeLinear): {message}; export the model again [SH-08]")
