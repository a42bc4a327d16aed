"""A decoder with caches of keys and values as hardware: a text, token by token, is that of the golden model."""

from __future__ import annotations

from hwflow import golden, hls
from hwflow.quantize import quantize
from hwflow.quantize.passes.streaming import keep_states
from tests.networks.playing import play_plan
from tests.networks.test_rtl import plan_of, stalls_of
from tests.quantize.cache_models import ROWS, decoder
from tests.quantize.test_caches import tokens


def test_a_text() -> None:
    """Two texts, so that the second finds the rows of the first where it has none of its own yet."""
    rows = tokens(ROWS + 3)
    quantized = quantize(keep_states(decoder()), rows)
    graph, plan = quantized.graph, plan_of(quantized.graph, 3)
    assert isinstance(plan, hls.Plan)
    stalls = stalls_of(5)[-1]
    played = play_plan(graph, plan, golden.run_prologue(quantized, rows), stalls)
    assert not played.wrong, f"{stalls}: {played.wrong}"
