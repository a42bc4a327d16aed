"""The parts of a routed design, beside it: the integer model, how it was quantized, and the plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import cached_step, digest, is_whole
from hwflow_base.files.sources import read_text
from hwflow_base.files.state import StateFile

from hwflow.stages.other_weights import with_room

from .. import hls
from ..host.identity import identity
from ..layers.base import LayerGraph
from ..layers.store import load_graph, save_graph
from ..quantize import Quantized
from ..synth import Board
from ..synth.expected_clock import outside_of

#: What a routed design was made of, beside it.
DESIGN, PLAN, SETTINGS, NOTE = "design", "plan.yaml", "quantize.yaml", "design.json"
FILE = StateFile("the note whether a routed design is reweightable", "run `hwflow synth` again")


def keep_design(quantized: Quantized, plan: hls.Plan, folder: Path, *, reweightable: bool) -> None:
    """Write the integer model, its settings and the plan of the routed design in `folder` beside it."""
    note, text = FILE.text({"reweightable": reweightable}), hls.plan_to_yaml(plan)

    def make(place: Path) -> None:
        save_graph(quantized.graph, place)
        (place / PLAN).write_text(text, encoding="utf-8")
        (place / SETTINGS).write_text(quantized.settings, encoding="utf-8")
        (place / NOTE).write_text(note, encoding="utf-8")

    cached_step(folder / DESIGN, digest(identity(quantized.graph, plan), text, note, quantized.settings), make)


@dataclass(frozen=True)
class RoutedDesign:
    """The parts that `keep_design` left: the graph in the form of its hardware, the plan, and the settings.

    The settings are "" of a model that came quantized.
    """

    folder: Path
    graph: LayerGraph
    plan: hls.Plan
    settings: str
    reweightable: bool

    @staticmethod
    def of(folder: Path, board: Board) -> RoutedDesign:
        """Read it from the folder of a synthesis.  HwflowError where it is missing or damaged."""
        place = folder / DESIGN
        if not place.is_dir():
            raise HwflowError(
                f"'{folder}' must hold a routed design and what it was made of",
                f"run `hwflow synth --board {board.name}` for the first model, or name it with --base",
            )
        graph = load_graph(place)
        reweightable = FILE.read(place / NOTE).get("reweightable")
        if not isinstance(reweightable, bool):
            raise FILE.damaged(place / NOTE)
        graph = with_room(graph) if reweightable else graph
        source = place / PLAN
        plan = hls.plan_from_yaml(read_text(source), graph, board.technology(), source=str(source),
                                  outside=outside_of(board))
        settings = read_text(place / SETTINGS)
        if not is_whole(place):
            raise HwflowError(
                f"'{place}' must be as `hwflow synth` left it, but files in it were changed since",
                "run `hwflow synth` again",
            )
        return RoutedDesign(folder, graph, plan, settings, reweightable)
