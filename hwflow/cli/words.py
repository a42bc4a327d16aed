"""The commands of the command line and their options.  Each command calls one function of `hwflow.commands`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.core import ParameterSource

from .. import commands
from ..export import FORMATS
from ..report.console import Console
from ..request import (
    BUILD,
    BuildRequest,
    CheckRequest,
    GoldenRequest,
    InfoRequest,
    ProgramRequest,
    QuantizeRequest,
    ReportRequest,
    ReweightRequest,
    RunRequest,
    SimRequest,
    SynthRequest,
)
from .command import Group
from .data_words import data
from .exploring import explore
from .onnx_words import onnx_group
from .options import (
    LAST_SEED,
    MOST_SEEDS,
    board_option,
    clock_option,
    console_of_call,
    data_option,
    model_argument,
    model_options,
    output_options,
    placer,
    plan_options,
    port_options,
    quantization_options,
    reweightable_option,
    verbose_option,
)
from .requests import finish, takes
from .serving import serve
from .starting import completion, init

__all__ = ["cli"]

Result: TypeAlias = Mapping[str, Any]


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="hwflow")
def cli() -> None:
    """An ONNX model in; bit-exact RTL simulation and a bitstream out."""


@cli.command()
@model_options
@data_option
@click.option("--strict", is_flag=True, help="Also refuse what the specification forbids but exporters write.")
@click.option("--hardware", is_flag=True, help="Show for every node whether it maps to hardware, if not why, and what "
                                               "to do.  The exit code is 1 if a node does not map.")
@click.option("--board", metavar="BOARD", help="With --hardware: plan the design for this board (seconds), and "
                                             "say how it computes the layers.")
@takes(CheckRequest)
def check(console: Console, request: CheckRequest) -> Result:
    """Check MODEL against the ONNX rules, and say which of its nodes become hardware.

    Exit codes: 0 for a valid ONNX file; 1 if the file breaks a rule; 2 if it is not an ONNX file.  With --hardware: 0
    if the model can become hardware; 1 if not.
    """
    return commands.check(console, request)


@cli.command()
@model_options
@data_option
@click.option("--board", metavar="BOARD", help="Plan the design for this board (seconds), and say how it computes the "
                                             "layers, and in how many cycles.")
@click.option("--svg", type=click.Path(path_type=Path), help="Write a picture of the graph to this file.")
@takes(InfoRequest)
def info(console: Console, request: InfoRequest) -> Result:
    """Show the inputs, operators, parameters and multiplications of MODEL, and where each node runs."""
    return commands.info(console, request)


@cli.command()
@model_options
@quantization_options
@click.option("--export", type=click.Path(path_type=Path),
              help="Write the integers as an ONNX model with QuantizeLinear and DequantizeLinear.")
@click.option("--accuracy-drop", type=float, metavar="POINTS",
              help="Search widths for each layer: the cheapest design that loses at most POINTS of accuracy.")
@click.option("--search-evaluations", type=click.IntRange(min=1), default=200, show_default=True,
              help="How many designs the search may try.")
@board_option
@verbose_option
@takes(QuantizeRequest)
def quantize(console: Console, request: QuantizeRequest) -> Result:
    """Quantize MODEL to integers, calibrated on the data; with labels, report the accuracy before and after.

    Exit codes: 0 success; 1 if no widths keep --accuracy-drop; 2 if the model, the data or the settings are invalid.
    """
    return commands.quantize(console, request)


@cli.command()
@model_options
@quantization_options
@click.option("--layer-rows", type=click.IntRange(min=0), default=100, show_default=True,
              help="Rows of data for the table of layers; 0 omits the table.")
@verbose_option
@takes(GoldenRequest)
def golden(console: Console, request: GoldenRequest) -> Result:
    """Run the golden model, in integers, on every row of the data: accuracy, confusion matrix, noise of each layer.

    Exit codes: 0 for any accuracy; 2 if the model, the data or the settings are invalid.
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
@click.option("--export", type=click.Choice(sorted(FORMATS)), multiple=True,
              help="Also write it as a part of another design, with a test bench (repeatable): plain Verilog, a "
                   "FuseSoC core, or a LiteX module with an example SoC (docs/embedding.md).")
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR",
              help="With --export: the folder that gets a folder for each format; default: export, beside the plan.")
@verbose_option
@takes(BuildRequest)
def build(console: Console, request: BuildRequest) -> Result:
    """Plan the stages of MODEL for a board and generate the Verilog.

    Exit codes: 0 success; 1 if the model does not fit the board; 2 if the model, the data or the options are invalid,
    or a folder of --output holds something else.
    """
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
              help="Simulate the netlist from yosys instead, and compare the bytes at the board's pins.")
@click.option("--streaming", is_flag=True,
              help="Play all rows of the data, up to 100, as one sequence, of a model that keeps a state from frame to "
                   "frame (docs/streaming.md).")
@clock_option
@verbose_option
@takes(SimRequest)
def sim(console: Console, request: SimRequest) -> Result:
    """Simulate the RTL of MODEL and compare every stage with the golden model, bit for bit."""
    context = click.get_current_context()
    if request.netlist and context.get_parameter_source("stalls") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--stalls must not be given with --netlist, where only the serial line stalls", context)
    if request.clock is not None and not request.netlist:
        raise click.UsageError("--clock must be given together with --netlist: only the netlist has a PLL", context)
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
              help="Place and route with this many seeds, from --seed on, and keep the fastest result.")
@click.option("--jobs", type=click.IntRange(min=1),
              help="How many seeds to route at a time; default: as cores and free memory allow (2 GB each).")
@click.option("--placer", type=placer, default="", metavar="NAME=NUMBER,...",
              help="Knobs of nextpnr's placer: beta, critexp, timingweight (docs/synthesis.md).")
@clock_option
@verbose_option
@takes(SynthRequest)
def synth(console: Console, request: SynthRequest) -> Result:
    """Make the bitstream of MODEL for a board with yosys and nextpnr.

    After an interruption, the next call continues with the steps that are not done.  The same seed gives the same
    bitstream.  The exit code is 1 if the design does not fit or a tool fails.
    """
    return commands.synth(console, request)


@cli.command()
@model_options
@quantization_options
@board_option
@plan_options
@reweightable_option
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE",
              help="The file to write; default: report.html, beside the plan.")
@takes(ReportRequest)
def report(console: Console, request: ReportRequest) -> Result:
    """Write a page that shows the whole design of MODEL for a board: one HTML file, for any browser.

    It plans the design where that was not done yet, and shows what other commands found: accuracy of `hwflow golden`,
    proofs of `hwflow sim` and `hwflow run`, the placed design of `hwflow synth`.  Of what was not run it names the
    command.

    Exit codes: 0 written; 1 if the model does not fit the board; 2 if the model, the data or the options are invalid.
    """
    return commands.report(console, request)


@cli.command()
@model_argument
@board_option
@click.option("--flash", is_flag=True, help="Write the flash from which the board starts, not only the FPGA itself.")
@click.option("--weights", is_flag=True,
              help="Write the weights after the bitstream into the flash of the board, or send them over --port into "
                   "another memory of a board that has the bitstream already.")
@click.option("--port", metavar="PORT", help="With --weights: the board's serial port, or socket://HOST:PORT.")
@click.option("--baud", type=click.IntRange(min=1), help="With --weights: the bit rate, if it is not the design's.")
@click.option("--build", type=click.Path(path_type=Path), default=BUILD, show_default=True,
              help="Where `hwflow synth` wrote its results.")
@output_options
@takes(ProgramRequest)
def program(console: Console, request: ProgramRequest) -> Result:
    """Load the bitstream that `hwflow synth` made of MODEL into a board.

    With --weights: its weights into the memory beside the FPGA.  Those in a flash need this once; into another memory
    `hwflow run` sends them by itself.

    Exit codes: 0 written; 1 if the programmer fails; 2 if the programmer, the bitstream or the weights are missing, or
    the board does not answer.
    """
    return commands.program(console, request)


@cli.command()
@model_options
@data_option
@board_option
@click.option("--base", type=click.Path(path_type=Path), required=True,
              help="The model that was synthesized, or its build folder.")
@click.option("--netlist", is_flag=True, help="Simulate the new netlist and compare it with the golden model.")
@click.option("--frames", type=click.IntRange(min=2), default=3, show_default=True,
              help="Frames to simulate with --netlist.")
@verbose_option
@takes(ReweightRequest)
def reweight(console: Console, request: ReweightRequest) -> Result:
    """Put the weights of the retrained MODEL into the routed design of BASE, in seconds, without place and route.

    Exit codes: 0 done; 1 if the model does not fit the routed hardware, the simulation differs, or a tool fails; 2 if
    there is no routed design.
    """
    return commands.reweight(console, request)


@cli.command()
@model_options
@port_options
@data_option
@click.option("--rows", type=click.IntRange(min=1), help="Run only the first rows of the data.")
@click.option("--simulate", is_flag=True,
              help="Simulate the whole board and its line in place of a real one, with what is in the build folder.")
@click.option("--terminal", is_flag=True,
              help="With --simulate: give the board a pseudo-terminal for other programs, until Ctrl-C; run no data.")
@verbose_option
@takes(RunRequest)
def run(console: Console, request: RunRequest) -> Result:
    """Run MODEL on a programmed or a simulated board: compare every row of the data with the golden model, bit for bit.

    The design is the one that `hwflow synth` left in the build folder.  Exit codes: 0 equal; 1 if a number differs; 2
    if no board answers, the board holds another design, or the link to it is lost.
    """
    return commands.run(console, request)


@cli.command()
@output_options
def boards(as_json: bool) -> None:
    """List the boards."""
    finish(commands.boards(console_of_call(as_json)), as_json)


@cli.command()
@output_options
def doctor(as_json: bool) -> None:
    """Show which tools are installed, which are missing, and how to install them."""
    finish(commands.doctor(console_of_call(as_json)), as_json)


cli.add_command(data)
cli.add_command(explore)
cli.add_command(serve)
cli.add_command(init)
cli.add_command(completion)
cli.add_command(onnx_group)
