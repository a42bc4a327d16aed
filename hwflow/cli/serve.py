"""`hwflow serve`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import HwflowError, MissingTool
from hwflow_base.files.cache import locked
from hwflow_base.later import later
from hwflow_base.options import Option, Range, Section

from ..onnx.run.sequences import state_pairs
from ..options import Project
from ..serve.errors import MEBIBYTE, ServeLimits
from .run import BoardAccess, seconds

with later():
    from ..host.design import load_design
    from ..host.identity import DesignFacts
    from ..host.open_board import OpenBoard, open_board
    from ..host.ports.serial import ports_text
    from ..pipeline.boards import designs_of, patience_of, simulated_design
    from ..pipeline.pipeline import Pipeline
    from ..quantize import Quantized
    from ..serve import Pool
    from ..views.console.terminal import Console

Opener = Callable[[], "OpenBoard"]
#: Of the lines of the log.
FORMAT = "%(asctime)s %(levelname)s %(message)s"


@dataclass(frozen=True)
class ServerOptions:
    """Where a server listens, and how much it takes on; `max_body` is in MiB."""

    host: Annotated[str, Option(
        "The address to listen at.  One that others reach needs a token.", Section.SERVER)] = "127.0.0.1"
    http_port: Annotated[int, Option(
        "The port to listen at; 0: a free one.", Section.SERVER, parse=Range(0, 65535))] = 8000
    token_file: Annotated[Path | None, Option(
        "A file with the token that requests must have; default: the variable HWFLOW_SERVE_TOKEN.",
        Section.SERVER)] = None
    timeout: Annotated[float, Option(
        "How long a request may take.", Section.SERVER, "SECONDS", parse=seconds)] = ServeLimits.timeout
    queue: Annotated[int, Option(
        "How many frames may wait for a board.", Section.SERVER, "FRAMES", parse=Range(1))] = ServeLimits.queue
    max_batch: Annotated[int, Option(
        "How many frames a board is given at once, at most.", Section.SERVER, "FRAMES",
        parse=Range(1))] = ServeLimits.max_batch
    batch_wait: Annotated[float, Option(
        "How long a board without work waits for more than the first request.", Section.SERVER, "SECONDS",
        parse=Range(0, 1))] = ServeLimits.batch_wait
    max_body: Annotated[int, Option(
        "The size of a request's body, at most.", Section.SERVER, "MIB",
        parse=Range(1, 1024))] = ServeLimits.max_body // MEBIBYTE
    log: Annotated[bool, Option("Log every request.", Section.SERVER, name="verbose")] = False

    @property
    def limits(self) -> ServeLimits:
        """The bounds of the server."""
        body = self.max_body * MEBIBYTE
        return ServeLimits(queue=self.queue, max_batch=self.max_batch, batch_wait=self.batch_wait,
                           timeout=self.timeout, max_body=body, memory=max(ServeLimits.memory, 2 * body))


@dataclass(frozen=True)
class ServeRequest:
    """The request of `hwflow serve`; `simulate` is a number of simulated boards."""

    project: Project
    ports: Annotated[tuple[str, ...], Option(
        "The board's port, like /dev/ttyUSB0, or socket://HOST:PORT.  Repeat it for several boards.", Section.BOARD,
        "PORT", "port", excludes=["simulate"], common=True)] = ()
    access: BoardAccess = BoardAccess()
    simulate: Annotated[int, Option(
        "Serve so many simulated boards in place of real ones, with what is in the build folder.", Section.SIMULATION,
        "COUNT", parse=Range(0))] = 0
    server: ServerOptions = ServerOptions()


def serve(console: Console, request: ServeRequest) -> Mapping[str, object]:
    """Serve MODEL over HTTP, on one or several boards (docs/serve.md).

    Ctrl-C or SIGTERM ends it: what was accepted is answered first.  Exit codes: 0 ended so; 2 if no board answers, or
    the address cannot be had.
    """
    try:
        from ..serve.service import Service, run_server, token_of
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "hwflow":
            raise
        raise MissingTool(f"the Python package '{error.name}' must be installed for `hwflow serve`",
                          "run `pip install 'hwflow[serve]'`") from None

    server = request.server
    token = token_of(server.host, server.token_file, os.environ)
    pipeline = Pipeline(console, request.project, hardware=request.access.hardware)
    quantized, facts, openers = boards_of(pipeline, request)
    require_no_state(quantized)
    limits = server.limits
    logging.basicConfig(format=FORMAT)
    logging.getLogger("hwflow.serve").setLevel(logging.DEBUG if server.log else logging.INFO)
    pool = Pool(openers, limits, bytes_in=facts.bytes_in, bytes_out=facts.bytes_out)
    service = Service(quantized, pipeline.folder.name, pool, limits, token)
    say = console.progress if console.quiet else console.say
    pool.start()
    try:
        run_server(service, server.host, server.http_port, lambda url: say(
            f"{pipeline.folder.name} on {len(openers)} board{'s' if len(openers) > 1 else ''}: {url}/v2/models/"
            f"{pipeline.folder.name}"))
    finally:
        pool.close(0.0)
    return {"model": pipeline.folder.name, "answers": {str(k): v for k, v in sorted(service.metrics.answers.items())},
            "rows": service.metrics.rows, "boards": list(pool.facts())}


def require_no_state(quantized: Quantized) -> None:
    """HwflowError where frames of one client would change what another one gets."""
    if quantized.graph.streaming or state_pairs(quantized.epilogue):
        raise HwflowError(
            "a model that is served must keep no state from frame to frame, and this one does: requests of several "
            "clients, in any order and on any board, would be one sequence",
            "drive its board with hwflow.host (docs/streaming.md), one sequence at a time",
        )


def boards_of(pipeline: Pipeline, request: ServeRequest) -> tuple[Quantized, DesignFacts, dict[str, Opener]]:
    """The integer model, the facts of a design with it, and what opens each board, by name."""
    if request.simulate:
        quantized, simulated = simulated_design(pipeline, require_no_state)
        names = [f"simulated board {number}" for number in range(1, request.simulate + 1)]
        return quantized, DesignFacts.read(simulated.folder), {
            name: partial(simulated.open, name=name, seed=number) for number, name in enumerate(names, 1)}
    if not request.ports:
        raise HwflowError("the boards' ports must be named with --port, or simulated with --simulate COUNT",
                          ports_text())
    twice = next((port for port in request.ports if request.ports.count(port) > 1), None)
    if twice is not None:
        raise HwflowError(f"the port '{twice}' must be named once")
    return real_boards(pipeline, request)


def real_boards(pipeline: Pipeline, request: ServeRequest) -> tuple[Quantized, DesignFacts, dict[str, Opener]]:
    """The boards behind ports: any of the designs that there are now of the model, all of the same integers."""
    with locked(pipeline.folder, pipeline.console.progress):
        designs = designs_of(pipeline, request.access.board)
        design = load_design(designs[0][0])
    same = [(folder, facts) for folder, facts in designs if integers_of(folder, facts) == integers_of(*designs[0])]
    known = {facts.identity: facts for _, facts in same}

    def opened(port: str) -> OpenBoard:
        board = open_board(port, build=pipeline.project.build, model=pipeline.folder.name, board=request.access.board,
                           baud=request.access.baud, patience=patience_of(request.access.patience))
        facts = board.design.facts
        if known.get(facts.identity) != facts:
            board.close()
            raise HwflowError(f"the board on {port} holds the design {facts.identity.hex()}, which was made of other "
                              "integers than are served", "start the server again")
        return board

    return design.quantized, design.facts, {port: partial(opened, port) for port in request.ports}


def integers_of(folder: Path, facts: DesignFacts) -> Path:
    """The folder of the integer model of a design."""
    return (folder / facts.quantized).resolve()
