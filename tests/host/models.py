"""Designs without a synthesis: the folder that `hwflow synth` leaves, and a board that computes the golden model."""

from __future__ import annotations

import os
import select
import threading
import tty
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hwflow import golden, hls
from hwflow.host.identity import BoardFacts, DesignFacts, TransportFacts
from hwflow.layers.formats import IntFormat
from hwflow.quantize import Quantized, save_quantized
from hwflow.stages.kinds import stage_of
from hwflow.synth.boards import load_board
from tests.host.board import Line, Network, ReferenceBoard

BAUD = 115_200


def leave_design(quantized: Quantized, build: Path, board: str = "ulx3s_85f", *,
                 transport: TransportFacts | None = None, **more) -> Path:
    """build/<model>/quantized and build/<model>/<board>/synth/identity.json; the latter's folder."""
    graph = quantized.graph
    foldings = [next(iter(stage_of(graph, layer).foldings())) for layer in graph.layers]
    plan = hls.make_plan(graph, foldings, load_board(board).technology())
    model = build / graph.name
    folder = model / board / "synth"
    (model / "quantized").mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    save_quantized(quantized, model / "quantized")
    line = transport or TransportFacts.of_serial_line(BAUD)
    DesignFacts.of(graph, plan, BoardFacts(board, line, 25.0), **more).write(folder)
    return folder


def golden_network(quantized: Quantized) -> Network:
    """The golden model from the bytes of a frame to bytes, element by element as docs/host-link.md has it."""
    graph = quantized.graph

    def network(frame: bytes) -> bytes:
        frames, start = {}, 0
        for tensor in (graph.tensors[name] for name in graph.inputs):
            size = -(-tensor.format.bits // 8)
            end = start + tensor.frame.elements * size
            values = [element(frame[k : k + size], tensor.format) for k in range(start, end, size)]
            shape = (1, tensor.frame.height, tensor.frame.width, tensor.frame.channels)
            frames[tensor.name] = np.array(values, np.int64).reshape(shape)
            start = end
        assert start == len(frame)
        made = golden.run(graph, frames, keep=False)
        return b"".join(element_bytes(int(value), graph.tensors[name].format)
                        for name in graph.outputs for value in made[name].reshape(-1))

    return network


def element(data: bytes, format: IntFormat) -> int:
    if format.bipolar:
        return 1 if data == b"\1" else -1
    return int.from_bytes(data, "little", signed=format.signed)


def element_bytes(value: int, format: IntFormat) -> bytes:
    if format.bipolar:
        return b"\1" if value == 1 else b"\0"
    return value.to_bytes(-(-format.bits // 8), "little", signed=format.signed)


def board_with(quantized: Quantized, folder: Path, **more) -> ReferenceBoard:
    """A board that holds the design of `folder`."""
    facts = DesignFacts.read(folder)
    options = {"design": facts.identity, **more}
    return ReferenceBoard(golden_network(quantized), facts.bytes_in, facts.bytes_out, **options)


def require_equal(made: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    assert made.keys() == expected.keys()
    for name, values in expected.items():
        assert made[name].dtype == values.dtype
        np.testing.assert_array_equal(made[name], values)


def require_golden(quantized: Quantized, board: Any, x: Any) -> None:
    """The board gives for these rows what the golden model gives."""
    require_equal(board.run(x), golden.as_batch(golden.predict(quantized, x)))


class Terminal:
    """A board behind a pseudo-terminal, in a thread of its own; `port` is what the driver opens."""

    def __init__(self, board: ReferenceBoard, there: Line | None = None, back: Line | None = None) -> None:
        self.board, self.there, self.back = board, there or Line(), back or Line()
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self.port = os.ttyname(self.slave)
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while not self.ended.is_set():
            try:
                if not select.select([self.master], [], [], 0.01)[0]:
                    continue
                data = os.read(self.master, 4096)
                with self.lock:
                    answer = self.back(self.board.feed(self.there(data)))
                while answer:
                    answer = answer[os.write(self.master, answer):]
            except OSError:
                return

    def unplug(self) -> None:
        self.ended.set()
        self.thread.join()
        for file in (self.master, self.slave):
            if file >= 0:
                os.close(file)
        self.master = self.slave = -1

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_) -> None:
        self.unplug()
