"""Pools by a norm, pools over regions, and sampling: numbers and names of modes."""

from __future__ import annotations

from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Stated, Steps

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _whole_norm(site: Site) -> None:
    """LpPool and GlobalLpPool to 2: the norm p became an integer.  Others are the p-th root of a sum of p-th powers."""
    p, x = site.attribute("p"), site.input(0)
    if float(p).is_integer():
        site.keep(attributes=site.attributes(p=int(p)))
        return
    dtype = site.needs_dtype(x)
    powers = site.add("Pow", site.add("Abs", x), site.constant(p, dtype), broadcast=1)
    total = site.add(site.node.op_type, powers, **site.attributes(p=1))
    site.result("Pow", total, site.constant(1 / p, dtype), broadcast=1)


def _modes_renamed(site: Site) -> None:
    """GridSample to 20."""
    mode = site.attribute("mode")
    site.keep(attributes=site.attributes(mode=_MODES.get(mode, mode)))


UP: Steps = {
    "LpPool": {2: _whole_norm},
    "GlobalLpPool": {2: _whole_norm},
    "RoiAlign": {16: Stated({"coordinate_transformation_mode": "output_half_pixel"})},
    "GridSample": {20: _modes_renamed},
}
