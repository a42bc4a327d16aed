"""Reductions: the axes became an input; and TopK, whose number did."""

from __future__ import annotations

from hwflow.onnx.conversion.elementwise import in_double
from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Steps


def _axes_as_input(site: Site) -> None:
    """Left out or empty, the attribute means all axes, and so does an input that is left out."""
    inputs = site.node.inputs[:1]
    if site.node.attributes.get("axes", ()) != ():
        inputs = (*inputs, site.moved("axes"))
    site.keep(inputs=inputs, attributes=site.attributes("axes"))


def _count_as_input(site: Site) -> None:
    k = site.attribute("k")
    site.keep(inputs=(site.input(0), site.constant([k], "int64")), attributes=site.attributes("k"))


_SINCE_18 = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare")

UP: Steps = {
    **{name: {18: _axes_as_input} for name in _SINCE_18},
    **{name: {18: _axes_as_input, 28: in_double} for name in ("ReduceLogSum", "ReduceLogSumExp")},
    "ReduceSum": {13: _axes_as_input},
    "TopK": {10: _count_as_input},
}
