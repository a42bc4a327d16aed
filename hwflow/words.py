"""The words of the command line: every command with its options, each as one call of `hwflow.commands`."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from click.core import ParameterSource

from . import commands
from .commands.board import LineSettings
from .flow import Settings
from .onnx.limits import parse_limits
from .report.console import Console
from .synth.clock import ON_BOARD

__all__ = ["cli", "clock", "input_shape", "widths"]

#: No FPGA here is faster.
MOST_MHZ = 1000.0
#: A board cannot answer sooner, seconds.
SHORTEST = 0.01
#: Seeds are 32 bits wide, and nobody waits for more of them.
LAST_SEED, MOST_SEEDS = 2**32 - 1, 1000

F = TypeVar("F", bound=Callable[..., Any])


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`name=1,3,32,32` as the name and the sizes."""
    name, _, shape = text.rpartition("=")
    try:
        sizes = tuple(int(size) for size in shape.split(","))
    except ValueError:
        sizes = ()
    if not name or not sizes or min(sizes) < 1:
        raise click.BadParameter(f"{text!r} must be an input's name and its sizes, like image=1,3,32,32")
    return name, sizes


def once(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The shapes as they are; one of two for the same input would be passed over in silence."""
    names = [name for name, _ in shapes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"the input '{twice}' must be named once, not {names.count(twice)} times")
    return shapes


def widths(text: str) -> tuple[int, int]:
    """`4` or `4,8` as the widths of weights and activations, which have 8 bits where only weights are named."""
    try:
        bits = [int(width) for width in text.split(",")]
    except ValueError:
        bits = []
    if len(bits) not in (1, 2) or not all(1 <= width <= 8 for width in bits):
        raise click.BadParameter(f"{text!r} must be the bits of weights, or of weights and activations, from 1 to 8 "
                                 "each, like 4 or 4,8")
    return bits[0], bits[-1] if len(bits) == 2 else 8


def clock(text: str) -> float | str:
    """`board` as it is, or MHz above 0."""
    if text == ON_BOARD:
        return text
    try:
        mhz = float(text)
    except ValueError:
        mhz = 0.0
    if not 0 < mhz < MOST_MHZ:
        raise click.BadParameter(f"{text!r} must be MHz from 0 to {MOST_MHZ:g}, or {ON_BOARD}")
    return mhz


def seconds(text: str) -> float:
    """A time above 0 that ends."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not SHORTEST <= value < math.inf:
        raise click.BadParameter(f"{text!r} must be seconds, at least {SHORTEST:g}")
    return value


limit_option = click.option("--limit", "limits", multiple=True, metavar="NAME=NUMBER",
                            callback=lambda _context, _parameter, texts: parse_limits(texts),
                            help="Let a model that you trust ask for more: tensor_bytes, total_bytes, seconds, ...")


def model_options(command: F) -> F:
    """The options of every command that reads a model."""
    options = [
        click.argument("model", type=click.Path(path_type=Path)),
        click.option("--input-shape", "input_shapes", type=input_shape, multiple=True, metavar="NAME=D,D,...",
                     callback=lambda _context, _parameter, shapes: once(shapes),
                     help="Fix the shape of an input whose sizes the model leaves open."),
        click.option("--build", "build", type=click.Path(path_type=Path), default=Path("build"), show_default=True,
                     help="Where every intermediate result is written."),
        limit_option,
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


data_option = click.option("--data", type=click.Path(path_type=Path),
                           help="NPZ with in_<input>, and optionally labels and calib_<input>.")


def quantization_options(command: F) -> F:
    """The options of every command that makes integers."""
    options = [
        data_option,
        click.option("--bits", type=widths, metavar="W[,A]",
                     help="Bits of all weights and, where given, of all activations (else 8): 4 or 4,6."),
        click.option("--settings", type=click.Path(path_type=Path),
                     help="A YAML file with choices for each layer (docs/quantization-guide.md)."),
        click.option("--hardware-argmax", is_flag=True,
                     help="Compute the model's final ArgMax or TopK in hardware: indices leave it, not all scores."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


board_option = click.option("--board", default="ulx3s_85f", show_default=True,
                            help="A board's name (see `hwflow boards`) or a board YAML file.")


def plan_options(command: F) -> F:
    """The options of every command that makes a plan."""
    options = [
        click.option("--plan", type=click.Path(path_type=Path),
                     help="An edited plan.yaml instead of the one that hwflow makes."),
        click.option("--interval", type=click.IntRange(min=1), metavar="CYCLES",
                     help="The smallest design with at most so many cycles a frame, not the fastest that fits."),
        click.option("--logic-multipliers", is_flag=True,
                     help="Once the multiplier blocks are used up, multiply in logic: faster, but large designs take "
                          "long to route."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


clock_option = click.option(
    "--clock", type=clock, metavar="MHZ",
    help="The core's clock, made by a PLL; without it the highest that the routed design bears.  \"board\": the "
         "board's oscillator, without a PLL.")
reweightable_option = click.option("--reweightable", is_flag=True,
                                   help="Make hardware that `hwflow reweight` can give a retrained model's weights.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="hwflow")
def cli() -> None:
    """An ONNX model in; bit-exact RTL simulation and a bitstream out."""


@cli.command()
@model_options
@click.option("--strict", is_flag=True, help="Follow the word of the specification, also where exporters do not.")
@click.option("--hardware", is_flag=True, help="Say of every node whether it maps to hardware, why not, and what "
                                               "to do; the exit code is 1 where one does not.")
@click.option("--board", "fits", metavar="BOARD", help="With --hardware: whether the weights alone fit this board.")
def check(**options: Any) -> None:
    """Check MODEL against the ONNX rules and say what hwflow cannot run.

    The exit code is 0 for a valid ONNX file, with or without hardware for it, 1 for errors, 2 for what is no ONNX file.
    With --hardware it is 0 for a model that can become hardware, and 1 for any other.
    """
    run(commands.check, options)


@cli.command()
@model_options
@click.option("--svg", type=click.Path(path_type=Path), help="Write a picture of the graph to this file.")
def info(**options: Any) -> None:
    """Say what is in MODEL: inputs, operators, parameters, multiplications, and where each node runs."""
    run(commands.info, options)


@cli.command()
@model_options
@quantization_options
@click.option("--export", type=click.Path(path_type=Path),
              help="Write the integers as an ONNX model with QuantizeLinear and DequantizeLinear.")
@click.option("--accuracy-drop", type=float, metavar="POINTS",
              help="Search the widths of each layer for the cheapest design that loses at most so much accuracy.")
@click.option("--search-evaluations", type=click.IntRange(min=1), default=200, show_default=True,
              help="How many designs that search may try.")
@board_option
def quantize(**options: Any) -> None:
    """Make the integer graph of MODEL, calibrated on the data; with labels, report the accuracy of both.

    Exit codes: 0 fine; 1 where no widths keep --accuracy-drop; 2 for a model, data or settings that do not fit.
    """
    run(commands.quantize, options)


@cli.command()
@model_options
@quantization_options
@click.option("--layer-rows", type=click.IntRange(min=0), default=100, show_default=True,
              help="Rows for the table of layers; 0 leaves it out.")
def golden(**options: Any) -> None:
    """Run the integer golden model on every row of the data: accuracy, confusion of classes, noise of each layer.

    The exit code is 0 whatever the accuracy, 2 for a model, data or settings that do not fit.
    """
    run(commands.golden, options)


@cli.command()
@model_options
@quantization_options
@board_option
@plan_options
@reweightable_option
@click.option("--axi-stream", is_flag=True,
              help="Also write hwflow_axi_stream.v, the design with AXI4-Stream ports (docs/embedding.md).")
def build(**options: Any) -> None:
    """Plan the stages of MODEL for a board and generate the Verilog."""
    run(commands.build, options)


@cli.command()
@model_options
@quantization_options
@board_option
@plan_options
@reweightable_option
@click.option("--frames", type=click.IntRange(min=2), help="Frames to simulate; 10, or 3 with --netlist.")
@click.option("--stalls", type=click.FloatRange(0, 0.98), default=0.4, show_default=True,
              help="Probability of a stall at each end in the second run.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the stalls.")
@click.option("--waves", is_flag=True, help="Write an FST wave file of each run.")
@click.option("--netlist", is_flag=True,
              help="Simulate what yosys made for the board, cell by cell, and compare what comes out of its pins.")
@clock_option
def sim(frames: int | None, netlist: bool, **options: Any) -> None:
    """Simulate the RTL of MODEL and compare every stage with the golden model, bit for bit."""
    context = click.get_current_context()
    if netlist and context.get_parameter_source("stalls") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--stalls must not stand with --netlist, where the line alone makes stalls", context)
    if options["clock"] is not None and not netlist:
        raise click.UsageError("--clock must stand with --netlist, whose cells have a PLL or none", context)
    run(commands.sim, {**options, "netlist": netlist, "frames": frames or (3 if netlist else 10)})


@cli.command()
@model_options
@quantization_options
@board_option
@plan_options
@reweightable_option
@click.option("--seed", type=click.IntRange(0, LAST_SEED - MOST_SEEDS), default=1, show_default=True,
              help="Seed of place and route.")
@click.option("--seeds", type=click.IntRange(1, MOST_SEEDS), default=1, show_default=True,
              help="Place and route from so many seeds, --seed the first of them, and keep the fastest clock.")
@click.option("--jobs", type=click.IntRange(min=1),
              help="How many of them at a time; else as many as cores and free memory allow (2 GB each).")
@clock_option
def synth(**options: Any) -> None:
    """Make the bitstream of MODEL for a board with yosys and nextpnr.

    Interrupted and started again, it goes on with what is not done; the same seed gives the same bitstream.  The exit
    code is 1 where the design does not fit or a tool fails.
    """
    run(commands.synth, options)


@cli.command()
@click.argument("model", type=click.Path(path_type=Path))
@board_option
@click.option("--flash", is_flag=True, help="Into the memory that the board starts from; else until the power goes.")
@click.option("--build", "build", type=click.Path(path_type=Path), default=Path("build"), show_default=True,
              help="Where `hwflow synth` wrote its results.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def program(**options: Any) -> None:
    """Put the bitstream that `hwflow synth` made of MODEL onto a board.

    Exit codes: 0 written; 1 where the programmer fails, in its own words; 2 where it, or the bitstream, is missing.
    """
    run(commands.program, options)


@cli.command()
@model_options
@data_option
@board_option
@click.option("--base", type=click.Path(path_type=Path), required=True,
              help="The first model, which was synthesized, or its build folder.")
@click.option("--netlist", is_flag=True, help="Prove the result: its cells give the golden model's bytes.")
@click.option("--frames", type=click.IntRange(min=2), default=3, show_default=True, help="Frames of that proof.")
def reweight(**options: Any) -> None:
    """Put the retrained MODEL into the routed design of the first one: seconds, without place and route.

    Exit codes: 0 done; 1 where the model does not fit the routed hardware, the proof fails, or a tool does; 2 without a
    routed design.
    """
    run(commands.reweight, options)


@cli.command("run")
@model_options
@click.option("--port", metavar="PORT",
              help="The board's serial port, like /dev/ttyUSB0, or socket://HOST:PORT; without it the ports of this "
                   "machine are listed.")
@click.option("--baud", type=click.IntRange(min=1), help="The line's rate, where not that of the design.")
@data_option
@click.option("--board", help="The board whose design must be the one; without it, whichever design of MODEL the board "
                              "holds.")
@click.option("--rows", type=click.IntRange(min=1), help="Run the first rows of the data alone.")
@click.option("--patience", type=seconds, default=LineSettings.patience, show_default=True,
              metavar="SECONDS", help="How long the board may be silent; simulated boards need more.")
def run_on_board(as_json: bool, **options: Any) -> None:
    """Run MODEL on a board that holds its bitstream: every row of the data, against the golden model, bit for bit.

    The design is the one that `hwflow synth` left in the build folder.  Exit codes: 0 equal; 1 where a number differs;
    2 where no board answers, where it holds another design, or where the link to it is lost.
    """
    line = LineSettings(**{field.name: options.pop(field.name) for field in dataclasses.fields(LineSettings)})
    finish(commands.run(Console(quiet=as_json), Settings(**options), line), as_json)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def boards(**options: Any) -> None:
    """List the boards."""
    run(commands.boards, options)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def doctor(**options: Any) -> None:
    """Say what is installed, what is missing, and how to get it."""
    run(commands.doctor, options)


@cli.group("onnx")
def onnx_group() -> None:
    """Work on ONNX files that has nothing to do with hardware."""


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@onnx_group.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@limit_option
@json_option
def diff(as_json: bool, **options: Any) -> None:
    """Say what changed from the model (or operator set) OLD to NEW, and which part of its version must grow.

    The exit code is 0 where callers of OLD can go on with NEW, 1 for a breaking change.
    """
    finish(commands.diff(Console(quiet=as_json), **options), as_json)


@onnx_group.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--external-data", is_flag=True, help="Put large weights into a file beside the model.")
@limit_option
@json_option
def convert(as_json: bool, **options: Any) -> None:
    """Write the model SOURCE to TARGET: as text where it ends in .textproto, else binary."""
    finish(commands.convert(Console(quiet=as_json), **options), as_json)


@onnx_group.command()
@click.argument("rule", required=False)
@json_option
def rules(as_json: bool, **options: Any) -> None:
    """List the rules of ONNX and where they are enforced, or say what RULE is."""
    finish(commands.rules(Console(quiet=as_json), **options), as_json)


def run(command: Callable[[Console, Settings], Mapping[str, Any]], options: Mapping[str, Any]) -> None:
    """Call `command` with the options as `Settings`, and finish with its result."""
    known = {field.name for field in dataclasses.fields(Settings)}
    settings = Settings(**{name: value for name, value in options.items() if name in known})
    finish(command(Console(quiet=options["as_json"]), settings), options["as_json"])


def finish(result: Mapping[str, Any], as_json: bool) -> NoReturn:
    """Print a result as JSON where asked, and exit with its code."""
    if as_json:
        click.echo(json.dumps(result, indent=1))
    sys.exit(int(result.get("exit_code", 0)))
