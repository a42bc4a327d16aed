"""Softmax between layers, along any axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from hwflow_base.errors import Refusal

from hwflow.layers import Softmax, Tensor
from hwflow.layers.softmax import WIDEST_INPUT
from hwflow.onnx.model import Node
from hwflow.quantize.graphs import attribute
from hwflow.quantize.importer.kinds.rows import affine_behind, rows_along
from hwflow.quantize.importer.site import Site
from hwflow.quantize.importer.states import LayerAnchor, Parameters, Pending, State
from hwflow.quantize.settings import OutputStage


def softmax(site: Site, node: Node, dynamic: list[str]) -> State:
    """A Softmax of operator set 13 or later, along one axis."""
    rows = rows_along(site, dynamic[0], (attribute(node, "axis", -1),))
    frame = site.tensors[rows.held.tensor].frame
    anchor = SoftmaxAnchor(node, node.outputs[0], frame, (rows.held,), rows.factor, rows.elements)
    return Pending.of(anchor, rows.held.index)


@dataclass(frozen=True)
class SoftmaxAnchor(LayerAnchor):
    """Softmax of `factor` times the source, over rows of `elements`."""

    factor: Fraction
    elements: int

    def layer(
        self, pending: Pending, xs: tuple[Tensor, ...], y: Tensor, name: str, p: Parameters, stage: OutputStage,
        opsets: Mapping[str, int],
    ) -> Softmax:  # fmt: skip
        if xs[0].format.bits > WIDEST_INPUT or xs[0].format.bipolar:
            raise Refusal(
                f"its input '{xs[0].name}' is {xs[0].format}, and the table of a Softmax is for numbers of up to "
                f"{WIDEST_INPUT} bits", f"quantize that input with {WIDEST_INPUT} bits or fewer"
            )
        factors, summands, (low, high) = affine_behind(pending, p)
        steps = summands[0] / p.scale
        if len(set(factors)) > 1 or factors[0] <= 0 or len(set(summands)) > 1 or steps != round(steps):
            raise Refusal(
                f"constants behind {self.node.label} must be one positive factor, and a multiple of the scale of the "
                f"result, {p.scale:g}", "quantize its result first"
            )
        scaled = replace(y, scale=p.scale / float(factors[0]), zero_point=p.zero_point + int(steps))
        made = Softmax.of(name, xs[0], scaled, self.elements, self.factor)
        return replace(made, low=low, high=high)
