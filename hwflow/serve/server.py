"""The server as a process: its socket, and how it ends."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import string
from collections.abc import Callable, Mapping
from pathlib import Path

from aiohttp import web
from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import read_text

from hwflow.serve.service import Service

LOG = logging.getLogger("hwflow.serve")
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
