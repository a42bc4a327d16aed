"""The command line.  Results go to standard output, progress to standard error; failures are one message.

Exit codes: 0 fine; 1 the answer is no (mismatch, does not fit, check failed); 2 the question was wrong (bad file,
unknown board, missing tool); 130 interrupted.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from . import commands
from .errors import HwflowError
from .flow import Settings
from .report.console import Console

__all__ = ["main"]

F = TypeVar("F", bound=Callable[..., Any])


class InputShape(click.ParamType[tuple[str, tuple[int, ...]]]):
    """`name=1,3,32,32`."""

    name = "name=d,d,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        name, _, shape = str(value).rpartition("=")
        try:
            sizes = tuple(int(size) for size in shape.split(","))
        except ValueError:
            sizes = ()
        if not name or not sizes or min(sizes) < 1:
            self.fail(f"{value!r} must be an input's name and its sizes, like image=1,3,32,32", param, ctx)
        return name, sizes


def model_options(command: F) -> F:
    """The options of every command that reads a model."""
    options = [
        click.argument("model", type=click.Path(path_type=Path)),
        click.option("--input-shape", "input_shapes", type=InputShape(), multiple=True,
                     help="Fix the shape of an input whose sizes the model leaves open."),
        click.option("--build", "build", type=click.Path(path_type=Path), default=Path("build"), show_default=True,
                     help="Where every intermediate result is written."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


data_option = click.option("--data", type=click.Path(path_type=Path),
                           help="NPZ with in_<input>, and optionally labels and calib_<input>.")
board_option = click.option("--board", default="ulx3s_85f", show_default=True,
                            help="A board's name (see `hwflow boards`) or a board YAML file.")
plan_option = click.option("--plan", type=click.Path(path_type=Path),
                           help="An edited plan.yaml instead of the one that hwflow makes.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="hwflow")
def cli() -> None:
    """An ONNX model in; bit-exact RTL simulation and a bitstream out."""


@cli.command()
@model_options
def check(**options: Any) -> None:
    """Check MODEL against the ONNX rules and say what hwflow cannot run."""
    run(commands.check, options)


@cli.command()
@model_options
def info(**options: Any) -> None:
    """Say what is in MODEL: inputs, outputs, operators, parameters, multiplications."""
    run(commands.info, options)


@cli.command()
@model_options
@data_option
def quantize(**options: Any) -> None:
    """Make the integer graph of MODEL, calibrated on the data; with labels, report the accuracy of both."""
    run(commands.quantize, options)


@cli.command()
@model_options
@data_option
def golden(**options: Any) -> None:
    """Run the integer golden model on every row of the data; write its outputs and report the accuracy."""
    run(commands.golden, options)


@cli.command()
@model_options
@data_option
@board_option
@plan_option
def build(**options: Any) -> None:
    """Plan the stages of MODEL for a board and generate the Verilog."""
    run(commands.build, options)


@cli.command()
@model_options
@data_option
@board_option
@plan_option
@click.option("--frames", type=click.IntRange(min=2), default=10, show_default=True, help="Frames to simulate.")
@click.option("--stalls", type=click.FloatRange(0, 0.98), default=0.4, show_default=True,
              help="Probability of a stall at each end in the second run.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the stalls.")
@click.option("--waves", is_flag=True, help="Write an FST wave file of each run.")
def sim(**options: Any) -> None:
    """Simulate the RTL of MODEL and compare every stage with the golden model, bit for bit."""
    run(commands.sim, options)


@cli.command()
@model_options
@data_option
@board_option
@plan_option
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of place and route.")
def synth(**options: Any) -> None:
    """Make the bitstream of MODEL for a board with yosys and nextpnr."""
    run(commands.synth, options)


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


def run(command: Callable[[Console, Settings], Mapping[str, Any]], options: Mapping[str, Any]) -> None:
    """Call `command` with the options as `Settings`, print its result as JSON where asked, and exit with its code."""
    as_json = options["as_json"]
    console = Console(quiet=as_json)
    known = {field.name for field in dataclasses.fields(Settings)}
    settings = Settings(**{name: value for name, value in options.items() if name in known})
    try:
        result = command(console, settings)
    except HwflowError as error:
        if as_json:
            click.echo(json.dumps({"error": str(error), "exit_code": error.exit_code}))
        console.fail(str(error))
        sys.exit(error.exit_code)
    if as_json:
        click.echo(json.dumps(result, indent=1))
    sys.exit(int(result.get("exit_code", 0)))


def main() -> None:
    """The entry point of `hwflow`; Ctrl-C ends with one line and exit code 130."""
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; nothing is half-written, and the next run continues", err=True)
        sys.exit(130)
    except MemoryError:
        click.echo("error: the model needs more memory than this machine has", err=True)
        sys.exit(2)
    except OSError as error:
        click.echo(f"error: {error.filename or 'a file'}: {error.strerror or error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
