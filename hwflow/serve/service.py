"""HTTP around a pool of boards: the endpoints of the Open Inference Protocol (KServe v2), and `/metrics`."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import signal
import string
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from aiohttp import web
from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import read_text

from hwflow import golden
from hwflow.host.elements import pack, unpack
from hwflow.quantize import Quantized
from hwflow.serve.errors import MEBIBYTE, BadRequest, NotServed, QueueFull, ServeLimits, TimedOut, UnknownCoding
from hwflow.serve.pool import Pool
from hwflow.serve.protocol import HEADER_LENGTH, InferRequest, Interface, answer_of, request_of

# Counts of a server in the text format that Prometheus reads.


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Upper ends of the ranges of the histogram, in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts of what was asked and answered since the start."""

    def __init__(self) -> None:
        self.answers: Counter[int] = Counter()
        self.rows = 0
        self.seconds = 0.0
        self.ranges = [0] * (len(BUCKETS) + 1)

    def answered(self, status: int, rows: int, seconds: float) -> None:
        """A request for results had this status after so many seconds."""
        self.answers[status] += 1
        self.rows += rows
        self.seconds += seconds
        self.ranges[bisect_left(BUCKETS, seconds)] += 1

    def text(self, pool: Pool) -> str:
        return "\n".join([*self._of_requests(), *self._of_boards(pool), ""])

    def _of_requests(self) -> Iterator[str]:
        yield from head("hwflow_requests_total", "counter", "requests for results, by the status of the answer")
        for status, count in sorted(self.answers.items()):
            yield f'hwflow_requests_total{{status="{status}"}} {count}'
        yield from head("hwflow_rows_total", "counter", "rows of inputs with results")
        yield f"hwflow_rows_total {self.rows}"
        name = "hwflow_request_seconds"
        yield from head(name, "histogram", "seconds from a request to its answer")
        below = 0
        for end, count in zip((*map(str, BUCKETS), "+Inf"), self.ranges, strict=True):
            below += count
            yield f'{name}_bucket{{le="{end}"}} {below}'
        yield f"{name}_sum {self.seconds:.6f}"
        yield f"{name}_count {below}"

    def _of_boards(self, pool: Pool) -> Iterator[str]:
        yield from head("hwflow_outstanding_requests", "gauge", "requests that were accepted and have no answer yet")
        yield f"hwflow_outstanding_requests {pool.outstanding}"
        yield from head("hwflow_waiting_frames", "gauge", "frames that wait for a board")
        yield f"hwflow_waiting_frames {pool.backlog.frames}"
        boards = pool.facts()
        for key, name, kind, text in (
                ("up", "hwflow_board_up", "gauge", "whether the board is there"),
                ("frames", "hwflow_board_frames_total", "counter", "frames with results of the board"),
                ("batches", "hwflow_board_batches_total", "counter", "batches that the board was given"),
                ("lost", "hwflow_board_lost_total", "counter", "times that the board was lost"),
                ("retried", "hwflow_board_retried_total", "counter", "requests that were under way when it was lost")):
            yield from head(name, kind, text)
            for board in boards:
                label = str(board["name"]).translate({ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n"})
                yield f'{name}{{board="{label}"}} {int(board[key])}'


def head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


LOG = logging.getLogger("hwflow.serve")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
#: Seconds after which a client may try again.
RETRY_AFTER = "1"
#: Headers of refusals that HTTP wants.
KEPT = ("Allow", "WWW-Authenticate")
#: What a request costs besides its body, in bytes: bounds how many there are.
OVERHEAD = 1 << 15
#: What aiohttp unpacks (the last two with packages of their own: else it refuses them); others it would leave packed.
CODINGS = ("identity", "gzip", "deflate", "br", "zstd")
#: Paths that need no token: whoever watches the server asks for them.
OPEN_PATHS = ("/v2/health/live", "/v2/health/ready")


class Service:
    """The model `quantized`, called `model`, on the boards of `pool`.

    With `token`, requests must have it: `Authorization: Bearer TOKEN`.
    """

    def __init__(self, quantized: Quantized, model: str, pool: Pool, limits: ServeLimits, token: str | None = None
                 ) -> None:
        self.quantized, self.model, self.pool, self.limits = quantized, model, pool, limits
        self.interface = Interface.of(quantized, model)
        self.metrics = Metrics()
        self.token = token
        #: Bytes of the bodies of requests without an answer.
        self.held = 0
        # One thread: numpy and JSON hold Python's lock anyway, and the loop stays free to say no.
        self._computing = ThreadPoolExecutor(1, "requests")

    def application(self) -> web.Application:
        """The application that aiohttp serves."""
        application = web.Application(middlewares=[self.guarded], client_max_size=self.limits.max_body)
        model = "/v2/models/{model}{version:(/versions/[^/]+)?}"
        application.add_routes([
            web.get("/v2", self.server), web.get("/v2/health/live", self.live), web.get("/v2/health/ready", self.ready),
            web.get(model, self.metadata), web.get(f"{model}/ready", self.model_ready),
            web.post(f"{model}/infer", self.infer), web.get("/metrics", self.measured)])
        application.on_cleanup.append(self._end)
        return application

    async def _end(self, _application: web.Application) -> None:
        self._computing.shutdown(wait=False)

    @web.middleware
    async def guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses who may not ask, and makes every error an answer with a message."""
        try:
            self.require_allowed(request)
            return await handler(request)
        except NotServed as error:
            headers = {"Retry-After": RETRY_AFTER} if error.retry_after else {}
            return refusal(str(error), error.status, headers)
        except web.HTTPException as error:
            headers = {name: error.headers[name] for name in KEPT if name in error.headers}
            return refusal(said(error, request, self.limits), error.status, headers)
        except Exception as error:
            LOG.exception("%s %s", request.method, request.path)
            return refusal(f"an error in hwflow ({type(error).__name__}); the log of the server has its place", 500, {})

    def require_allowed(self, request: web.Request) -> None:
        """HTTPUnauthorized, HTTPForbidden."""
        if request.path in OPEN_PATHS:
            return
        if self.token is None:
            if "Origin" in request.headers:  # a page in a browser on this machine, from anywhere
                raise web.HTTPForbidden(reason="pages of other servers may not use this one")
            return
        authorization = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(authorization, f"Bearer {self.token}".encode()):
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})

    async def server(self, _request: web.Request) -> web.Response:
        from importlib.metadata import version

        return web.json_response({"name": "hwflow", "version": version("hwflow"), "extensions": ["binary_tensor_data"]})

    async def live(self, _request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def ready(self, _request: web.Request) -> web.Response:
        ready = self.pool.ready
        return web.json_response({"ready": ready, "boards": list(self.pool.facts())}, status=200 if ready else 503)

    async def model_ready(self, request: web.Request) -> web.Response:
        self.require_model(request)
        ready = self.pool.ready
        return web.json_response({"name": self.model, "ready": ready}, status=200 if ready else 503)

    async def metadata(self, request: web.Request) -> web.Response:
        self.require_model(request)
        return web.json_response(self.interface.facts())

    async def measured(self, _request: web.Request) -> web.Response:
        return web.Response(text=self.metrics.text(self.pool), headers={"Content-Type": CONTENT_TYPE})

    def require_model(self, request: web.Request) -> None:
        """HTTPNotFound for another model or version."""
        if request.match_info["model"] != self.model or request.match_info["version"] not in ("", "/versions/1"):
            raise web.HTTPNotFound

    async def infer(self, request: web.Request) -> web.Response:
        """Rows in, rows out."""
        began, status, rows = time.monotonic(), 500, 0
        try:
            self.require_model(request)
            asked, response = await self.infer_within(request, began + self.limits.timeout)
            status, rows = response.status, asked.count
            return response
        except (NotServed, web.HTTPException) as error:
            status = error.status
            raise
        finally:
            self.metrics.answered(status, rows, time.monotonic() - began)

    async def infer_within(self, request: web.Request, deadline: float) -> tuple[InferRequest, web.Response]:
        """The answer until the deadline; TimedOut."""
        self.pool.require_room()
        size = self.limits.max_body if request.content_length is None else request.content_length
        if size > self.limits.max_body:
            raise web.HTTPRequestEntityTooLarge(self.limits.max_body, size)
        size += OVERHEAD
        if self.held + size > self.limits.memory:
            raise QueueFull(f"the requests that wait have {self.limits.memory} bytes already", "send it again later")
        self.held += size
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                body = await body_of(request)
                return await self.computed(body, request.headers.get(HEADER_LENGTH), deadline)
        except TimeoutError:
            raise TimedOut(f"the result did not come in {self.limits.timeout:g} s") from None
        finally:
            self.held -= size

    async def computed(self, body: bytes, header_length: str | None, deadline: float
                       ) -> tuple[InferRequest, web.Response]:
        """The answer to a body."""
        loop = asyncio.get_running_loop()
        asked, data = await loop.run_in_executor(self._computing, self.prepared, body, header_length)
        future = self.pool.submit(data, deadline - time.monotonic())
        results = await asyncio.wrap_future(future)  # where this is cancelled, so is the future
        return asked, await loop.run_in_executor(self._computing, self.answered, asked, results)

    def prepared(self, body: bytes, header_length: str | None) -> tuple[InferRequest, bytes]:
        """The request of a body, and its frames for the line.  BadRequest."""
        asked = request_of(body, header_length, self.interface)
        if asked.count > self.limits.queue:
            raise BadRequest(f"a request must have at most {self.limits.queue} rows, not {asked.count}",
                             "send several")
        try:
            return asked, pack(self.quantized.graph, golden.run_prologue(self.quantized, asked.rows))
        except HwflowError as error:
            raise BadRequest(error.why, error.remedy, where=error.where) from None

    def answered(self, asked: InferRequest, results: bytes) -> web.Response:
        """The board's results for the client."""
        outputs = golden.run_epilogue(self.quantized, unpack(self.quantized.graph, results), asked.rows)
        body, length = answer_of(self.interface, asked, outputs)
        kind = "application/json" if length is None else "application/octet-stream"
        headers = {} if length is None else {HEADER_LENGTH: str(length)}
        return web.Response(body=body, content_type=kind, headers=headers)


async def body_of(request: web.Request) -> bytes:
    """All of it, unpacked.  UnknownCoding, BadRequest."""
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in CODINGS:
        raise UnknownCoding(f"the Content-Encoding of the body must be one of {', '.join(CODINGS)}, not "
                            f"'{coding[:80]}'", "send it as it is")
    try:
        return await request.read()
    except web.RequestPayloadError:
        raise BadRequest("the body must be what its headers Content-Encoding and Transfer-Encoding say, and it is not "
                         f"(Content-Encoding: {coding})", "send it as it is, without Content-Encoding") from None


def refusal(message: str, status: int, headers: dict[str, Any]) -> web.Response:
    """An answer without a result: one message, and after an error of the server or a refused body a new connection."""
    return web.json_response({"error": message}, status=status, headers=headers)


def said(error: web.HTTPException, request: web.Request, limits: ServeLimits) -> str:
    """The message about an error of HTTP."""
    texts = {
        401: "the request must have the token of the server: Authorization: Bearer TOKEN",
        404: f"there is no {request.path}; GET /v2/models/MODEL says what the model takes",
        405: f"{request.path} does not take {request.method}",
        413: f"the body must have at most {limits.max_body / MEBIBYTE:g} MiB: send fewer rows at a time"}
    return texts.get(error.status, error.reason)


# The server as a process: its socket, and how it ends.


#: The variable of the environment with the token.
TOKEN_VARIABLE = "HWFLOW_SERVE_TOKEN"
#: Fewer characters can be guessed.
SHORTEST_TOKEN = 16
ENDS = (signal.SIGINT, signal.SIGTERM)
#: Seconds for answers that are on their way to their clients when all is computed.
SECONDS_TO_SEND = 5.0
#: Connections that wait to be accepted.
CONNECTIONS = 1024


def token_of(host: str, file: Path | None, environment: Mapping[str, str]) -> str | None:
    """The token that requests must have; None where none is given and `host` is this machine alone.

    HwflowError where one must be given, or is too short.
    """
    token = environment.get(TOKEN_VARIABLE) if file is None else read_text(file).strip()
    if not token:
        if is_loopback(host) and file is None:
            return None
        raise HwflowError(f"a token must be given where others reach the server ('{host}' is not this machine alone)"
                          if file is None else f"'{file}' must hold a token",
                          f"write one into a file for --token-file, or into {TOKEN_VARIABLE}: `openssl rand -hex 32`")
    if len(token) < SHORTEST_TOKEN or not set(token) <= set(string.ascii_letters + string.digits + "-._~+/="):
        raise HwflowError(f"the token must have {SHORTEST_TOKEN} or more characters, letters, digits and -._~+/=",
                          "make one with `openssl rand -hex 32`")
    return token


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a server there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run_server(service: Service, host: str, port: int, listening: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM, answer what was accepted, and give the number of the signal.

    The boards of the service's pool are open already, and closed at the end.  `listening` hears the address; `port` 0
    takes a free one.  HwflowError where the address cannot be had.  A second signal ends at once.
    """
    return asyncio.run(serve(service, host, port, listening))


async def serve(service: Service, host: str, port: int, listening: Callable[[str], None]) -> int:
    loop, ends = asyncio.get_running_loop(), asyncio.Queue[int]()
    for number in ENDS:
        loop.add_signal_handler(number, ends.put_nowait, number)
    runner = web.AppRunner(service.application(), access_log=LOG if LOG.isEnabledFor(logging.DEBUG) else None,
                           shutdown_timeout=SECONDS_TO_SEND)
    try:
        await runner.setup()
        site = web.TCPSite(runner, host, port, backlog=CONNECTIONS)
        try:
            await site.start()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise HwflowError(f"the server must have the address {host} port {port}, which it cannot have: {reason}",
                              "choose another with --host and --http-port") from None
        listening(url_of(runner))
        ended_by = await ends.get()
        LOG.info("the server stops, and answers %d requests first", service.pool.outstanding)
        await site.stop()
        closing = asyncio.create_task(asyncio.to_thread(service.pool.close, service.limits.timeout))
        second = asyncio.create_task(ends.get())
        await asyncio.wait({closing, second}, return_when=asyncio.FIRST_COMPLETED)
        if not closing.done():  # he wants it at once
            await asyncio.to_thread(service.pool.abandon)
        await closing
        second.cancel()
        return ended_by
    finally:
        await runner.cleanup()
        for number in ENDS:
            loop.remove_signal_handler(number)


def url_of(runner: web.AppRunner) -> str:
    """Where the server listens."""
    address = runner.addresses[0]
    host, port = (address[0], address[1]) if isinstance(address, tuple) else (str(address), 0)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
