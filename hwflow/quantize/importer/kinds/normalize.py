"""Normalization by statistics of the input itself, between layers: layer, group, instance, root mean square, length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hwflow.layers import Normalize, Tensor
from hwflow.onnx.model import Node
from hwflow.quantize.graphs import as_ints, attribute, shape_of
from hwflow.quantize.importer.kinds.rows import affine_behind, compressed, only_first_output, rows_along
from hwflow.quantize.importer.site import Site
from hwflow.quantize.importer.states import LayerAnchor, Parameters, Pending, State, Unsupported
from hwflow.quantize.settings import OutputStage

Floats = npt.NDArray[np.float64]

_EPSILON = 1e-5
#: GroupNormalization has a scale for each channel from this version on, before that one for each group.
_SCALE_PER_CHANNEL = 21


def layer_normalization(site: Site, node: Node, dynamic: list[str]) -> State:
    """Over all axes from 'axis' on; the statistics that it can give besides have no hardware."""
    only_first_output(site, node)
    return _normalized(site, node, _from_axis(site, node), *_parameters(site, node))


def rms_normalization(site: Site, node: Node, dynamic: list[str]) -> State:
    """Over all axes from 'axis' on, without a mean."""
    return _normalized(site, node, _from_axis(site, node), *_parameters(site, node), centred=False)


def instance_normalization(site: Site, node: Node, dynamic: list[str]) -> State:
    """Over the pixels of each channel."""
    rank = len(_shape(site, node))
    gamma, beta = (each.reshape(-1, *[1] * (rank - 2)) for each in _parameters(site, node))
    return _normalized(site, node, range(2, rank), gamma, beta)


def group_normalization(site: Site, node: Node, dynamic: list[str]) -> State:
    """Over the pixels and channels of each group of channels."""
    groups, (batch, channels, *pixels) = attribute(node, "num_groups", 1), _shape(site, node)
    gamma, beta = _parameters(site, node)
    if site.opsets.get("", 0) < _SCALE_PER_CHANNEL:
        gamma, beta = (np.repeat(each, channels // groups) for each in (gamma, beta))
    gamma, beta = (each.reshape(groups, channels // groups, *[1] * len(pixels)) for each in (gamma, beta))
    shape = (batch, groups, channels // groups, *pixels)
    return _normalized(site, node, range(2, len(shape)), gamma, beta, shape=shape)


def mean_variance_normalization(site: Site, node: Node, dynamic: list[str]) -> State:
    """Over 'axes'; what the operator adds to the deviation, 1e-9, is nothing beside a step of integers."""
    axes = as_ints(attribute(node, "axes", (0, 2, 3)))
    return _normalized(site, node, axes, np.ones(()), np.zeros(()), epsilon=0.0)


def length_normalization(site: Site, node: Node, dynamic: list[str]) -> State:
    """An LpNormalization with p = 2."""
    if attribute(node, "p", 2) != 2:
        raise Unsupported("p must be 2", "divide by the sum of absolute values in the model, or take p = 2")
    axes = (attribute(node, "axis", -1),)
    return _normalized(site, node, axes, np.ones(()), np.zeros(()), centred=False, mean=False, epsilon=0.0)


def _normalized(
    site: Site, node: Node, axes: Sequence[int], gamma: Floats, beta: Floats, *, centred: bool = True,
    mean: bool = True, epsilon: float | None = None, shape: Sequence[int] | None = None,
) -> State:  # fmt: skip
    """The anchor of a normalization along `axes`; with `shape` these and the constants are those of that shape."""
    rows = rows_along(site, node.inputs[0], axes, shape)
    anchor = NormalAnchor(
        node, node.outputs[0], site.tensors[rows.held.tensor].frame, (rows.held,), rows.elements, rows.factor,
        rows.by_place(gamma), rows.by_place(beta), centred, mean,
        attribute(node, "epsilon", _EPSILON) if epsilon is None else epsilon)
    return Pending.of(anchor, rows.held.index)


@dataclass(frozen=True)
class NormalAnchor(LayerAnchor):
    """A normalization of `factor` times the source; the fields are those of `Normalize.of`.

    gamma and beta are float64 [rows, elements].
    """

    elements: int
    factor: Fraction
    gamma: Floats
    beta: Floats
    centred: bool
    mean: bool
    epsilon: float

    def layer(
        self, pending: Pending, xs: tuple[Tensor, ...], y: Tensor, name: str, p: Parameters, stage: OutputStage,
        opsets: Mapping[str, int],
    ) -> Normalize:  # fmt: skip
        factors, summands, (low, high) = affine_behind(pending, p)
        places = self.frame.elements
        factors, summands = (np.resize(each, places).reshape(self.gamma.shape) for each in (factors, summands))
        sign, scale = (1 if self.factor > 0 else -1), float(abs(self.factor))
        gamma, beta = compressed([sign * self.gamma * factors, self.beta * factors + summands])
        made = Normalize.of(
            name, replace(xs[0], scale=xs[0].scale * scale), replace(y, scale=p.scale, zero_point=p.zero_point),
            centred=self.centred, mean=self.mean, epsilon=self.epsilon, gamma=gamma, beta=beta,
            elements=self.elements)
        return replace(made, low=low, high=high)


def _shape(site: Site, node: Node) -> tuple[int, ...]:
    """Of the first input."""
    shape = shape_of(site.graph, node.inputs[0])
    assert shape is not None, "the shapes of a graph that is imported are known"
    return tuple(shape)


def _from_axis(site: Site, node: Node) -> range:
    """The axes from 'axis' on."""
    rank = len(_shape(site, node))
    return range(attribute(node, "axis", -1) % rank, rank)


def _parameters(site: Site, node: Node) -> tuple[Floats, Floats]:
    """Scale and bias, constants; a bias that is left out is 0."""
    found = []
    for name in (*node.inputs[1:3], "")[:2]:
        if name and name not in site.constants:
            raise Unsupported(f"its parameter '{name}' is computed", "make it a constant")
        found.append(site.constants[name].real if name else np.zeros(()))
    return found[0], found[1]
