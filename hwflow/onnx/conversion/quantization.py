"""QuantizeLinear, whose input and scale have one type in versions 19 and 21."""

from __future__ import annotations

from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Steps


def _of_one_type(site: Site) -> None:
    """To 19: an int32 input comes in the type of the scale, in which it was divided before."""
    x, scale = site.node.inputs[:2]
    dtype = site.dtype(x)
    if dtype is None or dtype.kind != "i":
        site.keep()
        return
    site.keep(inputs=(site.cast(x, site.needs_dtype(scale)), scale, *site.node.inputs[2:]))


UP: Steps = {"QuantizeLinear": {19: _of_one_type}}
