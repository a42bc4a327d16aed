"""The commands of hwflow, by their modules."""

from __future__ import annotations

import click

from .parser.command import Group

#: One module each, in the order in which a user meets them.
COMMANDS = ("check", "info", "quantize", "golden", "build", "sim", "synth", "report", "program", "reweight", "run",
            "boards", "doctor", "data", "explore", "serve", "init", "completion", "onnx")

cli = click.version_option(package_name="hwflow")(Group(
    "hwflow.cli", COMMANDS, help="An ONNX model in; bit-exact RTL simulation and a bitstream out.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}))
