"""What comes behind synthesis: netlists proved, new weights without place and route, the link under bit errors."""

from __future__ import annotations

import dataclasses
import shutil
import time
from pathlib import Path

import numpy as np
from hwflow_rtl.io.board_top import BoardTop
from hwflow_rtl.io.clocking import Clocking
from hwflow_rtl.io.transports import Uart
from hwflow_sim.board import CompiledBoard, LinePort, SimulatedBoard, UartLine, compile_board, rtl_design

import hwflow.host
from bench.sections import Bench, Subject, table
from hwflow import golden, hls, onnx
from hwflow.cli.build import BuildRequest, build
from hwflow.host.identity import BoardFacts, DesignFacts, TransportFacts, identity
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.pipeline.verilog import simulation_technology
from hwflow.synth import ends_of
from hwflow.views.console.terminal import Console

#: One board of each family.
BOARDS = ("ulx3s_85f", "icebreaker", "tangnano9k")
PROVED = "digits_mlp (shipped)"
#: Designs that get new weights; the second is routed for many minutes.
RETRAINED = ((PROVED, "icebreaker"), (PROVED, "ulx3s_85f"), ("tiny_resnet8_float", "ulx3s_85f"))
#: Wrong bits of the line, in each direction, and frames of each run.
ERROR_RATES, FRAMES = (0.0, 1e-5, 1e-4, 3e-4, 1e-3), 100
#: Clock cycles of a bit in the simulation, so that it does not wait for bits.
DIVIDER = 8


def netlists(bench: Bench) -> str:
    """The cells that go to place and route, from pin to pin, against the golden model."""
    rows = []
    subject = named(bench, PROVED)
    assert subject is not None, "the project ships it"
    for board in BOARDS:
        answer = bench.hwflow("sim", subject, "--netlist", "--board", board)
        if "error" in answer:
            rows.append([subject.name, board, f"failed: {answer['error']}"])
            continue
        cells = sum(answer["cells"].values())
        rows.append([subject.name, board, "equal" if answer["equal"] else "DIFFERENT", answer["frames"], f"{cells:,}",
                     f"{answer['cycles']:,}"])
    return table(("model", "board", "outputs of all frames", "frames", "cells", "clock cycles"), rows)


def reweight(bench: Bench) -> str:
    """New weights in a routed design, against synthesis, place and route of the same."""
    rows = []
    for name, board in RETRAINED:
        subject = named(bench, name)
        if subject is None or (bench.only is not None and bench.only != name):
            continue
        folder = bench.folder / "reweight"
        place = ("--board", board, "--build", str(folder))
        first = bench.hwflow("synth", subject, *place, "--reweightable")
        second = bench.hwflow("reweight", retrained(subject, folder), *place, "--base", str(subject.model), "--netlist")
        if "error" in first or "error" in second:
            rows.append([name, board, f"failed: {first.get('error', '')} {second.get('error', '')}"])
            continue
        whole, new = sum(first["seconds"].values()), second["seconds"]
        rows.append([name, board, f"{whole:.0f} s", f"{new:.1f} s", f"{whole / new:.0f}",
                     "equal" if second["proof"]["equal"] else "DIFFERENT"])
    return table(("model", "board", "synthesis, place and route", "new weights", "times faster",
                  "netlist with them, 3 frames"), rows)


def retrained(subject: Subject, folder: Path, spread: float = 0.05) -> Subject:
    """The subject with every weight changed by about `spread` of it; folder/<name>_retrained.onnx."""
    model, random = onnx.load(subject.model), np.random.default_rng(1)
    changed = {name: (array * (1 + spread * random.standard_normal(array.shape))).astype(array.dtype)
               if array.dtype.kind == "f" and array.size > 1 else array
               for name, array in model.graph.initializers.items()}
    path = folder / f"{subject.model.stem}_retrained.onnx"
    onnx.save(dataclasses.replace(model, graph=dataclasses.replace(model.graph, initializers=changed)), path)
    shutil.copyfile(subject.data, path.with_suffix(".npz"))
    return Subject(f"{subject.name} retrained", path, path.with_suffix(".npz"))


def link(bench: Bench) -> str:
    """The driver, the line, the board's RTL and back, with wrong bits on the line in both directions."""
    subject = named(bench, PROVED)
    assert subject is not None, "the project ships it"
    folder = bench.folder / "link"
    compiled, pipeline, design = simulated_board(subject, folder)
    assert pipeline.dataset is not None
    inputs = pipeline.dataset.first(FRAMES).inputs
    expected, rows = golden.predict(pipeline.quantized, inputs), []
    for rate in ERROR_RATES:
        with SimulatedBoard(compiled, line=UartLine(DIVIDER)) as board:
            board.inject(rate, 1)
            port = LinePort(board)
            began = time.perf_counter()
            with hwflow.host.open(port, design=design, clock=port.clock) as driver:
                made, seen = driver.run(inputs), driver.statistics
            took, facts = time.perf_counter() - began, board.facts
        wrong = sum(int((made[name] != values).reshape(len(values), -1).any(axis=1).sum())
                    for name, values in expected.items())
        if wrong:
            bench.failures.append(f"link with {rate:g} bit errors")
        rows.append([f"{rate:g}", FRAMES, wrong, facts.flipped_to_board, facts.flipped_from_board, seen.packets_sent,
                     seen.resent, seen.losses, f"{took:.0f} s"])
    return table(("bit errors", "frames", "wrong answers", "bits flipped to the board", "from the board",
                  "packets sent", "sent again", "losses reported", "simulated in"), rows)


def simulated_board(subject: Subject, folder: Path) -> tuple[CompiledBoard, Pipeline, Path]:
    """The RTL of the subject's board, compiled; its steps; and the folder that says what the design is."""
    project, hardware = Project(subject.model, data=subject.data, build=folder), HardwareOptions(interval=2200)
    pipeline = Pipeline(Console(quiet=True), project, hardware=hardware)
    build(Console(quiet=True), BuildRequest(project, hardware=hardware))
    technology = simulation_technology(pipeline.plan)
    core = hls.lower(pipeline.graph, pipeline.plan, technology)
    top = BoardTop(core=core, ends=ends_of(pipeline.plan), technology=technology,
                   clocking=Clocking(technology=technology, board_mhz=25.0, has_reset=True),
                   transport=Uart(divider=DIVIDER), identity=identity(pipeline.graph, pipeline.plan))
    design = pipeline.synthesis
    design.mkdir(parents=True, exist_ok=True)
    board = BoardFacts(pipeline.board.name, TransportFacts.of_serial_line(25_000_000 // DIVIDER), 25.0)
    facts = DesignFacts.of(pipeline.graph, pipeline.plan, board)
    facts.write(design)
    compiled = compile_board(rtl_design(top, technology.roms), folder=folder / "board", cache=folder / "cache")
    return compiled, pipeline, design


def named(bench: Bench, name: str) -> Subject | None:
    return next((subject for subject in bench.subjects([name]) if subject.name == name), None)


BOARD_SECTIONS = {"netlists": netlists, "reweight": reweight, "link": link}
