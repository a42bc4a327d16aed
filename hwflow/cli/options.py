"""What several commands of the command line have in common: their options, and how the text of an option is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from hwflow_base.errors import HwflowError

from ..onnx.limits import parse_limits
from ..onnx.schemas import canonical_domain
from ..request import BOARD, BUILD
from ..synth.clock import ON_BOARD

__all__ = ["LAST_SEED", "MOST_SEEDS", "board_option", "clock", "clock_option", "data_option", "input_shape",
           "json_option", "limit_option", "model_argument", "model_options", "one_version", "operator_set",
           "plan_options", "quantization_options", "reweightable_option", "seconds", "widths"]

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


def operator_set(text: str) -> tuple[str, int]:
    """`21` or `ai.onnx.ml=3` as the domain and the version."""
    domain, _, version = text.rpartition("=")
    if not version.isdecimal():
        raise click.BadParameter(f"{text!r} must be a version, or a domain and its version like ai.onnx.ml=3")
    return canonical_domain(domain), int(version)


def one_version(sets: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """The versions by domain; one of two for the same domain would be passed over in silence."""
    domains = [domain for domain, _ in sets]
    twice = next((domain for domain in domains if domains.count(domain) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"{twice or 'ai.onnx'} must have one version, not {domains.count(twice)}")
    return dict(sets)


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


def model_file(_context: click.Context, _parameter: click.Parameter, path: Path) -> Path:
    """The model's file; its folder is refused before anything else that may be wrong."""
    if path.is_dir():
        raise HwflowError(f"{path}: must be an ONNX file, not a folder; name the .onnx file in it")
    return path


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
limit_option = click.option("--limit", "limits", multiple=True, metavar="NAME=NUMBER",
                            callback=lambda _context, _parameter, texts: parse_limits(texts),
                            help="Let a model that you trust ask for more: tensor_bytes, total_bytes, seconds, ...")


model_argument = click.argument("model", type=click.Path(path_type=Path), callback=model_file)


def model_options(command: F) -> F:
    """The options of every command that reads a model."""
    options = [
        model_argument,
        click.option("--input-shape", "input_shapes", type=input_shape, multiple=True, metavar="NAME=D,D,...",
                     callback=lambda _context, _parameter, shapes: once(shapes),
                     help="Fix the shape of an input whose sizes the model leaves open."),
        click.option("--build", type=click.Path(path_type=Path), default=BUILD, show_default=True,
                     help="Where every intermediate result is written."),
        limit_option,
        json_option,
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


board_option = click.option("--board", default=BOARD, show_default=True,
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
