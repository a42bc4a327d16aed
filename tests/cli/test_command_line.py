"""A command that a result names asks for the same design as the request that made the result."""

from __future__ import annotations

import shlex
from pathlib import Path
from unittest import mock

import click
import pytest
from click.testing import CliRunner
from hwflow_base.options import command_line

from hwflow.cli.build import BuildRequest
from hwflow.cli.commands import cli
from hwflow.cli.parser.command import Command, leaves
from hwflow.cli.parser.parameters import Option
from hwflow.onnx.limits import Limits
from hwflow.options import HardwareOptions, Project, QuantizationOptions
from hwflow.stages.partition import Execution

MODEL = Path("a folder/-x'y$(z).onnx")
REQUESTS = [
    BuildRequest(Project(MODEL)),
    BuildRequest(
        Project(MODEL, (("a", (1, 2)), ("b", (3,))), (("h0", "hn"),),
                (("sr", (16000,)), ("g=h", (0.1, -1e-30, 2.0)), ("on", (True, False))), Path("d.npz"), Path("b"),
                Limits(nodes=7)),
        QuantizationOptions((4, 8), rescale_bits="auto", hardware_argmax=True),
        HardwareOptions("icebreaker", "uart", plan=Path("p"), reweightable=True)),
    BuildRequest(Project(MODEL), QuantizationOptions(settings=Path("s.yaml"), rescale_bits=20),
                 HardwareOptions(interval=5, logic_multipliers=True, stream_weights=True, reserve=30,
                                 execution=Execution.SHARED)),
    BuildRequest(Project(MODEL), QuantizationOptions(), HardwareOptions(frames_per_second=2.5, address="10.0.0.1")),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_command_line_asks_for_what_the_request_asks_for(request_: BuildRequest) -> None:
    line = command_line("build", request_.project, request_.quantization, request_.hardware)
    words = shlex.split(line)
    assert words[0] == "hwflow"
    with mock.patch.object(Command, "run", return_value={}) as called:
        done = CliRunner().invoke(cli, words[1:])
    assert done.exit_code == 0, done.output
    assert called.call_args.args[1] == request_


def test_every_option_of_a_design_has_a_name_in_command_lines() -> None:
    build = cli.by_name["build"]
    known = {option for parameter in build.params if isinstance(parameter, click.Option) for option in parameter.opts}
    for request_ in REQUESTS:
        line = command_line("build", request_.project, request_.quantization, request_.hardware)
        assert {word.partition("=")[0] for word in shlex.split(line) if word.startswith("--")} <= known


#: A value for each kind of option.
WORDS: dict[object, tuple[str, ...]] = {bool: (), int: ("2",), float: ("2",), str: ("x",), Path: ("x",)}
#: For those whose values are others.
OWN = {"clock": ("20",), "bits": ("4",), "execution": ("shared",), "export": ("axi",), "stalls": ("0.5",)}


def words_of(option: Option) -> tuple[str, ...]:
    return (f"--{option.key}", *(OWN.get(option.key) or WORDS[option.declared.kind]))


@pytest.mark.parametrize("name", leaves(cli))
def test_options_that_mean_nothing_alone_or_together(name: str) -> None:
    """All of them, in every command: `needs` and `excludes` of their declarations are checked before anything."""
    command = leaves(cli)[name]
    options = command.options
    for key, option in options.items():
        needed, excluded = option.declaration.needs, [*filter(options.get, option.declaration.excludes)]
        cases = [((), f"--{key} must be given together with --{needed}")] if needed else []
        cases += [(words_of(options[other]), f"--{key} must not be given together with --{other}: leave one of them "
                   "out") for other in excluded]
        for others, message in cases:
            words = ["x.onnx", *words_of(option), *others]
            done = CliRunner().invoke(command, words)
            assert (done.exit_code, message in done.output) == (2, True), (words, done.output)
