"""Random networks of the layers that a shared stage computes."""

from __future__ import annotations

from dataclasses import replace

from hwflow.layers import IntFormat, LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.layers.rescale import Rescale, Rounding
from tests.layers.test_threshold_fit import thresholds_of
from tests.strategies.layer_graphs import ROWS_AND_TREES, USUAL, Blocks, network
from tests.strategies.layers import Elements, Taste
from tests.strategies.numbers import any_format, requantize


def shared_network(seed: int, taste: Taste = USUAL) -> LayerGraph:
    """The network of this seed."""
    return network(seed, replace(taste, without=(*ROWS_AND_TREES, "min_pool", "top_k", "segments")), Computed)


class Computed(Blocks):
    """No bipolar tensors; all layers round half to even.

    Thresholds are those of a multiplication.
    """

    def elements(self, *, bipolar: bool = False) -> Elements:
        return super().elements(bipolar=False)

    def rescale(self, sums: IntArray, like: Elements) -> Rescale:
        made = requantize(self.rng, sums.reshape(-1, sums.shape[-1]), like.format, like.zero_point)
        made = replace(made, rounding=Rounding.HALF_EVEN)
        few = like.format.bits <= 4 and made.multiplier.all()
        return thresholds_of(made) if few and self.rng.random() < 0.5 else made

    def weight_format(self) -> IntFormat:
        found = any_format(self.rng, most_bits=self.taste.bits)
        return found if found.bipolar or found.bits < 8 else replace(found, signed=True)
