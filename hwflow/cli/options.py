"""Options that several commands of the command line share, and the functions that parse them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from hwflow_base.errors import HwflowError

from ..host.pace import Patience
from ..layers.partition import Execution
from ..layers.rescale import BLOCK_BITS, MULTIPLIER_BITS
from ..onnx.limits import parse_limits
from ..onnx.schemas import canonical_domain
from ..report.console import Console
from ..request import BOARD, BUILD
from ..synth.options import ON_BOARD
from ..synth.placer import Placer, placer_of

__all__ = ["LAST_SEED", "MOST_SEEDS", "board_option", "clock", "clock_option", "console_of_call", "data_option",
           "input_shape", "limit_option", "model_argument", "model_options", "one_version", "operator_set",
           "output_options", "placer", "plan_options", "port_options", "quantization_options", "rescale_bits",
           "reweightable_option", "seconds", "verbose_option", "widths"]

#: The highest clock that --clock accepts; no FPGA of hwflow is faster.
MOST_MHZ = 1000.0
#: The smallest --patience, in seconds; no board answers sooner.
SHORTEST = 0.01
#: Seeds are 32 bits wide; the second is a sensible limit on their number.
LAST_SEED, MOST_SEEDS = 2**32 - 1, 1000

#: Where a call's --quiet and its --verbose are.
QUIET, VERBOSE = "hwflow.quiet", "hwflow.verbose"
#: The --rescale-bits that is no number.
AUTO = "auto"

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


def operator_set(text: str) -> tuple[str, int]:
    """`21` or `ai.onnx.ml=3` as the domain and the version."""
    domain, _, version = text.rpartition("=")
    if not version.isdecimal():
        raise click.BadParameter(f"{text!r} must be a version, or a domain and its version like ai.onnx.ml=3")
    return canonical_domain(domain), int(version)


def one_version(sets: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """The versions by domain.  Refuses two versions for one domain, because only one of them could have an effect."""
    domains = [domain for domain, _ in sets]
    twice = next((domain for domain in domains if domains.count(domain) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"{twice or 'ai.onnx'} must have one version, not {domains.count(twice)}")
    return dict(sets)


def once(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The shapes, unchanged.  Refuses two shapes for one input, because only one of them could have an effect."""
    names = [name for name, _ in shapes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"the input '{twice}' must be named once, not {names.count(twice)} times")
    return shapes


def state(text: str) -> tuple[str, str]:
    """`h0=hn` as the names of an input and an output."""
    name, equal, output = text.partition("=")
    if not name or not equal or not output:
        raise click.BadParameter(f"{text!r} must be an input's name and an output's, like h0=hn")
    return name, output


def each_once(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The pairs, unchanged.  Refuses an input, or an output, of two of them."""
    for names in zip(*pairs, strict=True):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise click.BadParameter(f"'{twice}' must be named once, not {names.count(twice)} times")
    return pairs


def widths(text: str) -> tuple[int, int]:
    """`4` or `4,8` as the widths of weights and activations; `4` alone means 8 bits for activations."""
    try:
        bits = [int(width) for width in text.split(",")]
    except ValueError:
        bits = []
    if len(bits) not in (1, 2) or not all(1 <= width <= 8 for width in bits):
        raise click.BadParameter(f"{text!r} must be the bits of weights, or of weights and activations, from 1 to 8 "
                                 "each, like 4 or 4,8")
    return bits[0], bits[-1] if len(bits) == 2 else 8


def rescale_bits(text: str) -> int | str:
    """`auto` as it is, or a whole number from 18 to 32."""
    if text == AUTO:
        return text
    if not text.isdecimal() or not BLOCK_BITS <= int(text) <= MULTIPLIER_BITS:
        raise click.BadParameter(f"{text!r} must be {AUTO}, or a whole number from {BLOCK_BITS} to {MULTIPLIER_BITS}: "
                                 "the bits of the multipliers that turn sums into elements")
    return int(text)


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


def placer(text: str) -> Placer:
    """`beta=0.85,critexp=3` as the knobs of the placer."""
    try:
        return placer_of(text)
    except HwflowError as error:
        raise click.BadParameter(error.why) from None


def seconds(text: str) -> float:
    """A finite number of seconds, at least `SHORTEST`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not SHORTEST <= value < math.inf:
        raise click.BadParameter(f"{text!r} must be seconds, at least {SHORTEST:g}")
    return value


def model_file(_context: click.Context, _parameter: click.Parameter, path: Path) -> Path:
    """The path of the model's file.  Refuses a folder first, before any other error is found."""
    if path.is_dir():
        raise HwflowError("must be an ONNX file, not a folder", "name the .onnx file in it", where=str(path))
    return path


def output_options(command: F) -> F:
    """The options of every command, about what it prints."""
    options = [
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--quiet", "-q", is_flag=True, expose_value=False, callback=keep_quiet,
                     help="Show results, warnings and errors alone: no progress, no notes."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def keep_quiet(context: click.Context, _parameter: click.Parameter, quiet: bool) -> None:
    """Remember --quiet for the console of this call."""
    context.meta[QUIET] = quiet


def keep_verbose(context: click.Context, _parameter: click.Parameter, verbose: bool) -> None:
    """Remember --verbose for the console of this call."""
    context.meta[VERBOSE] = verbose


verbose_option = click.option("--verbose", "-v", is_flag=True, expose_value=False, callback=keep_verbose,
                              help="Show all details of layers, memories and clocks.")


def console_of_call(as_json: bool) -> Console:
    """The console that --json, --quiet and --verbose ask for."""
    asked = click.get_current_context().meta
    return Console(quiet=as_json, progress=not asked.get(QUIET, False), verbose=asked.get(VERBOSE, False))

limit_option = click.option("--limit", "limits", multiple=True, metavar="NAME=NUMBER",
                            callback=lambda _context, _parameter, texts: parse_limits(texts),
                            help="Raise a limit for a model that you trust: tensor_bytes, total_bytes, seconds, ...")


model_argument = click.argument("model", type=click.Path(path_type=Path), callback=model_file)


def model_options(command: F) -> F:
    """The options of every command that reads a model."""
    options = [
        model_argument,
        click.option("--input-shape", "input_shapes", type=input_shape, multiple=True, metavar="NAME=D,D,...",
                     callback=lambda _context, _parameter, shapes: once(shapes),
                     help="Set the shape of an input that has symbolic sizes in the model."),
        click.option("--state", "states", type=state, multiple=True, metavar="INPUT=OUTPUT",
                     callback=lambda _context, _parameter, pairs: each_once(pairs),
                     help="An input that is the state of a recurrent layer, and the output that is its next value "
                          "(docs/streaming.md); default: hwflow finds them."),
        click.option("--build", type=click.Path(path_type=Path), default=BUILD, show_default=True,
                     help="The folder for all results."),
        limit_option,
        output_options,
    ]
    for option in reversed(options):
        command = option(command)
    return command


data_option = click.option("--data", type=click.Path(path_type=Path),
                           help="NPZ file with in_<input>, optionally labels and calib_<input> (docs/data-files.md).")


def quantization_options(command: F) -> F:
    """The options of every command that makes integers."""
    options = [
        data_option,
        click.option("--bits", type=widths, metavar="W[,A]",
                     help="Bits of all weights, and of all activations (default 8): 4 or 4,6."),
        click.option("--settings", type=click.Path(path_type=Path),
                     help="YAML file with settings for each layer (docs/quantization-guide.md)."),
        click.option("--rescale-bits", type=rescale_bits, metavar="N",
                     help="Bits of the multipliers that turn sums into elements, 18 to 32; auto: as few as are exact."),
        click.option("--hardware-argmax", is_flag=True,
                     help="Compute the final ArgMax or TopK in hardware, which then gives indices, not scores."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def boards_that_begin(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers for --board."""
    from ..synth.boards import list_boards

    return [name for name in list_boards() if name.startswith(incomplete)]


board_option = click.option("--board", default=BOARD, show_default=True, shell_complete=boards_that_begin,
                            help="A board's name (see `hwflow boards`) or a board YAML file.")


def plan_options(command: F) -> F:
    """The options of every command that makes a plan."""
    options = [
        click.option("--transport", metavar="KIND",
                     help="The way from the host to the board, one that its file has, as uart; default: the first."),
        click.option("--address", metavar="IP",
                     help="The board's IPv4 address in the network, for --transport udp; default: that of its file, or "
                          "192.168.1.50."),
        click.option("--plan", type=click.Path(path_type=Path),
                     help="Use this edited plan.yaml instead of a new plan."),
        click.option("--interval", type=click.IntRange(min=1), metavar="CYCLES",
                     help="Make the smallest design with at most CYCLES a frame; default: the fastest that fits."),
        click.option("--frames-per-second", type=click.FloatRange(min=0, min_open=True), metavar="N",
                     help="Make the smallest design for N frames/s, at the clock that routed designs of the board's "
                          "family reach at least; it may multiply in logic."),
        click.option("--logic-multipliers", is_flag=True,
                     help="Multiply in logic when all multiplier blocks are used: a faster design, but a large one "
                          "takes long to route."),
        click.option("--stream-weights", is_flag=True,
                     help="Let weights be in the board's memory outside of the FPGA also if the design fits without: "
                          "a faster design, but the memory must be filled after power-up."),
        click.option("--execution", type=click.Choice([each.value for each in Execution]), default=Execution.AUTO.value,
                     show_default=True, callback=lambda _context, _parameter, text: Execution(text),
                     help="dataflow: a stage for each layer, all at the same time, which is faster.  shared: one array "
                          "that computes one layer after another, which is smaller.  auto: dataflow if it fits, else "
                          "shared, or both side by side where that is faster."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def port_options(command: F) -> F:
    """The options of every command that talks to boards, of `run` for a single one."""
    several = command.__name__ == "serve"
    options = [
        click.option("--port", "ports" if several else "port", metavar="PORT", multiple=several,
                     help="The board's port, like /dev/ttyUSB0, or socket://HOST:PORT." + (
                         "  Repeat it for several boards." if several else
                         "  Without it, hwflow lists the ports of this machine.")),
        click.option("--baud", type=click.IntRange(min=1), help="The bit rate, if it is not that of the design."),
        click.option("--board", help="Accept only the design for this board, or simulate this one; default: any design "
                                     f"of MODEL, or {BOARD}."),
        click.option("--transport", metavar="KIND",
                     help="With --simulate: the way from the host to the board, one that its file has, as uart; "
                          "default: the first."),
        click.option("--patience", type=seconds, default=Patience().silence, show_default=True, metavar="SECONDS",
                     help="How long the board may be silent."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


clock_option = click.option(
    "--clock", type=clock, metavar="MHZ",
    help="The core's clock, made by a PLL; default: the highest that the routed design allows.  \"board\": the clock "
         "of the board's oscillator, without a PLL.")
reweightable_option = click.option("--reweightable", is_flag=True,
                                   help="Make hardware whose weights `hwflow reweight` can replace.")
