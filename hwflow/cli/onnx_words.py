"""The commands below `hwflow onnx`, and their options."""

from __future__ import annotations

from pathlib import Path

import click

from .. import commands
from ..onnx.limits import Limits
from .command import Group
from .options import console_of_call, limit_option, one_version, operator_set, output_options
from .requests import finish

__all__ = ["onnx_group"]


@click.group("onnx", cls=Group)
def onnx_group() -> None:
    """Compare, convert and cut ONNX files, without hardware."""


@onnx_group.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@limit_option
@output_options
def diff(old: Path, new: Path, limits: Limits, as_json: bool) -> None:
    """Show the changes from the model (or operator set) OLD to NEW, and which part of its version must grow.

    Exit codes: 0 if callers of OLD can use NEW; 1 for a breaking change.
    """
    finish(commands.diff(console_of_call(as_json), old, new, limits), as_json)


@onnx_group.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--opset", "opsets", type=operator_set, multiple=True, metavar="[DOMAIN=]VERSION",
              callback=lambda _context, _parameter, sets: one_version(sets),
              help="Write it for another operator set, with the same meaning: 21, or ai.onnx.ml=3.")
@click.option("--external-data", is_flag=True, help="Write large weights into a separate file next to the model.")
@limit_option
@output_options
def convert(source: Path, target: Path, opsets: dict[str, int], external_data: bool, limits: Limits,
            as_json: bool) -> None:
    """Write the model SOURCE to TARGET: as text if its name ends in .textproto, else as binary."""
    finish(commands.convert(console_of_call(as_json), source, target, external_data, opsets, limits), as_json)


@onnx_group.command()
@click.argument("source", metavar="MODEL", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--from", "inputs", multiple=True, metavar="TENSOR",
              help="A tensor that becomes an input (repeatable); default: the inputs of MODEL that are needed.")
@click.option("--to", "outputs", multiple=True, metavar="TENSOR",
              help="A tensor that becomes an output (repeatable); default: the outputs of MODEL.")
@limit_option
@output_options
def extract(source: Path, target: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], limits: Limits,
            as_json: bool) -> None:
    """Write the part of MODEL from some tensors to some other tensors into OUT, as a model.

    Exit codes: 0 written; 2 if MODEL does not have a tensor, or the inputs do not determine the outputs.
    """
    finish(commands.extract(console_of_call(as_json), source, target, inputs, outputs, limits), as_json)


@onnx_group.command()
@click.argument("rule", required=False)
@output_options
def rules(rule: str | None, as_json: bool) -> None:
    """List the rules of ONNX and where hwflow enforces them, or explain RULE."""
    finish(commands.rules(console_of_call(as_json), rule), as_json)
