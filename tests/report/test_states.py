"""`hwflow info` lists what a model keeps from frame to frame, and where a board keeps it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwflow import onnx
from hwflow.onnx.model import Model
from hwflow.pipeline.planning import plan_for
from hwflow.quantize import quantize
from hwflow.quantize.passes.streaming import keep_states
from hwflow.synth import load_board
from hwflow.views.pictures.design import design_graph
from tests.e2e.command import Cli
from tests.quantize.recurrent_models import packed
from tests.quantize.state_models import lstm_gates, shift_cache


def listed(cli: Cli, model: Model, *options: str) -> tuple[str, list[dict[str, object]]]:
    x = next(value.tensor.shape for value in model.graph.inputs if value.name == "x" and value.tensor)
    onnx.save(model, Path("m.onnx"))
    np.savez("m.npz", in_x=np.random.default_rng(0).normal(0, 1, (20, *x)).astype(np.float32))  # type: ignore[misc]
    words = ("info", "m.onnx", "--data", "m.npz", *options)
    found = cli(*words, "--json").json["states"]
    return cli(*words).out, found


def test_without_a_board(cli: Cli) -> None:
    out, found = listed(cli, shift_cache(channels=4, taps=3))
    assert "kept in" not in out
    assert [(each["state"], each["bits"], each["kept"]) for each in found] == [
        ("cache0", 2 * 3 * 8, None), ("cache1", 2 * 4 * 8, None)]


@pytest.mark.parametrize(("board", "kept", "where", "said"), [
    ("ulx3s_85f", "queue", "tables", "a queue in tables"),
    ("icebreaker", "frame memory", "shared0", "the frame memory of shared0"),
])
def test_with_a_board(cli: Cli, board: str, kept: str, where: str, said: str) -> None:
    out, found = listed(cli, lstm_gates(), "--state", "h_in=h_out", "--state", "c_in=c_out", "--board", board)
    assert said in out
    assert found == [{"state": name, "frame": "1x1x4", "format": "int8", "bits": 32, "kept": kept, "where": where}
                     for name in ("h_in", "c_in")]


@pytest.mark.parametrize("board", ["ulx3s_85f", "icebreaker"])
def test_the_picture_of_a_design_has_states(board: str) -> None:
    """In stages of their own, and inside of a shared stage: each is a box that is read, and one that is made."""
    model = keep_states(lstm_gates(), {"h_in": "h_out", "c_in": "c_out"})
    graph = quantize(model, {"x": np.random.default_rng(0).normal(0, 1, (20, 1, 3)).astype(np.float32)}).graph
    plan = plan_for(graph, graph, load_board(board))
    assert "lstm" in plan._repr_html_()
    picture = design_graph(plan)
    places = {box.identifier: k for k, box in enumerate(picture.boxes)}
    assert {"state-0", "state-1", "next-0", "next-1"} < places.keys()
    assert all(any(arrow.source == places[f"state-{k}"] for arrow in picture.arrows) for k in range(2))
    assert all(sum(arrow.sink == places[f"next-{k}"] for arrow in picture.arrows) == 1 for k in range(2))
    assert sum("state h_in" in text for box in picture.boxes for text, _ in box.lines) == 1


def test_states_of_a_layer(cli: Cli) -> None:
    out, found = listed(cli, packed())
    (state,) = found
    assert (state["kept"], state["state"]) == ("layer", f"{state['where']}, lstm")
    assert " lstm " in out
