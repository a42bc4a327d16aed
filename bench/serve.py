"""`hwflow serve` under load: many clients, two boards, one of them unplugged in the middle; all answers compared."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from hwflow_sim.board import SimulatedBoard

from bench.sections import Bench, table
from hwflow import golden
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.pipeline.simulated_board import SimulatedDesign, compile_design
from hwflow.views.console.terminal import Console
from tests.project.tree import ROOT

MODEL, INPUT, OUTPUT = "digits_cnn", "image", "logits"
CLIENTS = 100
#: Seconds of the load, and without the first board in the middle of it; HWFLOW_SERVE_SECONDS makes it shorter.
SECONDS, AWAY = 600.0, 30.0
#: A simulated board takes much longer than a board: for an answer on its line, and for a request that waits.
PATIENCE, TIMEOUT = "20", "60"
#: How much the memory of the server may grow from the first third to the last.
GROWTH = 1.05


@dataclass
class Board:
    """A simulated board behind a pseudo-terminal, whose name stays where it is plugged in again."""

    design: SimulatedDesign
    link: Path
    seed: int
    on: SimulatedBoard | None = None

    def plug(self) -> None:
        self.on = self.design.board(seed=self.seed).__enter__()
        self.link.symlink_to(self.on.pty())

    def unplug(self) -> None:
        if self.on is not None:
            self.link.unlink()
            self.on.__exit__(None, None, None)
            self.on = None


@dataclass
class Seen:
    """What the clients saw: how long answers took, what was no result, how many results were wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    wrong: int = 0
    lost: int = 0


def serve(bench: Bench) -> str:
    """100 clients of `hwflow serve` for ten minutes, on two simulated boards; one is unplugged in the middle."""
    seconds = float(os.environ.get("HWFLOW_SERVE_SECONDS", SECONDS))
    folder = bench.folder / "serve"
    pipeline, design = simulated(folder)
    assert pipeline.dataset is not None
    rows = np.asarray(pipeline.dataset.inputs[INPUT], np.float32)
    expected = golden.predict(pipeline.quantized, {INPUT: rows})[OUTPUT]
    boards = [Board(design, folder / f"board{number}", number) for number in (1, 2)]
    memory: list[tuple[float, int]] = []
    with contextlib.ExitStack() as stack:
        for board in boards:
            board.link.unlink(missing_ok=True)
            board.plug()
            stack.callback(board.unplug)
        server, url = stack.enter_context(started(folder, boards))
        seen, metrics = asyncio.run(loaded(url, rows, expected, boards[0], server.pid, seconds, memory))
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    check(bench, seen, metrics, memory, code)
    return report(seen, metrics, memory, seconds)


def simulated(folder: Path) -> tuple[Pipeline, SimulatedDesign]:
    """The example's steps, and its board; its folder is where `hwflow synth` leaves a design."""
    project = Project(ROOT / "models" / f"{MODEL}.onnx", data=ROOT / "models" / f"{MODEL}.npz", build=folder)
    pipeline = Pipeline(Console(quiet=True), project, hardware=HardwareOptions())
    design = compile_design(pipeline.design, pipeline.synthesis, pipeline.compiled, quantized="../../quantized",
                            keep=lambda: None, say=lambda text: None)
    return pipeline, design


@contextlib.contextmanager
def started(folder: Path, boards: list[Board]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server as a process of its own, and where it listens."""
    ports = [word for board in boards for word in ("--port", str(board.link))]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "hwflow.cli", "serve", str(ROOT / "models" / f"{MODEL}.onnx"), *ports,
             "--build", str(folder), "--patience", PATIENCE, "--timeout", TIMEOUT, "--http-port", "0"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        text = ""
        while not (found := re.search(r"http://[\d.:]+", text)):
            line = server.stdout.readline()
            if not line:
                raise SystemExit(f"the server must start, but did not: {(folder / 'server.log').read_text()[-500:]}")
            text += line
        yield server, found[0]
    finally:
        server.kill()
        server.wait()


async def loaded(url: str, rows: np.ndarray, expected: np.ndarray, board: Board, server: int, seconds: float,
                 memory: list[tuple[float, int]]) -> tuple[Seen, dict[str, float]]:
    """What the clients saw in so many seconds, and the server's counts at the end."""
    seen, began = Seen(), time.monotonic()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=200)) as session:
        watching = asyncio.create_task(watch(server, began, memory))
        clients = [asyncio.create_task(client(session, url, rows, expected, seen, number, began + seconds))
                   for number in range(CLIENTS)]
        away = min(AWAY, seconds / 4)
        await asyncio.sleep(seconds / 2 - away / 2)
        print(f"{time.monotonic() - began:.0f} s: a board is unplugged", file=sys.stderr, flush=True)
        await asyncio.to_thread(board.unplug)
        await asyncio.sleep(away)
        await asyncio.to_thread(board.plug)
        print(f"{time.monotonic() - began:.0f} s: it is plugged in again", file=sys.stderr, flush=True)
        await asyncio.gather(*clients)
        watching.cancel()
        async with session.get(f"{url}/metrics") as response:
            text = await response.text()
    return seen, {name: float(value) for name, value in re.findall(r"^(hwflow\S+) (\S+)$", text, re.MULTILINE)}


async def client(session: aiohttp.ClientSession, url: str, rows: np.ndarray, expected: np.ndarray, seen: Seen,
                 number: int, end: float) -> None:
    """One request after another, of one to three rows each, until the time is over."""
    chance = random.Random(number)
    while time.monotonic() < end:
        count = chance.randint(1, 3)
        first = chance.randrange(len(rows) - count)
        x = rows[first:first + count].reshape(count, *rows.shape[2:])
        body = {"inputs": [{"name": INPUT, "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}]}
        began = time.monotonic()
        try:
            async with session.post(f"{url}/v2/models/{MODEL}/infer", json=body) as response:
                answer: dict[str, Any] = await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            seen.lost += 1
            seen.errors[f"no answer ({type(error).__name__})"] += 1
            continue
        if response.status == 200:
            seen.seconds.append(time.monotonic() - began)
            made = np.array(answer["outputs"][0]["data"], expected.dtype)
            seen.wrong += not np.array_equal(made, expected[first:first + count].ravel())
            seen.rows += count
        else:
            seen.errors[f"{response.status}: {re.sub(r'[0-9]+', 'N', answer['error'])}"] += 1
            await asyncio.sleep(float(response.headers.get("Retry-After", "0")))


async def watch(server: int, began: float, memory: list[tuple[float, int]]) -> None:
    """The resident memory of the server in KiB, every few seconds."""
    while True:
        status = Path(f"/proc/{server}/status").read_text()
        memory.append((time.monotonic() - began, int(re.findall(r"VmRSS:\s+(\d+)", status)[0])))
        await asyncio.sleep(2)


def thirds(memory: list[tuple[float, int]]) -> list[int]:
    """The most memory of each third of the time, without the first seconds, in KiB."""
    later = [size for _, size in memory][len(memory) // 20:]
    size = max(1, len(later) // 3)
    return [max(later[:size]), max(later[size:2 * size] or later), max(later[2 * size:] or later)]


def check(bench: Bench, seen: Seen, metrics: dict[str, float], memory: list[tuple[float, int]], code: int) -> None:
    """Notes everything that must not be."""
    first, _, last = thirds(memory)
    wrong = {
        "the server must end with exit code 0": code != 0,
        "every answer must be the golden model's": seen.wrong > 0,
        "every request must have an answer": seen.lost > 0,
        "what was accepted must have a result": any(not text.startswith("503") for text in seen.errors),
        "the memory of the server must stay": last > GROWTH * first,
        "one board must be lost, once": sum(v for k, v in metrics.items() if k.startswith("hwflow_board_lost")) != 1,
        "both boards must be there at the end": sum(
            v for k, v in metrics.items() if k.startswith("hwflow_board_up")) != 2,
        "nothing must wait at the end": metrics["hwflow_outstanding_requests"] + metrics["hwflow_waiting_frames"] != 0}
    bench.failures += [f"serve: {text}" for text, found in wrong.items() if found]


def report(seen: Seen, metrics: dict[str, float], memory: list[tuple[float, int]], seconds: float) -> str:
    """Two tables: what was asked and answered, and what it took."""
    percentiles = [f"{value:.2f} s" for value in np.percentile(seen.seconds, [50, 95, 99, 100])]
    retried = sum(int(v) for k, v in metrics.items() if k.startswith("hwflow_board_retried"))
    frames = [int(v) for k, v in metrics.items() if k.startswith("hwflow_board_frames")]
    errors = ", ".join(f"{count} x {text}" for text, count in seen.errors.items()) or "none"
    return "\n\n".join([
        table(("clients", "time", "answers", "rows", "frames of each board", "wrong", "without an answer",
               "other answers", "under way on the lost board"),
              [(CLIENTS, f"{seconds:.0f} s", len(seen.seconds), seen.rows, ", ".join(map(str, frames)), seen.wrong,
                seen.lost, errors, retried)]),
        table(("time to an answer: median", "95 %", "99 %", "longest", "memory of the server: first third", "second",
               "last"), [(*percentiles, *(f"{size / 1024:.1f} MiB" for size in thirds(memory)))])])


SERVE_SECTIONS = {"serve": serve}
