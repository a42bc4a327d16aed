"""Pools by a norm, pools over regions, and sampling: numbers and names of modes."""

from __future__ import annotations

from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Stated, Steps

__all__ = ["UP"]

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _whole_norm(site: Site) -> None:
    """LpPool and GlobalLpPool to 2: the norm became an integer."""
    p = site.attribute("p")
    if float(p).is_integer():
        site.keep(attributes=site.attributes(p=int(p)))
    elif site.node.op_type == "GlobalLpPool":
        _global_norm(site, p)
    else:
        raise site.refuse(
            f"its norm p is {p:g}, and from version 2 on it is an integer", "train the model with a whole number p"
        )


def _global_norm(site: Site, p: float) -> None:
    """The p-th root of the sum of p-th powers, over all axes behind the channels."""
    site.later(7, f"its norm p is {p:g}, and without broadcasting no other operator computes it")
    x = site.input(0)
    dtype, rank = site.needs_dtype(x), site.needs_rank(x)
    powers = site.add("Pow", site.add("Abs", x), site.constant(p, dtype))
    total = site.add("ReduceSum", powers, axes=tuple(range(2, rank)), keepdims=1)
    site.result("Pow", total, site.constant(1 / p, dtype))


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
