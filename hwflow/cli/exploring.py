"""The command that explores the design space."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from .. import commands
from ..layers.partition import Execution
from ..report.console import Console
from ..request import ExploreRequest
from .command import Command
from .options import data_option, model_options, rescale_bits, widths
from .requests import takes

__all__ = ["OBJECTIVES", "explore"]

#: The names of `hwflow.exploration.frontier.Objective`, which is imported only to explore.
OBJECTIVES = ("frames", "latency", "accuracy", "lut", "ff", "dsp", "ram", "filled")


def names(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    """`a,b` as both names; none where nothing is given."""
    if text is None:
        return ()
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise click.BadParameter(f"{text!r} must be names of boards, like icebreaker,ulx3s_85f")
    return found


@click.command(cls=Command)
@model_options
@data_option
@click.option("--boards", callback=names, metavar="NAME,NAME,...",
              help="Boards, or their YAML files; default: all that come with hwflow.")
@click.option("--bits", type=widths, multiple=True, metavar="W[,A]",
              help="Bits of all weights, and of all activations (default 8): 4 or 4,6.  Repeat it for several widths.")
@click.option("--settings", type=click.Path(path_type=Path), multiple=True,
              help="YAML file with settings for each layer, or a folder of such files, as the frontier of `hwflow "
                   "quantize --accuracy-drop`.  Each file is one more value of --bits (repeatable).")
@click.option("--rescale-bits", type=rescale_bits, metavar="N",
              help="Bits of the multipliers that turn sums into elements, 18 to 32; auto: as few as are exact.")
@click.option("--hardware-argmax", is_flag=True,
              help="Compute the final ArgMax or TopK in hardware, which then gives indices, not scores.")
@click.option("--intervals", type=click.IntRange(1, 1000), metavar="COUNT",
              help="How many designs of each board and width, from the fastest to the smallest; default: 8, or the "
                   "fastest alone with --frames.")
@click.option("--frames", type=click.FloatRange(min=0, min_open=True), metavar="N",
              help="Name the smallest board that does N frames/s, and what the next smaller one lacks.")
@click.option("--execution", "executions", type=click.Choice([each.value for each in Execution]), multiple=True,
              callback=lambda _context, _parameter, texts: tuple(Execution(text) for text in texts),
              help="dataflow, shared, or the better of both (auto, the default).  Repeat it for several.")
@click.option("--logic-multipliers", is_flag=True,
              help="Also designs that multiply in logic when all multiplier blocks are used.")
@click.option("--stream-weights", is_flag=True,
              help="Also designs with weights outside of the FPGA where those inside fit.")
@click.option("--accuracy-drop", type=click.FloatRange(min=0), metavar="POINTS",
              help="With --frames: only designs count that lose at most POINTS of accuracy on the data.")
@click.option("--objective", "objectives", type=click.Choice(OBJECTIVES), multiple=True,
              help="What makes a design better than another one (repeatable); default: frames, accuracy where there is "
                   "data, and lut.")
@click.option("--route", type=click.IntRange(1, 1000), metavar="N",
              help="Place and route N designs, from the fastest of the frontier to its smallest: minutes to hours.")
@click.option("--runs", type=click.IntRange(1, 1000), default=ExploreRequest.runs, show_default=True, metavar="COUNT",
              help="With --route: runs of each design, each with another seed, and from the second on with knobs of "
                   "the placer that Optuna proposes.")
@click.option("--workers", type=click.IntRange(1, 1024), metavar="COUNT",
              help="Processes on this machine; default: one for each core.")
@click.option("--scheduler", metavar="ADDRESS",
              help="Run on the Dask cluster of this scheduler, like tcp://192.168.1.2:8786 (docs/explore.md).")
@takes(ExploreRequest)
def explore(console: Console, request: ExploreRequest) -> Mapping[str, Any]:
    """Compare the designs of MODEL on many boards, widths and intervals, at estimated clocks: which are the best?

    What is finished is kept in build/<model>/exploration: a run that was interrupted goes on.

    Exit codes: 0 success; 1 if no design fits, or with --frames no board does it; 2 if the model, the data or the
    options are invalid, or the cluster does not answer.
    """
    context = click.get_current_context()
    if request.accuracy_drop is not None and request.frames is None:
        raise click.UsageError("--accuracy-drop must be given together with --frames", context)
    if request.route is None and context.get_parameter_source("runs") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--runs must be given together with --route", context)
    if request.workers is not None and request.scheduler is not None:
        raise click.UsageError("--workers must not be given together with --scheduler, whose workers are there already",
                               context)
    return commands.explore(console, request)
