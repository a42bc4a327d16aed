"""The words of the command line: every command with its options, each as one call of `hwflow.commands`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.core import ParameterSource

from .. import commands
from ..onnx.limits import Limits
from ..report.console import Console
from ..request import (
    BUILD,
    BuildRequest,
    CheckRequest,
    GoldenRequest,
    InfoRequest,
    ProgramRequest,
    QuantizeRequest,
    ReweightRequest,
    RunRequest,
    SimRequest,
    SynthRequest,
)
from .help import Group
from .options import (
    LAST_SEED,
    MOST_SEEDS,
    board_option,
    clock_option,
    data_option,
    json_option,
    limit_option,
    model_argument,
    model_options,
    one_version,
    operator_set,
    plan_options,
    quantization_options,
    reweightable_option,
    seconds,
)
from .requests import finish, takes

__all__ = ["cli"]

Result: TypeAlias = Mapping[str, Any]


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="hwflow")
def cli() -> None:
    """An ONNX model in; bit-exact RTL simulation and a bitstream out."""


@cli.command()
@model_options
@data_option
@click.option("--strict", is_flag=True, help="Follow the word of the specification, also where exporters do not.")
@click.option("--hardware", is_flag=True, help="Say of every node whether it maps to hardware, why not, and what "
                                               "to do; the exit code is 1 where one does not.")
@click.option("--board", metavar="BOARD", help="With --hardware: whether the weights alone fit this board.")
@takes(CheckRequest)
def check(console: Console, request: CheckRequest) -> Result:
    """Check MODEL against the ONNX rules and say what hwflow cannot run.

    The exit code is 0 for a valid ONNX file, with or without hardware for it, 1 for errors, 2 for what is no ONNX file.
    With --hardware it is 0 for a model that can become hardware, and 1 for any other.
    """
    return commands.check(console, request)


@cli.command()
@model_options
@data_option
@click.option("--svg", type=click.Path(path_type=Path), help="Write a picture of the graph to this file.")
@takes(InfoRequest)
def info(console: Console, request: InfoRequest) -> Result:
    """Say what is in MODEL: inputs, operators, parameters, multiplications, and where each node runs."""
    return commands.info(console, request)


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
@takes(QuantizeRequest)
def quantize(console: Console, request: QuantizeRequest) -> Result:
    """Make the integer graph of MODEL, calibrated on the data; with labels, report the accuracy of both.

    Exit codes: 0 fine; 1 where no widths keep --accuracy-drop; 2 for a model, data or settings that do not fit.
    """
    return commands.quantize(console, request)


@cli.command()
@model_options
@quantization_options
@click.option("--layer-rows", type=click.IntRange(min=0), default=100, show_default=True,
              help="Rows for the table of layers; 0 leaves it out.")
@takes(GoldenRequest)
def golden(console: Console, request: GoldenRequest) -> Result:
    """Run the integer golden model on every row of the data: accuracy, confusion of classes, noise of each layer.

    The exit code is 0 whatever the accuracy, 2 for a model, data or settings that do not fit.
    """
    return commands.golden(console, request)


@cli.command()
@model_options
@quantization_options
@board_option
@plan_options
@reweightable_option
@click.option("--axi-stream", is_flag=True,
              help="Also write hwflow_axi_stream.v, the design with AXI4-Stream ports (docs/embedding.md).")
@takes(BuildRequest)
def build(console: Console, request: BuildRequest) -> Result:
    """Plan the stages of MODEL for a board and generate the Verilog."""
    return commands.build(console, request)


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
@takes(SimRequest)
def sim(console: Console, request: SimRequest) -> Result:
    """Simulate the RTL of MODEL and compare every stage with the golden model, bit for bit."""
    context = click.get_current_context()
    if request.netlist and context.get_parameter_source("stalls") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--stalls must not stand with --netlist, where the line alone makes stalls", context)
    if request.clock is not None and not request.netlist:
        raise click.UsageError("--clock must stand with --netlist, whose cells have a PLL or none", context)
    return commands.sim(console, request)


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
@takes(SynthRequest)
def synth(console: Console, request: SynthRequest) -> Result:
    """Make the bitstream of MODEL for a board with yosys and nextpnr.

    Interrupted and started again, it goes on with what is not done; the same seed gives the same bitstream.  The exit
    code is 1 where the design does not fit or a tool fails.
    """
    return commands.synth(console, request)


@cli.command()
@model_argument
@board_option
@click.option("--flash", is_flag=True, help="Into the memory that the board starts from; else until the power goes.")
@click.option("--build", type=click.Path(path_type=Path), default=BUILD, show_default=True,
              help="Where `hwflow synth` wrote its results.")
@json_option
@takes(ProgramRequest)
def program(console: Console, request: ProgramRequest) -> Result:
    """Put the bitstream that `hwflow synth` made of MODEL onto a board.

    Exit codes: 0 written; 1 where the programmer fails, in its own words; 2 where it, or the bitstream, is missing.
    """
    return commands.program(console, request)


@cli.command()
@model_options
@data_option
@board_option
@click.option("--base", type=click.Path(path_type=Path), required=True,
              help="The first model, which was synthesized, or its build folder.")
@click.option("--netlist", is_flag=True, help="Prove the result: its cells give the golden model's bytes.")
@click.option("--frames", type=click.IntRange(min=2), default=3, show_default=True, help="Frames of that proof.")
@takes(ReweightRequest)
def reweight(console: Console, request: ReweightRequest) -> Result:
    """Put the retrained MODEL into the routed design of the first one: seconds, without place and route.

    Exit codes: 0 done; 1 where the model does not fit the routed hardware, the proof fails, or a tool does; 2 without a
    routed design.
    """
    return commands.reweight(console, request)


@cli.command()
@model_options
@click.option("--port", metavar="PORT",
              help="The board's serial port, like /dev/ttyUSB0, or socket://HOST:PORT; without it the ports of this "
                   "machine are listed.")
@click.option("--baud", type=click.IntRange(min=1), help="The line's rate, where not that of the design.")
@data_option
@click.option("--board", help="The board whose design must be the one; without it, whichever design of MODEL the board "
                              "holds.")
@click.option("--rows", type=click.IntRange(min=1), help="Run the first rows of the data alone.")
@click.option("--patience", type=seconds, default=RunRequest.patience, show_default=True,
              metavar="SECONDS", help="How long the board may be silent; simulated boards need more.")
@takes(RunRequest)
def run(console: Console, request: RunRequest) -> Result:
    """Run MODEL on a board that holds its bitstream: every row of the data, against the golden model, bit for bit.

    The design is the one that `hwflow synth` left in the build folder.  Exit codes: 0 equal; 1 where a number differs;
    2 where no board answers, where it holds another design, or where the link to it is lost.
    """
    return commands.run(console, request)


@cli.command()
@json_option
def boards(as_json: bool) -> None:
    """List the boards."""
    finish(commands.boards(Console(quiet=as_json)), as_json)


@cli.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what is installed, what is missing, and how to get it."""
    finish(commands.doctor(Console(quiet=as_json)), as_json)


@cli.group("onnx")
def onnx_group() -> None:
    """Work on ONNX files that has nothing to do with hardware."""


@onnx_group.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@limit_option
@json_option
def diff(old: Path, new: Path, limits: Limits, as_json: bool) -> None:
    """Say what changed from the model (or operator set) OLD to NEW, and which part of its version must grow.

    The exit code is 0 where callers of OLD can go on with NEW, 1 for a breaking change.
    """
    finish(commands.diff(Console(quiet=as_json), old, new, limits), as_json)


@onnx_group.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--opset", "opsets", type=operator_set, multiple=True, metavar="[DOMAIN=]VERSION",
              callback=lambda _context, _parameter, sets: one_version(sets),
              help="Write it for another operator set, with the same meaning: 21, or ai.onnx.ml=3.")
@click.option("--external-data", is_flag=True, help="Put large weights into a file beside the model.")
@limit_option
@json_option
def convert(source: Path, target: Path, opsets: dict[str, int], external_data: bool, limits: Limits,
            as_json: bool) -> None:
    """Write the model SOURCE to TARGET: as text where it ends in .textproto, else binary."""
    finish(commands.convert(Console(quiet=as_json), source, target, external_data, opsets, limits), as_json)


@onnx_group.command()
@click.argument("source", metavar="MODEL", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--from", "inputs", multiple=True, metavar="TENSOR",
              help="A tensor that becomes an input, once for each; else the inputs of MODEL that are needed.")
@click.option("--to", "outputs", multiple=True, metavar="TENSOR",
              help="A tensor that becomes an output, once for each; else the outputs of MODEL.")
@limit_option
@json_option
def extract(source: Path, target: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], limits: Limits,
            as_json: bool) -> None:
    """Write the part of MODEL between some tensors and some others to OUT, as a model of its own.

    Exit codes: 0 written; 2 for a tensor that MODEL does not have, or inputs that are not enough for the outputs.
    """
    finish(commands.extract(Console(quiet=as_json), source, target, inputs, outputs, limits), as_json)


@onnx_group.command()
@click.argument("rule", required=False)
@json_option
def rules(rule: str | None, as_json: bool) -> None:
    """List the rules of ONNX and where they are enforced, or say what RULE is."""
    finish(commands.rules(Console(quiet=as_json), rule), as_json)
