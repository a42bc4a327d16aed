"""The sections that show records: their numbers are those that numpy and ONNX Runtime compute of the same data, and
whatever stands in a record, the page has no element of it."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from hwflow import HwflowError
from hwflow.cli.golden import GoldenRequest, golden
from hwflow.cli.quantize import QuantizeRequest, quantize
from hwflow.cli.sim import SimRequest, sim
from hwflow.golden import run, run_prologue
from hwflow.options import Project
from hwflow.pipeline import records
from hwflow.pipeline.pipeline import Pipeline
from hwflow.views.console.terminal import Console
from hwflow.views.page import Subject
from hwflow.views.page.document import subject_of
from hwflow.views.page.sections import accuracy, proof
from tests.e2e.command import Outcome

HOSTILE = "\"'></script></title><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e"


@pytest.fixture(scope="module")
def own(simulated: tuple[Path, Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder where the small model was simulated, after `hwflow golden` and `hwflow sim` there."""
    folder = tmp_path_factory.mktemp("records") / "small"
    shutil.copytree(simulated[0], folder, symlinks=True)
    project = Project(Path("small.onnx"), data=Path("small.npz"))
    with contextlib.chdir(folder):
        golden(Console(quiet=True), GoldenRequest(project))
        sim(Console(quiet=True), SimRequest(project))
    return folder


@pytest.fixture
def subject(own: Path, monkeypatch: pytest.MonkeyPatch) -> Subject:
    """What a report of that model is made of."""
    monkeypatch.chdir(own)
    return subject_of(Pipeline(Console(quiet=True), Project(Path("small.onnx"), data=Path("small.npz"))))


@dataclass
class Page(HTMLParser):
    """The elements of a page, its attributes, and its text by the element around it."""

    tags: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    texts: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.tags[-1], data))

    def all(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]


def read(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    return page


def test_the_numbers_are_those_of_numpy_and_onnx_runtime(subject: Subject) -> None:
    with np.load("small.npz") as archive:
        x, labels = archive["in_x"], archive["labels"]
    with np.load("build/small/golden/outputs.npz") as archive:
        integer = next(iter(archive.values())).reshape(len(labels), -1)
    session = onnxruntime.InferenceSession("small.onnx")
    (name,) = (each.name for each in session.get_inputs())
    real = np.stack([session.run(None, {name: row})[0].ravel() for row in x.reshape(len(labels), 1, 2, 4, 4)])
    page = read(accuracy.section(subject).body)
    shares = [f"{100 * np.mean(made.argmax(1) == labels):.2f} %" for made in (real, integer)]
    assert page.all("dd")[:3] == ["12", *shares]
    power, noise = np.square(real).sum(), np.square(integer - real).sum()
    assert f"{10 * np.log10(power / noise):.1f} dB signal to noise" in page.all("dd")
    cells = {tuple(map(int, found)) for text in page.all("title") for found in re.findall(
        r"^label (\d+), answer (\d+): (\d+) of (\d+)$", text)}
    counts = Counter(zip(labels.tolist(), integer.argmax(1).tolist(), strict=True))
    assert cells == {(label, found, counts[label, found], int((labels == label).sum()))
                     for label in range(real.shape[1]) for found in range(real.shape[1])}
    wrong_only = (real.argmax(1) == labels) & (integer.argmax(1) != labels)
    first = page.all("b")[: int(wrong_only.sum())]
    assert {text.removeprefix("Row ") for text in first} == {str(row) for row in np.flatnonzero(wrong_only)}


def test_the_digests_are_those_of_the_integers(subject: Subject) -> None:
    """Both runs of the RTL have the digests of the frames and of the golden model's results, made here once more."""
    with np.load("small.npz") as archive:
        rows = {"x": archive["in_x"][:10].reshape(10, 1, 2, 4, 4)}
    graph, values = subject.graph, run(subject.quantized, run_prologue(subject.quantized, rows))
    text = read(proof.section(subject).body).all("dd")
    for names in (graph.inputs, graph.outputs):
        total = hashlib.sha256()
        for name in names:
            array = values[name].astype("<i8")
            for part in (name.encode(), f"<i8{array.shape}".encode() + array.tobytes()):
                total.update(len(part).to_bytes(8, "little") + part)
        assert text.count(total.hexdigest()) == 2


def test_what_was_run_with_another_design_is_not_shown(subject: Subject) -> None:
    assert "equal, bit for bit" in proof.section(subject).body
    other = replace(subject, design="0" * 16, integers="0" * 64)
    body = proof.section(other).body
    assert body.count("not run with this design: the record in the build folder is of another one") == 3
    assert "equal, bit for bit" not in body
    assert "1 of 9 checks of the hardware were made" in body
    assert proof.section(other).missing == "hwflow sim small.onnx --data small.npz"
    section = accuracy.section(other)
    assert "was measured of other integers" in section.body
    assert section.missing == "hwflow golden small.onnx --data small.npz"
    assert "was measured on other rows" in accuracy.section(replace(subject, rows="0" * 64)).body
    assert "was not measured" in accuracy.section(replace(subject, folder=Path("nowhere"))).body


@pytest.mark.slow
@pytest.mark.parametrize("command", [
    lambda project: sim(Console(quiet=True), SimRequest(project, frames=1)),
    lambda project: quantize(Console(quiet=True), QuantizeRequest(project)),
], ids=["sim", "quantize"])
def test_what_other_commands_measured_is_shown(simulated: tuple[Path, Outcome], tmp_path: Path, command: Any,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `hwflow golden`; and what that adds stays when they run again."""
    shutil.copytree(simulated[0], tmp_path / "small", symlinks=True)
    monkeypatch.chdir(tmp_path / "small")
    shutil.rmtree("build/small/records", ignore_errors=True)
    project = Project(Path("small.onnx"), data=Path("small.npz"))
    command(project)
    subject = subject_of(Pipeline(Console(quiet=True), project))
    section = accuracy.section(subject)
    assert "was not measured" not in section.body
    assert "top-1, integer" in section.body
    assert section.missing == "hwflow golden small.onnx --data small.npz --layer-rows 16"
    golden(Console(quiet=True), GoldenRequest(project))
    kept = Path("build/small/records/accuracy.json").read_bytes()
    command(project)
    assert Path("build/small/records/accuracy.json").read_bytes() == kept
    assert "Noise of the layers" in accuracy.section(subject).body
    Path("build/small/records/accuracy.json").write_text("no record")
    command(project)
    assert "top-1, integer" in accuracy.section(subject).body


NETLIST = {"netlist": "n.json", "board": "ulx3s_85f", "digest": "9" * 64, "cells": {"LUT4": 1200, "DFF": 34},
           "frames": 3, "bytes_compared": 12, "cycles": 4567, "seconds": 1.5, "difference": None, "played": "1" * 64,
           "results": "2" * 64, "equal": True, "data": None, "seed": 7}
BOARD = {"equal": False, "rows": 5, "data": {"file": "small.npz"}, "design": "abcd", "port": "/dev/ttyUSB0",
         "frames_per_second": 1234.5, "link": {"packets_sent": 8, "resent": 1, "packets_received": 9},
         "played": "3" * 64, "results": "", "differences": [
             {"output": "y", "elements": 2, "frames": 1, "frame": 4, "golden": 5, "board": 6}]}


def test_a_netlist_that_is_equal_and_a_board_that_is_not(subject: Subject, tmp_path: Path) -> None:
    there = replace(subject, board_folder=tmp_path)
    records.keep(tmp_path, "netlist", subject.design, NETLIST, {"yosys": "0.64 (wheel)"})
    section = proof.section(there)
    text = read(section.body).all("dd")
    assert {"3 of random integers, seed 7", "1,234 cells, SHA-256 " + "9" * 64, "2" * 64} <= set(text)
    assert any("yosys 0.64 (wheel)" in line for line in text)
    assert "3 of 9 checks of the hardware were made; the golden model and the hardware were equal" in section.body
    assert section.missing is None
    records.keep(tmp_path, "bitstream", subject.design, {**NETLIST, "bitstream": "top.bit", "digest": "8" * 64})
    assert "1,234 cells, SHA-256 " + "8" * 64 in read(proof.section(there).body).all("dd")
    records.keep(tmp_path, "board", subject.design, BOARD)
    page = read(proof.section(there).body)
    assert "4 of 9 checks of the hardware were made; not equal: Board." in page.all("p")
    assert "NOT EQUAL" in page.all("p")
    assert page.all("li") == ["output 'y' differs in 2 elements of 1 frames, first in frame 4: golden 5, board 6"]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all that a record holds; of lists the last item, which is like the others."""
    last = [(len(value) - 1, value[-1])] if isinstance(value, list) and value else []
    inner = value.items() if isinstance(value, dict) else last
    for key, each in inner:
        yield (*path, key)
        yield from leaves(each, (*path, key))


def changed(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(whole)
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return made


@pytest.mark.parametrize("kind", ["accuracy", "simulation"])
def test_whatever_is_in_a_record(subject: Subject, kind: str, tmp_path: Path) -> None:
    """Every part of a record in turn is hostile text, or of a wrong type: an error that names the file, or escaped."""
    source = subject.folder if kind == "accuracy" else subject.board_folder
    whole = json.loads((source / "records" / f"{kind}.json").read_text())
    changed_subject = replace(subject, folder=tmp_path, board_folder=tmp_path)
    section = accuracy.section if kind == "accuracy" else proof.section
    shown, refused = 0, list[str]()
    if kind == "accuracy":
        del whole["facts"]["layers"][:-1]  # the others are like it
    for path in leaves(whole):
        for value in (HOSTILE, None, [HOSTILE], -1e300):
            records.path_of(tmp_path, kind).parent.mkdir(exist_ok=True)
            records.path_of(tmp_path, kind).write_text(json.dumps(changed(whole, path, value)))
            try:
                page = read(section(changed_subject).body)
            except HwflowError as error:
                refused.append(str(error))
            else:
                assert "script" not in page.tags, path
                assert not {name for name in page.names if name.startswith("on")}, path
                shown += 1
    assert min(shown, len(refused)) > 20
    assert all("must be a record of hwflow, and is damaged; delete it" in message for message in refused)


def test_a_record_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt while a record is written leaves the one before; what a killed run left goes with the next one."""
    records.keep(tmp_path, "accuracy", "1", {"rows": 3})

    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            records.keep(tmp_path, "accuracy", "2", {"rows": 4})
    found = records.kept(tmp_path, "accuracy")
    assert found is not None
    assert found.facts == {"rows": 3}
    (tmp_path / "records" / ".accuracy.json-1234").write_text('{"kind": "acc')
    records.keep(tmp_path, "simulation", "2", {})
    assert sorted(path.name for path in (tmp_path / "records").iterdir()) == ["accuracy.json", "simulation.json"]
