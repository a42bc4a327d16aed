"""The command that serves a model; it has more options than the others together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .. import commands
from ..report.console import Console
from ..request import ServeRequest
from .command import Command
from .options import data_option, model_options, port_options, seconds
from .requests import takes

__all__ = ["serve"]


@click.command(cls=Command)
@model_options
@port_options
@data_option
@click.option("--simulate", type=click.IntRange(min=0), default=ServeRequest.simulate, metavar="COUNT",
              help="Serve so many simulated boards in place of real ones, with what is in the build folder.")
@click.option("--host", default=ServeRequest.host, show_default=True,
              help="The address to listen at.  One that others reach needs a token.")
@click.option("--http-port", type=click.IntRange(min=0, max=65535), default=ServeRequest.http_port, show_default=True,
              help="The port to listen at; 0: a free one.")
@click.option("--token-file", type=click.Path(path_type=Path),
              help="A file with the token that requests must have; default: the variable HWFLOW_SERVE_TOKEN.")
@click.option("--timeout", type=seconds, default=ServeRequest.timeout, show_default=True, metavar="SECONDS",
              help="How long a request may take.")
@click.option("--queue", type=click.IntRange(min=1), default=ServeRequest.queue, show_default=True, metavar="FRAMES",
              help="How many frames may wait for a board.")
@click.option("--max-batch", type=click.IntRange(min=1), default=ServeRequest.max_batch, show_default=True,
              metavar="FRAMES", help="How many frames a board is given at once, at most.")
@click.option("--batch-wait", type=click.FloatRange(min=0, max=1), default=ServeRequest.batch_wait, show_default=True,
              metavar="SECONDS", help="How long a board without work waits for more than the first request.")
@click.option("--max-body", type=click.IntRange(min=1, max=1024), default=ServeRequest.max_body, show_default=True,
              metavar="MIB", help="The size of a request's body, at most.")
@click.option("--verbose", is_flag=True, help="Log every request.")
@takes(ServeRequest)
def serve(console: Console, request: ServeRequest) -> Mapping[str, Any]:
    """Serve MODEL over HTTP, on one or several boards (docs/serve.md).

    Ctrl-C or SIGTERM ends it: what was accepted is answered first.  Exit codes: 0 ended so; 2 if no board answers, or
    the address cannot be had.
    """
    return commands.serve(console, request)
