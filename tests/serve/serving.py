"""A server in a thread of the test, over boards behind pseudo-terminals that compute the golden model."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

import hwflow.host
from hwflow.host import OpenBoard, Patience
from hwflow.host.identity import DesignFacts
from hwflow.quantize import Quantized
from hwflow.serve import Pool, ServeLimits
from hwflow.serve.service import Service, url_of
from tests.host.models import Terminal, board_with

#: Not the name of its graph, as a file may be called anything.
MODEL = "my_file"
#: Boards of the tests answer at once, and a lost one is soon looked for again.
LIMITS = ServeLimits(retry=0.05, timeout=10.0)
PATIENCE = Patience(silence=2.0, stall=5.0)


@dataclass
class Boards:
    """Boards by name; `plug` and `unplug` may be called while a server uses them."""

    quantized: Quantized
    design: Path
    terminals: dict[str, Terminal] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)

    def plug(self, name: str) -> Terminal:
        self.terminals[name] = Terminal(board_with(self.quantized, self.design, **self.options))
        return self.terminals[name]

    def unplug(self, name: str) -> None:
        self.terminals.pop(name).unplug()

    def opener(self, name: str) -> Callable[[], OpenBoard]:
        def opened() -> OpenBoard:
            terminal = self.terminals.get(name)
            port = "/dev/no-board" if terminal is None else terminal.port
            return hwflow.host.open(port, design=self.design, patience=PATIENCE)

        return opened

    def close(self) -> None:
        for name in list(self.terminals):
            self.unplug(name)


def pool_of(boards: Boards, names: tuple[str, ...], limits: ServeLimits = LIMITS) -> Pool:
    facts = DesignFacts.read(boards.design)
    return Pool({name: boards.opener(name) for name in names}, limits, bytes_in=facts.bytes_in,
                bytes_out=facts.bytes_out)


@dataclass
class Answer:
    """What came back for a request."""

    status: int
    body: bytes
    json: object
    headers: Mapping[str, str]


@dataclass
class Client:
    """Requests to a service, from any thread."""

    url: str
    loop: asyncio.AbstractEventLoop
    service: Service
    session: aiohttp.ClientSession

    async def ask(self, method: str, path: str, **more: object) -> Answer:
        async with self.session.request(method, self.url + path, **more) as response:
            body = await response.read()
            data = await response.json() if response.content_type == "application/json" else None
            return Answer(response.status, body, data, dict(response.headers))

    def __call__(self, method: str, path: str, **more: object) -> Answer:
        return asyncio.run_coroutine_threadsafe(self.ask(method, path, **more), self.loop).result(30)

    def infer(self, body: object, **more: object) -> Answer:
        kind = "data" if isinstance(body, bytes) else "json"
        return self("POST", f"/v2/models/{MODEL}/infer", **{kind: body}, **more)


@contextlib.contextmanager
def serving(quantized: Quantized, pool: Pool, token: str | None = None) -> Iterator[Client]:
    """The service at a free port of this machine, with a client of it."""
    pool.start()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    service = Service(quantized, MODEL, pool, pool.limits, token)

    async def begin() -> tuple[web.AppRunner, Client]:
        runner = web.AppRunner(service.application(), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return runner, Client(url_of(runner), loop, service, session)

    async def end() -> None:
        await client.session.close()
        await runner.cleanup()

    runner, client = asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
    try:
        yield client
    finally:
        pool.close(5.0)
        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5.0)
        loop.close()
