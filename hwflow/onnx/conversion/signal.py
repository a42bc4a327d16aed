"""DFT: its axis became an input, and counts from the back by default."""

from __future__ import annotations

from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Steps


def _axis_as_input(site: Site) -> None:
    inputs = (site.input(0), site.input(1), site.moved("axis"))
    site.keep(inputs=inputs, attributes=site.attributes("axis"))


UP: Steps = {"DFT": {20: _axis_as_input}}
