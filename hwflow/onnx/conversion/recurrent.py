"""Recurrent layers: an output is made where it is named; `output_sequence` said so once more."""

from __future__ import annotations

from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Steps, Without

_BY_NAME = Without(("output_sequence",))


def _spelled(site: Site) -> None:
    """GRU to 3: the default direction was misspelt in version 1."""
    direction = site.attribute("direction")
    site.keep(attributes=site.attributes(direction="forward" if direction == "foward" else direction))


UP: Steps = {"GRU": {3: _spelled, 7: _BY_NAME}, "LSTM": {7: _BY_NAME}, "RNN": {7: _BY_NAME}}
