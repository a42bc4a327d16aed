"""The command that makes a data file, and the functions that parse its options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .. import commands
from ..data.sources.source import Interpolation, Layout, Preparation
from ..report.console import Console
from ..request import DataRequest
from .command import Command
from .options import LAST_SEED, limit_option, model_argument, output_options
from .requests import takes

__all__ = ["data"]


def numbers(text: str) -> tuple[float, ...]:
    """`0.485,0.456,0.406` as numbers."""
    try:
        found = tuple(float(number) for number in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(map(math.isfinite, found)):
        raise click.BadParameter(f"{text!r} must be a number, or one for each channel, like 0.485,0.456,0.406")
    return found


def divisors(text: str) -> tuple[float, ...]:
    """Numbers of which none is 0."""
    found = numbers(text)
    if not all(found):
        raise click.BadParameter(f"{text!r} must not have a 0: the numbers are divided by it")
    return found


def divisor(text: str) -> float:
    """A number that is not 0."""
    found = divisors(text)
    if len(found) > 1:
        raise click.BadParameter(f"{text!r} must be one number, like 255")
    return found[0]


def size(text: str) -> tuple[int, int] | int:
    """`320x240` as width and height, `256` as the length of the shorter side."""
    sizes = text.lower().split("x")
    if not 1 <= len(sizes) <= 2 or not all(n.isdecimal() and 0 < int(n) <= 1 << 15 for n in sizes):
        raise click.BadParameter(f"{text!r} must be WIDTHxHEIGHT, like 320x240, or the length of the shorter side")
    found = tuple(map(int, sizes))
    return (found[0], found[1]) if len(found) == 2 else found[0]


def names(text: str) -> tuple[str, ...]:
    """`cat,dog` as names, each of which is there once."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise click.BadParameter(f"{text!r} must be the names of the classes in their order, each once, like cat,dog")
    return found


@click.command(cls=Command)
@model_argument
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--output", type=click.Path(path_type=Path), default="data.npz", show_default=True,
              help="The NPZ file to write.")
@click.option("--labels", metavar="WHAT",
              help="Where labels are: folders (one for each class; the default where there are folders), none, a "
                   "column of the table (its name, its number from 1 on, or last), an array of the archive, an .npy "
                   "file, or a table of files and labels.")
@click.option("--classes", type=names, metavar="NAMES",
              callback=lambda _context, _parameter, found: found or (),
              help="The names of the classes in the order of the model's scores, with commas; default: sorted.")
@click.option("--scale", type=divisor, metavar="NUMBER",
              help="Divide by this first: 255 makes pixels 0 to 1.  Needed for pictures; 1 where the model divides.")
@click.option("--mean", type=numbers, default="0", show_default=True, metavar="NUMBERS",
              help="Subtract this then: one number, or one for each channel.")
@click.option("--std", type=divisors, default="1", show_default=True, metavar="NUMBERS",
              help="Divide by this last: one number, or one for each channel.")
@click.option("--resize", type=size, metavar="WxH",
              help="Resize pictures to this width and height, or with one number the shorter side to it.")
@click.option("--crop", is_flag=True, help="Cut the middle out of pictures that are larger than the model's input.")
@click.option("--interpolation", type=click.Choice([each.value for each in Interpolation]),
              default=Preparation.interpolation.value, show_default=True,
              callback=lambda _context, _parameter, text: Interpolation(text), help="How --resize makes pixels.")
@click.option("--layout", type=click.Choice([each.value for each in Layout]),
              callback=lambda _context, _parameter, text: text and Layout(text),
              help="Where the model's input has the channels; default: where its size is 1, 3 or 4.")
@click.option("--bgr", is_flag=True, help="Give pictures with blue first, as OpenCV has them.")
@click.option("--rate", type=click.IntRange(min=1), metavar="HZ", help="Resample recordings to this rate.")
@click.option("--rows", type=click.IntRange(min=1), help="Take at most so many rows to run and measure.")
@click.option("--calibration", type=click.IntRange(min=0), metavar="ROWS",
              help="Keep so many rows apart to calibrate with; default: 100, or a fifth of fewer rows.")
@click.option("--calibration-data", multiple=True, metavar="SOURCE",
              help="Take the rows to calibrate with from here, as from training data, and run all rows of SOURCE.")
@click.option("--in-order", is_flag=True, help="Keep the order of the rows, which is random otherwise.")
@click.option("--seed", type=click.IntRange(0, LAST_SEED), default=0, show_default=True,
              help="Seed of the order of rows.")
@limit_option
@output_options
@takes(DataRequest)
def data(console: Console, request: DataRequest) -> Mapping[str, Any]:
    """Make a data file for MODEL of tables, NumPy files, or folders of pictures or recordings (docs/data-files.md).

    A number v of a file becomes (v / SCALE - MEAN) / STD, which must be what the training of the model did.  For a
    model with several inputs, SOURCE is NAME=SOURCE for each of them.  Rows are drawn at random, none of them twice.

    Exit codes: 0 written; 2 if a file cannot be read or does not fit the model.
    """
    return commands.data(console, request)
